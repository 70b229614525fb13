"""A real terminal for the whole program: a pty, its size, and what is on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from types import TracebackType

from tests.support.places import ROOT

ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-2AB]|[@-Z\\-_])"
)
APP = "q +quit"
"""In the line of keys: what is on screen before that, `gputop.first_picture` drew."""
ROW = r"[━╸─] +\d+ +[━╸─]"
"""How busy a GPU is, beside the bar of its memory, in its row on Node."""
END = b"\0end of what the program wrote\0"


def _take_control() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def end(process: subprocess.Popen[bytes], *descriptors: int) -> None:
    """Kill a program with all that it started, and close its terminal."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


class Terminal:
    """Runs `gputop ARGUMENTS` in a pty of its own and keeps everything it writes."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        columns: int = 160,
        lines: int = 50,
        environment: dict[str, str] | None = None,
        command: Sequence[str] | None = None,
        folder: str = str(ROOT),
        controls: bool = False,
    ) -> None:
        """`controls`: the terminal is the program's own, whose Ctrl+C then is a signal."""
        self.written = b""
        self._master, slave = pty.openpty()
        self._size(columns, lines)
        before = termios.tcgetattr(slave)
        self._before = before
        self._slave = slave
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [*(command or (sys.executable, "-m", "gputop")), *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={**os.environ, "TERM": "xterm-256color", **(environment or {})},
            start_new_session=True,
            close_fds=True,
            preexec_fn=_take_control if controls else None,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end(self.process, self._master, self._slave)

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """Change the size, as a window does."""
        self._size(columns, lines)
        os.kill(self.process.pid, signal.SIGWINCH)

    def hang_up(self) -> None:
        """Take the terminal away."""
        os.close(self._master)
        os.close(self._slave)
        os.kill(self.process.pid, signal.SIGHUP)

    def send(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def type(self, data: bytes) -> None:
        """Send bytes, whether or not they are keys."""
        os.write(self._master, data)

    def read(self, seconds: float = 0.05) -> None:
        """Take what was written within that time."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            with contextlib.suppress(OSError):
                self.written += os.read(self._master, 1 << 16)

    def text(self) -> str:
        """Everything written so far without escape sequences."""
        return ESCAPES.sub(b"", self.written).decode("utf-8", "replace")

    def wait_for(self, pattern: str, seconds: float = 60.0) -> float:
        """Wait until the text matches; gives the seconds since the start of the program."""
        sought = re.compile(pattern)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.read()
            if sought.search(self.text()):
                return time.perf_counter() - self.started
            if self.process.poll() is not None:
                self._read_rest()
                if sought.search(self.text()):
                    return time.perf_counter() - self.started
                break
        raise AssertionError(f"{pattern!r} not seen; last: {self.text()[-1500:]!r}")

    def wait_end(self, seconds: float = 60.0) -> float:
        """Wait for the program to end; gives the seconds it took from now."""
        started = time.perf_counter()
        while self.process.poll() is None:
            self.read(0.01)
            assert time.perf_counter() - started < seconds, "still running"
        self._read_rest()
        return time.perf_counter() - started

    def _read_rest(self) -> None:
        """Take all that an ended program wrote: what comes before a mark of our own."""
        try:
            os.write(self._slave, END)
        except OSError:
            return  # hung up
        end = time.perf_counter() + 60
        while not self.written.endswith(END):
            assert time.perf_counter() < end, "the terminal does not give what was written"
            self.read()
        self.written = self.written.removesuffix(END)

    def sane(self) -> bool:
        """Whether the terminal's modes are as before: echo, line mode, signals."""
        return termios.tcgetattr(self._slave) == self._before

    def forget(self) -> None:
        """Begin a new text."""
        self.written = b""
