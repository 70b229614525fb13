"""Whether a shell is there that could bring a stopped app back."""

from __future__ import annotations

import os


def can_stop() -> bool:
    """Whether Ctrl+Z may stop this process: a shell with job control started it by itself.

    Behind `ssh HOST gputop`, in a window of its own or within a script nobody would ever continue
    it, and the terminal would hang.
    """
    parent = os.getppid()
    try:
        return (
            os.getpgrp() == os.getpid()
            and os.getsid(parent) == os.getsid(0)
            and os.getpgid(parent) != os.getpgrp()
        )
    except OSError:
        return False
