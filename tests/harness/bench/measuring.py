"""Seconds of a core and memory of one command, or of the app, each in a fresh process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.support.places import ROOT
from tests.support.terminal import ROW, Terminal

QUIET_SHARE = 0.2
"""Share of a core below which the app counts as done with what it was asked."""
WAITING_SHARE = 0.5
"""Share of a second that its threads may wait for a core meanwhile: a starved app is not quiet."""
LONGEST_SECONDS = 120.0


class Cost(NamedTuple):
    """What a process took."""

    seconds: float
    """Of a core, user and system."""
    mib: float
    """The most memory that it held."""
    code: int = 0
    """Its exit code, or minus the signal that ended it."""


class AppCost(NamedTuple):
    """What the app took until it was quiet on each screen, and then while nobody pressed a key."""

    figures: Cost
    """Until the first figures of a GPU are on screen."""
    first: Cost
    """Until the first screen is quiet: the wiring, the prediction and the findings are there."""
    screens: dict[str, Cost]
    idle_percent: float
    """Of a core."""


STARTER = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, os.waitstatus_to_exitcode(status))
"""
"""Starts a command and prints its cost. Linux counts as a process's memory also what the one that
started it held at that moment (execve(2) keeps ru_maxrss), so that one has to be small."""


def of_command(arguments: Sequence[str]) -> Cost:
    """Run `gputop ARGUMENTS`; what it writes is thrown away."""
    command = [sys.executable, "-m", "gputop", *arguments]
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", STARTER, *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds, kib, code = done.stdout.split()
    return Cost(float(seconds), int(kib) / 1024, int(code))


def of_app(command: Sequence[str], screens: dict[str, str], idle_seconds: float) -> AppCost:
    """Open the app, go to each screen by its key, then leave it alone on the first one."""
    with Terminal([], command=command) as terminal:
        process = psutil.Process(terminal.process.pid)
        terminal.wait_for(ROW, LONGEST_SECONDS)
        figures = Cost(_seconds(process), _most_mib(process.pid))
        first = _until_quiet(terminal, process, 0.0)
        shown = {}
        for name, key in screens.items():
            before = _seconds(process)
            terminal.send(key)
            shown[name] = _until_quiet(terminal, process, before)
        terminal.send("1")
        _until_quiet(terminal, process, 0.0)
        before, began = _seconds(process), time.monotonic()
        _watch(terminal, idle_seconds)
        idle = (_seconds(process) - before) / (time.monotonic() - began)
        terminal.send("q")
        terminal.wait_end()
    return AppCost(figures, first, shown, 100 * idle)


def _until_quiet(terminal: Terminal, process: psutil.Process, before: float) -> Cost:
    """Wait until a second goes by in which it did next to nothing."""
    end = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < end:
        now, waited = _seconds(process), _waited(process.pid)
        _watch(terminal, 1.0)
        took, waited = _seconds(process) - now, _waited(process.pid) - waited
        if took < QUIET_SHARE and waited < WAITING_SHARE:
            break
    return Cost(_seconds(process) - before, _most_mib(process.pid))


def _watch(terminal: Terminal, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.read()


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _waited(pid: int) -> float:
    """Seconds that its threads have waited for a core (proc(5), schedstat)."""
    nanoseconds = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            nanoseconds += int(path.read_text(encoding="ascii").split()[1])
    return nanoseconds / 1e9


def _most_mib(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
