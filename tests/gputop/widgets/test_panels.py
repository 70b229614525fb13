"""What lies below a panel."""

from __future__ import annotations

import pytest
from rich.segment import ControlType, Segment
from textual.color import Color
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.widgets import OptionList

from gputop.app import GpuTop
from gputop.widgets import panels
from gputop.widgets.panels import Dimmed, TypedChoicePanel
from tests.support.app import SIZES, demo_report, give, press

pytestmark = pytest.mark.usefixtures("every_picture")


async def test_the_screen_below_is_dimmed_as_textual_dims_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Dimmed] = []

    def kept(screen: Screen[None], color: Color) -> Dimmed:
        drawn.append(Dimmed(screen, color))
        return drawn[-1]

    monkeypatch.setattr(panels, "Dimmed", kept)
    async with GpuTop().run_test(size=SIZES[0]) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        below = pilot.app.screen
        segments = list(pilot.app.console.render(below._compositor))
        await press(pilot, "w")
        assert {one.screen for one in drawn} == {below}
        color = drawn[0].color
        assert 0 < color.a < 1
    assert len({segment.style for segment in segments}) > 5
    segments += [Segment("plain"), Segment("", None, [(ControlType.BELL,)])]
    for laid in (color, color.with_alpha(0)):
        dimmed = list(Dimmed.process_segments(segments, laid))
        assert dimmed == list(BackgroundScreen.process_segments(segments, laid))
    assert len({segment.style for segment in dimmed}) > 5


async def test_a_click_whose_options_are_gone_chooses_nothing() -> None:
    """Letters behind a click change the list before the click is heard of."""
    taken: list[str | None] = []

    def offers(typed: str) -> list[tuple[str, str]]:
        return [(name, name) for name in ("alpha", "beta", "gamma") if name.startswith(typed)]

    async with GpuTop().run_test(size=SIZES[0]) as pilot:
        panel = TypedChoicePanel("A list", offers, "letters")
        await pilot.app.push_screen(panel, taken.append)
        await pilot.pause()
        found = panel.query_one(OptionList)
        for index in (2, 0):
            clicked = OptionList.OptionSelected(found, found.options[index], index)
            panel._offer("b")
            panel.on_option_list_option_selected(clicked)
            await pilot.pause()
            assert taken == []
            panel._offer("")
        panel.on_option_list_option_selected(OptionList.OptionSelected(found, found.options[1], 1))
        await pilot.pause()
    assert taken == ["beta"]
