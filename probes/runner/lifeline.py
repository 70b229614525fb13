"""Ends a process together with its parent, whatever its code is doing.

Linux sends a chosen signal to a process when the *thread* that started it ends
(prctl(2), PR_SET_PDEATHSIG). The kernel does it, so it also works while C code holds the
interpreter lock. The setting survives exec and is not inherited by fork: every process of a chain
sets its own. `keeper` uses this twice and also ends grandchildren.
"""

import ctypes
import os
import queue
import signal
import sys
import threading
from typing import BinaryIO, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_GRACE_SECONDS = 0.3

_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def die_with_parent(parent_pid: int, signal_number: int = signal.SIGKILL) -> bool:
    """Request the signal for the end of the parent; exit at once if it has ended already.

    Returns False if the system cannot do that; then watch stdin instead.
    """
    asked = _LIBC is not None and _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0) == 0
    if os.getppid() != parent_pid:
        os._exit(1)
    return asked


def name_process(name: str) -> None:
    """Choose what ps and top show; where the system cannot do that, nothing changes."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode("ascii")), 0, 0, 0)


class Requests:
    """Reads lines of stdin in a thread; their end is a second way to die with the parent.

    At the end an idle process gets None, and a busy one is killed; the keeper in the same group
    then cleans up. The thread needs the interpreter lock, so it cannot act while C code holds it.
    """

    def __init__(self, stream: BinaryIO, limit_bytes: int) -> None:
        self._lines: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._stream = stream
        self._limit_bytes = limit_bytes
        threading.Thread(target=self._read, name="lifeline", daemon=True).start()

    def next(self) -> Optional[bytes]:
        """Wait for a line of limited length; None at the end."""
        self._idle.set()
        line = self._lines.get()
        self._idle.clear()
        return line

    def _read(self) -> None:
        while True:
            line = self._stream.readline(self._limit_bytes)
            if not line:
                break
            self._lines.put(line)
        self._lines.put(None)
        # The process has just answered and will ask for the next line.
        if not self._idle.wait(_GRACE_SECONDS):
            os.kill(os.getpid(), signal.SIGKILL)
