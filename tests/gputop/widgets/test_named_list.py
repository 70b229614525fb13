"""The cursor of lists that follow a name: kept, clamped, clicked."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from gputop.screens.flags.list import FlagList, FlagRow
from gputop.screens.probes.entries import ProbeEntry
from gputop.screens.probes.list import ProbeList
from gputop.widgets.named_list import NamedList
from tests.support.app import settle


def give(table: NamedList, *names: str) -> None:
    if isinstance(table, FlagList):
        table.show_rows([FlagRow(name=name) for name in names])
    elif isinstance(table, ProbeList):
        table.show_entries([ProbeEntry(name=name) for name in names])


class Holder(App[None]):
    """A list and the messages that it posted."""

    def __init__(self, table: NamedList) -> None:
        super().__init__()
        self.table = table
        self.picked: list[tuple[str, bool]] = []

    def compose(self) -> ComposeResult:
        yield self.table

    def on_named_list_picked(self, message: NamedList.Picked) -> None:
        self.picked.append((message.name, message.twice))


@pytest.mark.parametrize("kind", [FlagList, ProbeList])
def test_a_cursor_stays_on_its_name(kind: type[FlagList] | type[ProbeList]) -> None:
    table = kind()
    assert table.take_names("abc")
    assert table.selected == "a"
    table.selected = "c"
    assert not table.take_names("abc")
    assert table.take_names("ca")
    assert (table.selected, table.place) == ("c", 0)
    assert table.take_names("bac")
    assert table.place == 2
    table.take_names("xy")
    assert table.selected == "x"
    table.take_names("yx", first=True)
    assert table.selected == "y"
    table.take_names("")
    assert table.place == 0
    assert table.marks_at(9) == ()


@pytest.mark.parametrize(("kind", "above"), [(FlagList, 0), (ProbeList, 1)])
async def test_a_click_selects_the_name_under_it(
    kind: type[FlagList] | type[ProbeList], above: int
) -> None:
    app = Holder(kind())
    async with app.run_test(size=(80, 10)) as pilot:
        give(app.table, "one", "two", "three")
        await settle(pilot)
        await pilot.click(app.table, offset=(5, above + 1))
        assert app.picked == [("two", False)]
        await pilot.click(app.table, offset=(5, above + 2), times=2)
        assert app.picked[-1] == ("three", True)
        before = len(app.picked)
        await pilot.click(app.table, offset=(5, above + 3))
        assert len(app.picked) == before
        if above:
            await pilot.click(app.table, offset=(5, 0))
            assert app.table.column == "probe"
            assert app.picked[before:] == [("three", False)]
        assert app.table.marks[0].line == above + 2
        app.table.move(-100)
        await settle(pilot)
        assert app.picked[-1] == ("one", False)
