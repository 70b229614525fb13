"""Ends the app when a signal asks for it or its terminal goes away, and gives the terminal back."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from gputop.terminal.painting.holding import holding

EXIT_CODE = 128 + signal.SIGHUP
ASKED = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
    signal.SIGXCPU,
)  # fmt: skip
"""Signals that ask to leave, or end a process that knows nothing of them: schedulers warn with
SIGUSR1, SIGXCPU says that a login node's time is spent. Ctrl+C and Ctrl+\\ are keys in the app."""
RESET = (
    b"\x1b[?2026l\x1b[m"  # a picture that was cut, and its colours
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l"  # mouse
    b"\x1b[?2004l\x1b[?1004l\x1b[?2048l\x1b[<u"  # paste, focus, sizes, keys
    b"\x1b[?7h\x1b[?25h\x1b[?1049l"  # line wrap, cursor, the screen from before
)
"""Undoes everything that is requested of a terminal."""
TURN_SECONDS = 1.0
"""How long the end waits for a thread that writes to the terminal."""


def guard() -> None:
    """Until `watch` takes over, let a signal give the terminal back and end the process.

    Textual has the terminal for a tenth of a second before the app can listen to signals. Ctrl+C
    is no exception here: one that meets a class in the making becomes another error, and Python
    ends by the signal after one that met its `exec`. Call it in the main thread, before anything
    is drawn.
    """
    stdin, stderr = sys.__stdin__, sys.__stderr__
    if stdin is None or stderr is None:
        return
    # Keys may come from a terminal that was opened to read, which takes no RESET.
    keys, drawn_on = stdin.fileno(), stderr.fileno()
    before = termios.tcgetattr(keys)

    def end(code: int, _frame: FrameType | None) -> None:
        holding.turn.acquire(timeout=TURN_SECONDS)
        with suppress(OSError, termios.error):
            if holding.begun or termios.tcgetattr(keys) != before:
                termios.tcsetattr(keys, termios.TCSANOW, before)
                os.write(drawn_on, RESET)
        os._exit(128 + code)

    for code in (signal.SIGHUP, *ASKED):
        # An ignored signal (nohup) stays ignored.
        if signal.getsignal(code) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(code, end)


def watch(stop: Callable[[int], None]) -> None:
    """Look after this process's terminal from a daemon thread and signal handlers.

    A terminal that is gone ends the process at once: there is nobody to tell, and Textual would
    read end-of-file in a loop or print a traceback. A signal calls `stop`, which leaves in order,
    with the exit code that shells give it. Call it in the main thread, inside the event loop.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    try:
        for asked in ASKED:
            loop.add_signal_handler(asked, stop, 128 + asked)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, _hung_up, stop)
    except (RuntimeError, ValueError):
        return  # Not the main thread: whoever runs the app there handles signals.
    for number in _terminals():
        threading.Thread(target=_wait, args=(number,), name="hangup", daemon=True).start()


def _terminals() -> list[int]:
    found = []
    for stream in (sys.__stdin__, sys.__stderr__):
        try:
            number = -1 if stream is None else stream.fileno()
        except (OSError, ValueError):
            continue
        if number >= 0 and os.isatty(number):
            found.append(number)
    return found


def _hung_up(stop: Callable[[int], None]) -> None:
    """Leave in order where only the signal came and the terminal is still there."""
    terminals = _terminals()
    if not terminals or any(_poll(number, 0) for number in terminals):
        leave()
    stop(EXIT_CODE)


def _wait(number: int) -> None:
    _poll(number, None)
    leave()


def _poll(number: int, milliseconds: int | None) -> bool:
    """Whether the terminal is gone, at the latest after that time; without one, when it is."""
    poll = select.poll()
    # No event is asked for: hang-up and error are always reported, input never.
    poll.register(number, 0)
    return bool(poll.poll(milliseconds))


def leave() -> None:
    """End silently; our children see their end of the pipe close."""
    os._exit(EXIT_CODE)
