"""Ask a program one thing: so long and so much at the most, and no longer than anybody waits."""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Optional

_LOOK_EVERY_SECONDS = 0.05
_REAP_SECONDS = 0.5
_CHUNK_BYTES = 1 << 14


class NoAnswer(Exception):  # noqa: N818  (an outcome, not an error)
    """There is none: `reason` is "cancelled", "late" or "too much"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def ask(
    command: Sequence[str],
    seconds: float,
    most_bytes: int,
    cancel: Optional[threading.Event] = None,
) -> bytes:
    """What a program writes to its stdout until it ends; NoAnswer or OSError if that is nothing.

    The program gets a process group of its own, which is killed however this ends, so that
    nothing of what it started stays either. `cancel` is looked at twenty times a second.
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
        # Not reaped so far, so the group's number is still its own.
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
            # Asked before the look at the pipe: what an ended program wrote is in there by then.
            ended = _has_ended(process.pid)
            if ready.select(0.0 if ended else _LOOK_EVERY_SECONDS):
                chunk = os.read(pipe, _CHUNK_BYTES)
                if not chunk:
                    return bytes(said)
                said += chunk
                if len(said) > most_bytes:
                    raise NoAnswer("too much")
            elif ended:
                return bytes(said)  # somebody whom it started holds the pipe


def _has_ended(pid: int) -> bool:
    """Whether it is over, without reaping it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
