"""Notices that the terminal went away, and ends the process then."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable

EXIT_CODE = 128 + signal.SIGHUP


def watch(stop: Callable[[], None]) -> None:
    """Look after this process's terminal from a daemon thread and two signal handlers.

    A terminal that is gone ends the process at once: there is nobody to tell, and Textual would
    read end-of-file in a loop or print a traceback. `stop` is called on SIGTERM, to leave in order.
    Call it in the main thread, inside the event loop.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_signal_handler(signal.SIGHUP, leave)
    except (RuntimeError, ValueError):
        return  # Not the main thread: whoever runs the app there handles signals.
    for stream in (sys.__stdin__, sys.__stderr__):
        try:
            number = -1 if stream is None else stream.fileno()
        except (OSError, ValueError):
            continue
        if number >= 0 and os.isatty(number):
            threading.Thread(target=_wait, args=(number,), name="hangup", daemon=True).start()


def _wait(number: int) -> None:
    poll = select.poll()
    # No event is asked for: hang-up and error are always reported, input never.
    poll.register(number, 0)
    poll.poll(None)
    leave()


def leave() -> None:
    """End without a word; children of ours see their end of the pipe close."""
    os._exit(EXIT_CODE)
