"""The picture before Textual's first one: the same, as far as it goes."""

from __future__ import annotations

from collections.abc import Iterator

import pyte
import pytest
from rich.color import ColorSystem
from textual.strip import Strip

from gputop.app import GpuTop
from gputop.first_picture import picture, rows
from gputop.messages import ReportReady
from gputop.terminal.inks import EarlyInks
from gputop.terminal.preferences import Preferences
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from tests.grid import turns
from tests.harness.bench.nodes import MadeNode

NODES = {
    "demo": lambda: DemoFeed("hgx-h100-8").snapshot(),
    "sick": lambda: DemoFeed("sick-h100-8").at(3),
    "large": lambda: MadeNode("xgmi", 32).snapshot(),
}
Cell = tuple[str, str, str, bool]
"""Text, colours of text and ground, bold."""


def drawn(snapshot: NodeSnapshot, columns: int, lines: int, theme: str) -> list[list[Cell]]:
    """What a terminal shows of the picture."""
    screen = pyte.Screen(columns, lines)
    inks = EarlyInks.of_terminal(theme)
    assert inks is not None
    pyte.Stream(screen).feed(picture(snapshot, columns, lines, inks))
    return [
        [(cell.data, cell.fg, cell.bg, cell.bold) for cell in map(row.__getitem__, range(columns))]
        for row in map(screen.buffer.__getitem__, range(lines))
    ]


def cells(strip: Strip) -> Iterator[Cell]:
    """The same of what Textual draws."""
    for text, style, _ in strip:
        assert style is not None
        assert style.color is not None
        assert style.bgcolor is not None
        assert style.color.triplet is not None
        assert style.bgcolor.triplet is not None
        front, back = style.color.triplet.hex[1:], style.bgcolor.triplet.hex[1:]
        yield from ((character, front, back, bool(style.bold)) for character in text)


@pytest.mark.parametrize(
    ("node", "terminal"),
    turns(NODES, [(80, 24, "gputop-light"), (120, 40, ""), (60, 14, "gputop-contrast")]),
)
async def test_textual_draws_the_same(
    node: str, terminal: tuple[int, int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, lines, theme = terminal
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    snapshot = NODES[node]()
    remembered = Preferences()
    remembered.keep("theme", theme)
    app = GpuTop(remembered=remembered)
    async with app.run_test(size=(columns, lines)) as pilot:
        app.post_message(ReportReady(Report(Node(snapshot))))
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
    early = drawn(snapshot, columns, lines, theme)
    count = len(rows(snapshot, columns, lines))
    assert count > 5
    *shown, keys = ([*cells(strip)] for strip in (*strips[:count], strips[-1]))
    differing = [
        (line, column, ours, theirs)
        for line in range(count)
        for column, (ours, theirs) in enumerate(zip(early[line], shown[line], strict=True))
        # Of a blank only the ground is seen; the scroll bar comes with Textual.
        if (ours != theirs if ours[0] != " " else ours[2] != theirs[2])
        and theirs[0] not in "▁▂▃▄▅▆▇█"
    ]
    assert differing == []
    # Below the table there is nothing yet but the ground, and the ground of the line of keys.
    assert all(cell[0] == " " for row in early[count:] for cell in row)
    assert early[-1][0][2] == keys[0][2]


def test_a_theme_that_only_textual_knows_gets_none() -> None:
    assert EarlyInks.of_terminal("nord") is None
    assert EarlyInks.of_terminal("gputop-../dark") is None


@pytest.mark.parametrize("size", [(59, 24), (80, 13)])
def test_a_terminal_that_is_too_small_gets_none(size: tuple[int, int]) -> None:
    inks = EarlyInks(ColorSystem.TRUECOLOR)
    assert picture(NODES["demo"](), *size, inks) == ""
