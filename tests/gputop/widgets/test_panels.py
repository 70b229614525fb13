"""What lies below a panel."""

from __future__ import annotations

import pytest
from rich.segment import ControlType, Segment
from textual.color import Color
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen

from gputop.app import GpuTop
from gputop.widgets import panels
from gputop.widgets.panels import Dimmed
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
