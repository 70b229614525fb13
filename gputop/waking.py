"""Begins to start NVML, which takes its time, while we import what asks it."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress

READING = ("topo", "check", "explain", "flags", "snapshot", "jobs")
"""Commands that read this machine, unless they are told to read something else."""
_ELSEWHERE = ("--from", "--demo", "--help", "-h", "--list", "--all", "--search", "--deadline")
"""What reads nothing here, or forks first: a driver that is open does not survive that."""


def wake_for(arguments: list[str]) -> None:
    """Wake the driver where a command line will ask it; a guess, wrong at no cost."""
    words = {word.partition("=")[0] for word in arguments}
    if words.intersection(READING) and words.isdisjoint(_ELSEWHERE):
        wake_driver()


def wake_driver() -> None:
    """Start NVML in a thread, which may hang with the driver."""
    threading.Thread(target=_start_nvml, name="waking", daemon=True).start()


def _start_nvml() -> None:
    # Without a driver, or with one that fails, the source `nvml` finds that out and says so.
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libnvidia-ml.so.1").nvmlInit_v2()
