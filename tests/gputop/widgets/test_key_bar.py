"""The line of keys: help and the way out are always on it, whole."""

from __future__ import annotations

import pytest

from gputop.app import GpuTop
from gputop.screens import NAMES
from tests.grid import share
from tests.support.app import demo_report, give, picture, press


@pytest.mark.parametrize("width", share([60, 80, 100], 2))
async def test_every_screen_names_help_and_the_way_out(width: int) -> None:
    async with GpuTop().run_test(size=(width, 24)) as pilot:
        await give(pilot, demo_report("mi250x-8"))
        for number, _ in enumerate(NAMES, start=1):
            await press(pilot, str(number))
            keys = picture(pilot).splitlines()[-1].rstrip()
            assert keys.endswith("? keys  q quit")
            assert "…" not in keys


async def test_keys_come_back_with_the_room() -> None:
    async with GpuTop().run_test(size=(60, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "3")
        assert "find" not in picture(pilot).splitlines()[-1]
        await pilot.resize_terminal(160, 50)
        await pilot.pause(0.1)
        assert "a all  / find  ? keys  q quit" in picture(pilot).splitlines()[-1]
