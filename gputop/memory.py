"""Memory that a limit leaves (`ulimit -v`): how to get along with it, and what to say else."""

from __future__ import annotations

import ctypes
import errno
import resource
import threading
from contextlib import suppress

from gputop.exits import CANNOT_TELL, Exit

STACK_BYTES = 1024 * 1024
"""Of each thread under a limit. The usual 8 MiB count in full, though no thread uses them."""
NEEDED_BYTES = 64 * 1024 * 1024
"""What a command takes beyond its start: with less, threads fail to begin and are waited for."""
_ARENA_MAX = -8
"""M_ARENA_MAX of mallopt(3)."""
_WORDS = ("can't start new thread", "can't allocate lock", "failed to map", "allocate memory")


def fit() -> None:
    """Take little address space where that is limited; Exit where there is too little of it."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    limited = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    if not limited:
        return
    import mmap

    threading.stack_size(STACK_BYTES)
    # Else glibc sets 64 MiB apart for each thread.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    # A thread that ends asks for it; without it the process is aborted.
    with suppress(OSError):
        ctypes.CDLL("libgcc_s.so.1")
    try:
        mmap.mmap(-1, NEEDED_BYTES).close()
    except (OSError, MemoryError) as error:
        megabytes = min(limited) // 1_000_000
        text = f"the limit of {megabytes} MB on memory (ulimit -v, -d) is too low for gputop"
        raise Exit(text, CANNOT_TELL) from error


def lacking(error: Exception) -> bool:
    """Whether this is what happens where memory does not suffice."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    known = isinstance(error, (RuntimeError, ImportError, OSError))
    return known and any(words in str(error) for words in _WORDS)
