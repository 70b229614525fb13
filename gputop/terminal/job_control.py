"""Stops and continues the app together with the shell that started it."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.driver import Driver

UNABLE = "Ctrl+Z stops gputop only where a shell with job control started it by itself"


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


def watch(driver: Driver | None) -> None:
    """Take the terminal again after any stop, even SIGSTOP, which no process notices.

    Textual, which expects its own stop alone, would otherwise take a terminal that it has: with a
    second thread for the keys, and what it gives back at the end is its own raw mode. Schedulers
    send SIGCONT to jobs that they never stopped. Call it in the main thread.
    """
    known = getattr(driver, "_must_signal_resume", None)
    if driver is None or known is None or signal.getsignal(signal.SIGCONT) is signal.SIG_DFL:
        return

    taking = again = False

    def continued(*_: object) -> None:
        nonlocal taking, again
        again = True
        if taking:
            return  # a signal within the handler: the terminal would be taken twice
        taking = True
        try:
            while again:
                again = False
                take()
        finally:
            taking = False

    def take() -> None:
        if not driver._auto_restart:
            return
        if not driver._must_signal_resume:  # type: ignore[attr-defined]
            if not in_front():
                # `bg`: sleep on until the shell gives the terminal back.
                os.kill(os.getpid(), signal.SIGSTOP)
                return
            driver.suspend_application_mode()
            driver._must_signal_resume = True  # type: ignore[attr-defined]
        driver.resume_application_mode()

    signal.signal(signal.SIGCONT, continued)


def in_front() -> bool:
    """Whether the terminal is ours; true where that is not known."""
    with suppress(AttributeError, OSError, ValueError):
        return os.tcgetpgrp(sys.__stdin__.fileno()) == os.getpgrp()  # type: ignore[union-attr]
    return True
