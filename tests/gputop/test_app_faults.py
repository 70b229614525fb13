"""The app on a machine whose driver never answers: the screen lives, and shows what is known."""

from __future__ import annotations

import time
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.topology.sources.live import LiveFeed
from tests.support.app import picture
from tests.support.faults.machine import sources
from tests.support.faults.plan import Fault, release

DEADLINE_SECONDS = 0.05


async def seen(pilot: Pilot[Any], text: str) -> str:
    """The screen, once it says so."""
    give_up = time.monotonic() + 60
    while text.lower() not in picture(pilot).lower():
        assert time.monotonic() < give_up, picture(pilot)
        await pilot.pause(0.05)
    return picture(pilot)


@pytest.mark.parametrize(
    "function", ["nvmlInitWithFlags", "nvmlDeviceGetName", "nvmlDeviceGetUtilizationRates"]
)
async def test_a_driver_that_never_answers_freezes_nothing(function: str) -> None:
    fault = Fault(function=function, blocks=True)
    feed = LiveFeed(sources("h100-8", [fault], deadline=DEADLINE_SECONDS))
    app = GpuTop(feed)
    try:
        async with app.run_test(size=(160, 50)) as pilot:
            await seen(pilot, "not answer")
            await seen(pilot, "GPU7")
            await pilot.press("?")
            await seen(pilot, "keys")
            await pilot.press("escape", "2")
            await seen(pilot, "GPU0")
    finally:
        feed.close()
        release()
    assert app.return_code in (0, None)
