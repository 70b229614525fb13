"""Pictures of Node and Pairs: six demo shapes, two sizes, one tick."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.app import GpuTop
from tests.grid import shown_size, turns
from tests.support.app import SHAPES, SIZES, demo_report, give, picture, press, rounds

KEYS: dict[str, tuple[str, ...]] = {"node": (), "pairs": ("3", "m", "m", "down")}


@pytest.mark.parametrize(
    ("shape", "size", "screen"),
    turns([*SHAPES, "mi250x-8", "mi300x-8"], SIZES, KEYS),
    ids=shown_size,
)
def test_picture(snap_compare: Any, shape: str, size: tuple[int, int], screen: str) -> None:
    async def draw(pilot: Pilot[Any]) -> None:
        await give(pilot, demo_report(shape))
        await press(pilot, *KEYS[screen])
        # A thread looks for the variable that would change a pair.
        async for _ in rounds(pilot):
            if "working out" not in picture(pilot):
                return

    assert snap_compare(GpuTop(), terminal_size=size, run_before=draw)
