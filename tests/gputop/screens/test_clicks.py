"""What looks clickable is: values of a variable, views and levels of the probes."""

from __future__ import annotations

from gputop.app import GpuTop
from tests.gputop.screens.probes.shown import healthy
from tests.support.app import app_of, demo_report, give, picture, press, rounds, settle, text


async def test_a_row_of_values_is_tried() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("pcie-l40s-8"))
        await press(pilot, "5")
        async for _ in rounds(pilot):
            if "NCCL_P2P_LEVEL" in text(pilot, "#list"):
                break
        await press(pilot, "down")
        async for _ in rounds(pilot):
            lines = picture(pilot).splitlines()
            places = [y for y, line in enumerate(lines) if " PHB " in line and "of 28" in line]
            if places:
                break
        await pilot.click(offset=(6, places[0]))
        await settle(pilot)
        assert app_of(pilot).what_if.tried.now("NCCL_P2P_LEVEL") == "PHB"


async def test_views_and_levels_are_chosen() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, healthy())
        await press(pilot, "4")
        _, levels, views, *_ = picture(pilot).splitlines()
        await pilot.click(offset=(levels.index("full"), 1))
        await settle(pilot)
        assert "cost at level full" in text(pilot, "#probe-list")
        await pilot.click(offset=(views.index("earlier runs"), 2))
        await settle(pilot)
        assert pilot.app.screen.query_one("#probe-earlier").display
