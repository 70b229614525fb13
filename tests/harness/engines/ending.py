"""Everything that an engine started ends with the script, also after Ctrl+C."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_SECONDS = 5.0


@contextmanager
def ended() -> Iterator[None]:
    """End all processes that were started inside, and their orphans; only those."""
    others = {process.pid for process in _below()}
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        again = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            _end(others)
        finally:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
            signal.signal(signal.SIGINT, again)
            signal.signal(signal.SIGTERM, before)


def _below() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _end(others: Collection[int]) -> None:
    """Ask once, then kill what is left, until nothing is: who dies may leave children to us."""
    give_up = time.monotonic() + _PATIENCE_SECONDS

    def ours() -> list[psutil.Process]:
        return [process for process in _below() if process.pid not in others]

    for process in ours():
        _send(process, signal.SIGTERM)
    while left := ours():
        late = time.monotonic() > give_up
        for process in left:
            if late:
                _send(process, signal.SIGKILL)
            _reap(process.pid)
        if time.monotonic() > give_up + _PATIENCE_SECONDS:
            numbers = ", ".join(str(process.pid) for process in left)
            raise RuntimeError(f"processes that do not end: {numbers}")
        time.sleep(0.05)


def _send(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _reap(number: int) -> None:
    try:
        os.waitpid(number, os.WNOHANG)
    except ChildProcessError:  # a grandchild: it becomes ours when its parent has ended
        return
