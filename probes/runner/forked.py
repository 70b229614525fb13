"""Children of a process that has torch imported already, so that each starts in milliseconds.

A fork is safe only while the process has one thread of Python's and no GPU open, since CUDA does
not survive it. So the process that imports torch answers nothing itself: see `serve`.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Optional

from . import lifeline

_POLL_SECONDS = 0.01
_GRACE_SECONDS = 0.3
"""A probe that has just answered may take this long to end, once nobody listens."""


class Forked:
    """A child process, with what subprocess.Popen has of the same name."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: Optional[int] = None
        """As in Popen: negative for a signal."""

    def poll(self) -> Optional[int]:
        """The return code, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, seconds: float) -> Optional[int]:
        """Wait a limited time for its end."""
        give_up = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < give_up:
            time.sleep(_POLL_SECONDS)
        return self.returncode

    def kill(self) -> None:
        """Kill it."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def fork(work: "Callable[[], int]", name: str) -> Forked:
    """Run `work` in a child that dies with this process; its result is the exit code.

    `name`: what ps and top show, at most fifteen letters.
    """
    assert threading.active_count() == 1, "a fork copies one thread only"
    parent = os.getpid()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads that C code may have
        pid = os.fork()
    if pid:
        return Forked(pid)
    status = 1
    try:
        lifeline.die_with_parent(parent)
        lifeline.name_process(name)
        status = work()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  (a child must never go on as its parent)
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def serve(requests: int, limit_bytes: int, answer: "Callable[[bytes], int]") -> int:
    """Answer each line of the descriptor `requests` in a child, one after the other.

    Ends with the descriptor, or as the first child ends that fails: with its exit code or by its
    signal.
    """
    buffer, status = b"", 0
    while status == 0:
        while b"\n" not in buffer and len(buffer) < limit_bytes:
            chunk = os.read(requests, 65536)
            if not chunk:
                return status
            buffer += chunk
        line, _, buffer = buffer.partition(b"\n")
        child = fork(partial(answer, line + b"\n"), "gputop-probe")
        while child.poll() is None:
            ready, _, _ = select.select([requests], [], [], _POLL_SECONDS)
            if ready:
                chunk = os.read(requests, 65536)
                if not chunk:
                    # Nobody listens any more: the kernel ends the child with this process.
                    if child.wait(_GRACE_SECONDS) is None:
                        os.kill(os.getpid(), signal.SIGKILL)
                    break
                buffer += chunk
        status = child.returncode or 0
    if status < 0:
        os.kill(os.getpid(), -status)
    return status
