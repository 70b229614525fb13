"""A terminal at the end of a line of some speed: it shows what arrives, and answers questions."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from tests.support.painting.judge import Shown
from tests.support.places import ROOT
from tests.support.terminal import end

PIECE_SECONDS = 0.02
QUESTION = b"\x1b[6n"
OWN_DRIVER = "textual.drivers.linux_driver:LinuxDriver"


class Line:
    """Runs `gputop ARGUMENTS` in a pty that is read at some bytes per second; 0 is at once."""

    def __init__(
        self,
        arguments: Sequence[str],
        size: tuple[int, int] = (120, 40),
        speed: int = 0,
        *,
        answers: bool = True,
        painted: bool = True,
        environment: dict[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "gputop"),
        folder: str = str(ROOT),
    ) -> None:
        self.shown = Shown(*size)
        self.count = 0
        """Bytes that arrived."""
        self.speed = speed
        self._answers = answers
        self._credit = 0.0
        self._then = time.monotonic()
        self._last = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._master, slave = pty.openpty()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", *size[::-1], 0, 0))
        given = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        given.pop("NO_COLOR", None)
        given.pop("TEXTUAL_DRIVER", None)
        if not painted:
            given["TEXTUAL_DRIVER"] = OWN_DRIVER
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={**given, **(environment or {})},
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> Line:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end(self.process, self._master)

    def press(self, keys: str) -> None:
        """Send keys, which take no time."""
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Change the size, as a window does; a terminal keeps what it shows, as far as it fits."""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)
        self.shown.resize(rows, columns)
        os.kill(self.process.pid, signal.SIGWINCH)

    def take(self) -> int:
        """Show what arrives within a fiftieth of a second; gives how many bytes that were."""
        most = 1 << 16
        if self.speed:
            now = time.monotonic()
            self._credit = min(self._credit + (now - self._then) * self.speed, 0.2 * self.speed)
            self._then = now
            most = int(self._credit)
        if most < 1:
            time.sleep(PIECE_SECONDS)
            return 0
        ready, _, _ = select.select([self._master], [], [], PIECE_SECONDS)
        data = b""
        if ready:
            with contextlib.suppress(OSError):  # the program has ended
                data = os.read(self._master, most)
            if self.speed:
                time.sleep(PIECE_SECONDS)
        if self.speed:
            self._credit -= len(data)
        self.count += len(data)
        self._show(data)
        return len(data)

    def _show(self, data: bytes) -> None:
        if self._answers:
            seen = self._last + data
            os.write(self._master, b"\x1b[1;1R" * seen.count(QUESTION))
            self._last = seen[-len(QUESTION) + 1 :]
        self.shown.feed(self._decoder.decode(data))

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        """Let that time go by, or less; gives how long it was."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds and not until():
            self.take()
        return passed

    def until_quiet(self, seconds: float = 0.6, longest: float = 30.0) -> None:
        """Wait until nothing has arrived for that time, or the figures move alone."""
        last, end = time.monotonic(), time.monotonic() + longest
        while time.monotonic() - last < seconds and time.monotonic() < end:
            if self.take() > 0:
                last = time.monotonic()

    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self.shown.display)
