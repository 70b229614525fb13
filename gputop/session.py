"""Opens the app: reading starts first, then a picture is drawn, and Textual is imported last."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gputop import __version__
from gputop.answers import QUESTIONS
from gputop.commands import NAMES
from gputop.exits import USAGE, Exit
from gputop.terminal import hangup, signs
from gputop.terminal.early_screen import EarlyScreen
from gputop.terminal.outer_colours import forget_outer_colours
from gputop.terminal.output import mute_libraries
from gputop.terminal.preferences import Preferences
from gputop.topology.plugins import PLUGINS
from gputop.waking import wake_driver

if TYPE_CHECKING:
    from gputop.reading import Recording
    from gputop.topology.sources.feed import OpeningFeed


def on_terminal() -> bool:
    """Whether there is a terminal to draw on.

    Textual draws on stderr: with that redirected the screen would stay empty.
    """
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def open_app(
    told: Recording | None = None,
    demo: str | None = None,
    interval: float | None = None,
    *,
    feed: OpeningFeed | None = None,
) -> int:
    """Show `feed`, files, a demo, or this machine until the user leaves; returns the exit code.

    Raises Exit when there is no terminal to draw on, and whatever made the app fail.
    """
    if not on_terminal():
        there = ", ".join((*NAMES, *QUESTIONS))
        raise Exit(f"the app needs a terminal; for scripts there are: {there}", USAGE)
    PLUGINS.hold()
    mute_libraries()
    hangup.guard()
    forget_outer_colours()
    signs.fit(sys.__stderr__)
    # The app switches the collector on again behind the first picture.
    gc.disable()
    # Lets a reading thread run between two imports, not only every 5 ms.
    sys.setswitchinterval(0.0005)
    feed = feed or _feed(told, demo, interval)
    remembered = Preferences.of_user()
    screen = EarlyScreen()
    try:
        from gputop import first_picture

        try:
            if remembered.as_shipped:
                first_picture.show(feed, screen, remembered.get("theme"))
        except Exception as error:
            # What fails here fails in the app too, which then says so on its screen.
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise  # it met a class in the making
        with _without_tls():
            from gputop.app import GpuTop

        app = GpuTop(feed, interval or 1.0, remembered)
        if told is not None:
            app.jobs.show_recorded(told.jobs)
        app.driver_class = screen.driver(app.driver_class)
        app.run()
    finally:
        screen.give_back()
    if app._exception is not None:
        raise app._exception
    return app.return_code or 0


def take_terminal() -> None:
    """Read keys from the terminal where stdin gave the node, as it does in a pipe."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:  # a session without a terminal of its own
        terminal = 2
    if os.isatty(terminal):
        os.dup2(terminal, 0)


def _feed(told: Recording | None, demo: str | None, interval: float | None) -> OpeningFeed:
    if told is None and demo is None:
        wake_driver()
        from gputop.topology.sources.live import LiveFeed

        return LiveFeed(interval=interval, version=__version__)
    from gputop.topology.recorded import feeds

    if told is not None:
        return feeds.FixedFeed(told.snapshot)
    return feeds.DemoFeed(demo or "", interval=interval or 1.0, version=__version__)


@contextmanager
def _without_tls() -> Iterator[None]:
    """Let asyncio be imported as where Python has no ssl: nothing here asks for a connection.

    OpenSSL takes 4 MiB and a hundredth of a second.
    """
    missing = "ssl" not in sys.modules
    if missing:
        sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if missing:
            del sys.modules["ssl"]
