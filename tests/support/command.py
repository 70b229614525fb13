"""The command line as a person types it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys

from gputop.__main__ import run
from tests.support.places import ROOT

DROPPED = """
import ctypes, os, struct, sys

if os.geteuid() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    head = struct.pack("Ii", 0x20080522, 0)  # capabilities(7), version 3
    sets = ctypes.create_string_buffer(24)
    assert libc.capget(head, sets) == 0, os.strerror(ctypes.get_errno())
    words = list(struct.unpack("6I", sets.raw))
    words[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(head, struct.pack("6I", *words)) == 0, os.strerror(ctypes.get_errno())
from gputop.__main__ import main
main()
"""


class Captured(io.TextIOWrapper):
    """A stdout or stderr with a buffer of bytes beneath, as click wants it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="backslashreplace")

    def text(self) -> str:
        """What was written so far."""
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode("utf-8", "backslashreplace")


def gputop(
    *arguments: str, seconds: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run gputop with these arguments and variables; nothing is checked.

    What starts processes, opens the app or takes another library's place runs in a process of its
    own; the rest in this one, which saves the start of Python.
    """
    if (
        not arguments
        or arguments[0] == "probe"
        or any(name.startswith("PYTHON") for name in environment)
    ):
        return gputop_process(*arguments, seconds=seconds, **environment)
    return gputop_here(*arguments, **environment)


def gputop_here(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, whatever the arguments."""
    out, err = Captured(), Captured()
    before = dict(os.environ)
    os.environ.update({"COLUMNS": "80", **environment})
    folder = os.getcwd()
    os.chdir(ROOT)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(list(arguments))
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)
    return subprocess.CompletedProcess(arguments, code, out.text(), err.text())


def gputop_process(
    *arguments: str, seconds: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, whatever the arguments."""
    return subprocess.run(
        [sys.executable, "-m", "gputop", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, **environment},
    )


def powerless(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run gputop so that the mode of a file holds for it even where root runs the tests."""
    return subprocess.run(
        [sys.executable, "-c", DROPPED, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )
