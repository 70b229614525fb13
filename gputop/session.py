"""Opens the app: reading starts first, then the screens are imported, and the two overlap."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from gputop import __version__
from gputop.commands import NAMES
from gputop.exits import USAGE, Exit
from gputop.terminal import hangup, signs

if TYPE_CHECKING:
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.sources.feed import Feed


def open_app(
    snapshot: NodeSnapshot | None = None, demo: str | None = None, interval: float = 1.0
) -> int:
    """Show a snapshot, a demo, or this machine until the user leaves; returns the exit code.

    Raises Exit when there is no terminal to draw on, and whatever made the app fail.
    """
    # Textual draws on stderr: with that redirected the screen would stay empty.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise Exit("the app needs a terminal; for scripts there are: " + ", ".join(NAMES), USAGE)
    hangup.guard()
    signs.fit(sys.__stderr__)
    # The app switches the collector on again behind the first picture.
    gc.disable()
    # Lets a reading thread run between two imports, not only every 5 ms.
    sys.setswitchinterval(0.0005)
    from gputop.topology.recorded import feeds
    from gputop.topology.sources import live as watch

    feed: Feed
    if snapshot is not None:
        feed = feeds.FixedFeed(snapshot)
    elif demo is not None:
        feed = feeds.DemoFeed(demo, interval=interval, version=__version__)
    else:
        feed = watch.LiveFeed(interval=interval, version=__version__)
    from gputop.app import GpuTop

    app = GpuTop(feed, interval)
    app.run()
    if app._exception is not None:
        raise app._exception
    return app.return_code or 0
