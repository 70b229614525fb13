"""When an app under test has nothing left to do, asked of the event loop instead of the clock.

Textual's own `wait_for_idle` compares the time that passed with the CPU time of the process: at
least 20 ms for each key, and on a busy machine an app that gets no CPU looks idle.
"""

from __future__ import annotations

import asyncio
import os
import time
import zlib
from typing import Any

from textual._context import active_app
from textual.screen import Screen

draw = Screen._compositor_refresh

UNMET = (
    "_layout_required",
    "_scroll_required",
    "_repaint_required",
    "_recompose_required",
    "_dirty_widgets",
    "_callbacks",
)


async def wait_for_idle(_: float = 0, max_sleep: float = 1) -> None:
    """Run the loop until no task is ready and the screen is drawn.

    What waits for a thread is idle. `max_sleep` ends the waiting for a picture never done.
    """
    loop: Any = asyncio.get_running_loop()
    app = active_app.get()
    end = time.monotonic() + max_sleep
    below_drawn = False
    while True:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        if app._exit or time.monotonic() > end:
            return
        if app._batch_count or app._resize_timer:
            # Switching screens holds the picture for 50 ms, a new size for 8.
            await asyncio.sleep(0.002)
            continue
        screens = [screen for screen in app._screen_stack if screen.is_current and _waits(screen)]
        if below_drawn:
            # What lies under a panel asks again and again: Textual draws it with the panel.
            screens = [screen for screen in screens if screen is app.screen]
        if not screens:
            if not (app._running and app.screen._compositor._dirty_regions):
                return
            draw_sometimes(app.screen)
            continue
        below_drawn = True
        for screen in screens:
            screen._on_timer_update()  # instead of at the next 60th of a second


def draw_later(screen: Screen[Any]) -> None:
    """Leave the drawing of an app without a terminal to `wait_for_idle`.

    Nobody sees what stands on the screen before the app is idle, and how many such pictures there
    are depends on how fast the machine is.
    """
    if screen.app.is_headless and screen is screen.app.screen:
        screen._dirty_widgets.clear()  # the compositor has noted what of them to draw
    else:
        draw(screen)


SELDOM = 20
"""Of so many pictures without a terminal one is drawn: nobody sees them, and a fifth of what tests
of the app cost is drawing. What a test reads off the screen is drawn for it; tests of the drawing
itself take the fixture `every_picture`. Which one is drawn hangs on the name of the test, so that
it is the same each time and the first picture of an app, the largest, is drawn as seldom."""


def draw_sometimes(screen: Screen[Any]) -> None:
    """Draw one picture of SELDOM."""
    app: Any = screen.app
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    pictures = getattr(app, "pictures_asked", zlib.crc32(test.encode()))
    app.pictures_asked = pictures + 1
    if app.is_headless and pictures % SELDOM:
        screen._compositor._dirty_regions.clear()
    else:
        draw(screen)


def _waits(screen: Screen[Any]) -> bool:
    return any(getattr(screen, name) for name in UNMET)
