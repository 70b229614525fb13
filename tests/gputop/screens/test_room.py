"""What a screen does with little room."""

from __future__ import annotations

import pytest

from gputop.app import GpuTop
from gputop.screens.room import NARROW_BELOW
from gputop.terminal.size import TINY_BELOW
from tests.support.app import text


@pytest.mark.parametrize(
    ("size", "classes"),
    [
        ((NARROW_BELOW, TINY_BELOW[1]), set()),
        ((NARROW_BELOW - 1, TINY_BELOW[1]), {"-narrow"}),
        ((TINY_BELOW[0] - 1, 24), {"-narrow", "-tiny"}),
        ((160, TINY_BELOW[1] - 1), {"-tiny"}),
    ],
)
async def test_the_room_is_known_by_classes(size: tuple[int, int], classes: set[str]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await pilot.pause()
        assert {"-narrow", "-tiny"} & pilot.app.screen.classes == classes
        if "-tiny" in classes:
            assert f"{size[0]}×{size[1]} is too small" in " ".join(text(pilot, "#tiny").split())
