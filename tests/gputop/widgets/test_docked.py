"""The choice of a theme leaves the screen in sight, in the colours that are tried."""

from __future__ import annotations

import re

from gputop.app import GpuTop
from tests.support.app import demo_report, give, press, settle


async def test_the_themes_stand_at_the_right_of_an_undimmed_screen() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        before = pilot.app.export_screenshot()
        await press(pilot, "t")
        await settle(pilot)
        frame = pilot.app.screen.query_one("#frame").region
        assert (frame.width, frame.right, frame.y) == (26, 120, 0)
        were, are = (
            set(re.findall(r"fill: (#[0-9a-f]{6})", drawn))
            for drawn in (before, pilot.app.export_screenshot())
        )
        assert len(were & are) > len(were) // 2
