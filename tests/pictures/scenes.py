"""Which screens of which demos are drawn, and by which keys one gets there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.app import StepFeed, press, settle

from .cells import Row, rows_of

DEMOS = ("hgx-h100-8", "sick-h100-8", "pcie-l40s-8", "mi300x-8", "dgx-1v")
SIZES = ((80, 24), (120, 40), (160, 50))
KEYS: dict[str, tuple[str, ...]] = {
    name: (str(number),) for number, name in enumerate(NAMES, start=1)
}
"""The keys that open each screen and show what it is for."""
TICKS = 20
"""Seconds of made-up life before the picture is taken, for what shows the last minute."""
INTERVAL = 0.05
PATIENCE_SECONDS = 60.0
WAITS = "working out"


async def screens(demo: str, size: tuple[int, int]) -> dict[str, tuple[Row, ...]]:
    """Every screen of one demo at one size, from one run of the app, by the name of the screen."""
    return {name: rows_of(pilot.app) async for name, pilot in each_screen(demo, size)}


async def each_screen(demo: str, size: tuple[int, int]) -> AsyncIterator[tuple[str, Pilot[int]]]:
    """The name of each screen, and the app while it shows it."""
    made = DemoFeed(demo)
    feed = StepFeed(made.at(0))
    async with GpuTop(feed, INTERVAL).run_test(size=size) as pilot:
        await until_judged(pilot)
        assert isinstance(pilot.app, GpuTop)
        pilot.app.recent.add_earlier(made.earlier())
        for tick in range(1, TICKS + 1):
            feed.put(made.at(tick))
            await asyncio.sleep(INTERVAL)
        await settle(pilot)
        for name, keys in KEYS.items():
            await press(pilot, *keys)
            await worked_out(pilot)
            yield name, pilot


async def worked_out(pilot: Pilot[int]) -> None:
    """Wait until the screen says no longer that it works something out."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while any(WAITS in run.text for row in rows_of(pilot.app) for run in row):
        assert time.monotonic() < give_up, "something is worked out without an end"
        await asyncio.sleep(INTERVAL)
        await settle(pilot)


async def until_judged(pilot: Pilot[int]) -> None:
    """Wait for the prediction and the findings, which follow the first picture."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not _judged(pilot.app):
        assert time.monotonic() < give_up, "no prediction and no findings"
        await asyncio.sleep(INTERVAL)
    await settle(pilot)


def _judged(app: object) -> bool:
    report = app.report if isinstance(app, GpuTop) else None
    return report is not None and report.node.decided and report.diagnosis is not None
