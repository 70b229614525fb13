"""Dying with the parent, whatever the own code is doing.

Linux sends a chosen signal to a process when the *thread* that started it ends
(prctl(2), PR_SET_PDEATHSIG). The kernel does it, so it also works while C code holds the
interpreter lock. The setting survives exec and is not inherited by fork: every process of a chain
sets its own. `keeper` uses this twice, and takes care of grandchildren besides.
"""

import ctypes
import os
import signal
import sys
import threading
from typing import BinaryIO

_PR_SET_PDEATHSIG = 1

_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def die_with_parent(parent_pid: int, signal_number: int = signal.SIGKILL) -> bool:
    """Ask for the signal when the parent ends; leave at once if it has ended already.

    False where the system has no such thing (then watch stdin instead).
    """
    asked = _LIBC is not None and _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0) == 0
    if os.getppid() != parent_pid:
        os._exit(1)
    return asked


def die_at_end_of(stream: BinaryIO) -> None:
    """A second means, for systems without the first: a thread that waits for the stream's end.

    It kills this process alone: the keeper, which is of the same group, then clears up. It needs
    the interpreter lock to act, so it does not help while C code holds it.
    """

    def watch() -> None:
        while stream.read(4096):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
