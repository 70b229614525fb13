"""Starts the app over and over, each time with a Ctrl+C at another moment of the start.

    python -m tests.support.first_moments WAY FIRST STEP
    python -m tests.support.first_moments WAY NAME

A moment is a call or a return in the code that has to do with the terminal, in the main thread;
NAME stands for the first return of a function of that name. Every start is a fork of one process
that has imported everything, on a terminal of its own. Prints how many were tried, and a line for
each that left the terminal otherwise.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

from gputop import app, first_picture, session
from gputop.terminal import hangup
from tests.support.terminal import END, ESCAPES

PLACES = (
    "/gputop/session.py", "/terminal/early_screen.py", "/terminal/hangup.py",
    "/terminal/painting/driver.py", "/terminal/painting/sender.py", "/textual/drivers/",
)  # fmt: skip
GUARDED, WATCHED = hangup.guard.__code__, hangup.watch.__code__
GIVEN_BACK = b"\x1b[?1049l"
MODE = re.compile(rb"\x1b\[\?(\d+)([hl])")
RESTING = (b"7", b"25")
"""Modes that are on before and after: lines wrap, the cursor shows."""
NEVER = 1 << 30
WAYS = {
    "early": (False, True),
    "late": (False, False),
    "early, threads first": (True, True),
    "late, threads first": (True, False),
}
"""Whether other threads come before the signal, and whether there is a picture before Textual."""
PAUSE_SECONDS = 0.01
"""Enough for a thread to write what it has."""
_write = os.write


class Moments:
    """Counts moments from the first one on that is guarded, and interrupts at one."""

    def __init__(self, at: int | str, *, pause: bool) -> None:
        self._at, self._pause, self._count = at, pause, -NEVER
        self._counts = {GUARDED: True}
        """By code: whether its calls and returns are moments."""

    def heard(self, frame: FrameType, event: str, _: Any) -> None:
        """What `sys.setprofile` calls."""
        code = frame.f_code
        counts = self._counts.get(code)
        if counts is None:
            counts = any(place in code.co_filename for place in PLACES)
            self._counts[code] = counts
        if counts:
            self._hear(code, event)

    def _hear(self, code: CodeType, event: str) -> None:
        self._count += 1
        if event == "return" and code is GUARDED:
            self._count = 0
        elif event == "return" and code is WATCHED and self._at == NEVER:
            _write(1, b"%d moments" % self._count)
            os._exit(0)
        if self._count == self._at or (event == "return" and code.co_name == self._at):
            self._at = 0
            if self._pause:
                time.sleep(PAUSE_SECONDS)
            os.kill(os.getpid(), signal.SIGINT)


def _slow_write(descriptor: int, data: bytes) -> int:
    """Give other threads time behind what gives the terminal back."""
    written = _write(descriptor, data)
    if data == hangup.RESET:
        time.sleep(PAUSE_SECONDS)
    return written


def _start(slave: int, at: int | str, way: str) -> None:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for descriptor in range(3):
        os.dup2(slave, descriptor)
    vars(os)["write"] = _slow_write
    pause, early = WAYS[way]
    if not early:
        vars(first_picture)["show"] = lambda *_: None
    sys.setprofile(Moments(at, pause=pause).heard)
    os._exit(session.open_app(demo="hgx-h100-8"))


def started(at: int | str, way: str) -> tuple[int, bytes, bool]:
    """The exit code, all that was written, and whether the terminal's modes are as before."""
    master, slave = os.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(slave)
    child = os.fork()
    if not child:
        try:
            _start(slave, at, way)
        finally:
            os._exit(99)
    written, code = b"", None
    while not written.endswith(END):
        if select.select([master], [], [], 0.02)[0]:
            written += os.read(master, 1 << 16)
        elif code is None and (ended := os.waitpid(child, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(ended[1])
            os.write(slave, END)
    sane = termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)
    return code or 0, written.removesuffix(END), sane


def left(code: int, written: bytes, sane: bool) -> str:
    """What is not as it was before; "" where all is."""
    drawn, given_back, behind = written.rpartition(GIVEN_BACK)
    on = {mode: at.start() for at in MODE.finditer(written) if (mode := at[1]) and at[2] == b"h"}
    off = {mode: at.start() for at in MODE.finditer(written) if (mode := at[1]) and at[2] == b"l"}
    found = {
        f"exit code {code}": code != 128 + signal.SIGINT,
        "the terminal's modes": not sane,
        "a mode": any(at > off.get(mode, -1) for mode, at in on.items() if mode not in RESTING),
        "a picture": bool(drawn and not given_back) or bool(ESCAPES.sub(b"", behind)),
        "a traceback": b"Traceback" in written,
    }
    return ", ".join(what for what, is_so in found.items() if is_so)


def main(way: str, first: str, step: str = "") -> None:
    """Interrupt at a moment, or at every `step`th from the `first`."""
    assert app.__file__, "imported before the forks"
    tried: Sequence[int | str] = [first]
    if step:
        found = re.search(rb"(\d+) moments", started(NEVER, way)[1])
        assert found
        tried = range(int(first), int(found[1]) + 1, int(step))
    for at in tried:
        if said := left(*started(at, way)):
            sys.stdout.write(f"left at {at}: {said}\n")
    sys.stdout.write(f"{len(tried)} tried\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
