"""Gives memory back in the app: what closed panels and screens that nobody sees have left."""

from __future__ import annotations

import ctypes
import gc
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gputop.style_cache import forget_results, release_lines, release_old_lines

if TYPE_CHECKING:
    from textual.app import App
    from textual.screen import Screen
    from textual.timer import Timer

FIRST_SECONDS = 5.0
"""After the start, whose own work goes first."""
LEAST_SECONDS = 1.5
"""After a change of the screen, once for all changes meanwhile: what many closed panels take
together before they are collected is what the process keeps."""
RESTING_SECONDS = 60.0
"""Even where no screen changes, so often: figures that move leave texts that nobody draws again."""
COSTS = 20
"""Waits so many times what the last collection took: 5 % of a core while screens change."""


class Tidying:
    """Tidies up behind every change of the screen; used by the app's own thread alone."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._shown: Screen[Any] | None = None
        self._due: Timer | None = None
        self._cost = 0.0

    def screen_changed(self, shown: Screen[Any]) -> None:
        """Release old lines at once; collect what is left a little later, once for many changes."""
        if self._shown is not None:
            release_lines(self._shown)  # a closed panel belongs to no stack of screens any more
        self._shown = shown
        release_old_lines(self._app)
        if self._due is None:
            wait = max(LEAST_SECONDS, COSTS * self._cost)
            self._due = self._app.set_timer(wait, self.collect)

    def collect(self) -> None:
        """Collect closed panels, whose parts know each other, before there are many of them.

        Python alone waits until there is a quarter more of everything, and what the program once
        took stays with it.
        """
        self._due = None
        begun = time.thread_time()
        forget_results()
        gc.collect()
        trim()
        self._cost = time.thread_time() - begun


def trim() -> None:
    """Give the system back what the C library has set aside; takes a millisecond."""
    with suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)
