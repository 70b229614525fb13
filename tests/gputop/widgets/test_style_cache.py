"""What a closed panel leaves in memory."""

from __future__ import annotations

import gc
from typing import Any

from textual._styles_cache import StylesCache
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.messages import ReportReady
from tests.support.app import demo_report


def style_caches() -> int:
    """Caches of rendered lines that are alive; each widget has one."""
    gc.collect()
    return sum(isinstance(thing, StylesCache) for thing in gc.get_objects())


async def open_and_close(pilot: Pilot[Any], times: int) -> None:
    """Open the explanation and the keys, and close them again."""
    for key in ("w", "question_mark") * times:
        await pilot.press(key)
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 2
        await pilot.press("escape")
        await pilot.pause()


async def test_closed_panels_are_let_go() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        pilot.app.post_message(ReportReady(demo_report("sick-h100-8")))
        await pilot.pause()
        await open_and_close(pilot, 1)
        before = style_caches()
        await open_and_close(pilot, 4)
        assert style_caches() <= before
