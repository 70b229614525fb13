"""Runs a program for its output, with limits of time and size and a cancel."""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Optional

from ..protocol.errors import WorkerError

_LOOK_EVERY_SECONDS = 0.05
_REAP_SECONDS = 0.5
_CHUNK_BYTES = 1 << 14


class NoAnswer(WorkerError):  # noqa: N818  (an outcome, not an error)
    """There is no answer: `reason` is "cancelled", "late" or "too much"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def ask(
    command: Sequence[str],
    seconds: float,
    most_bytes: int,
    cancel: Optional[threading.Event] = None,
) -> bytes:
    """The stdout of a program; raises NoAnswer or OSError.

    The program gets its own process group, which is always killed at the end, so that none of its
    children stays. `cancel` is checked twenty times a second.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    try:
        return _read(process, time.monotonic() + seconds, most_bytes, cancel)
    finally:
        # Not reaped yet, so the number of the group is still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_SECONDS)


def _read(
    process: "subprocess.Popen[bytes]",
    give_up: float,
    most_bytes: int,
    cancel: Optional[threading.Event],
) -> bytes:
    pipe = process.stdout.fileno()  # type: ignore[union-attr]
    said = bytearray()
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        while True:
            if cancel is not None and cancel.is_set():
                raise NoAnswer("cancelled")
            if time.monotonic() >= give_up:
                raise NoAnswer("late")
            # Checked before the pipe: everything that an ended program wrote is then in it.
            ended = _has_ended(process.pid)
            if ready.select(0.0 if ended else _LOOK_EVERY_SECONDS):
                chunk = os.read(pipe, _CHUNK_BYTES)
                if not chunk:
                    return bytes(said)
                said += chunk
                if len(said) > most_bytes:
                    raise NoAnswer("too much")
            elif ended:
                return bytes(said)  # a child of the program holds the pipe


def _has_ended(pid: int) -> bool:
    """Whether the program has ended, without reaping it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
