"""What the program takes from a typed command to its first GPU row, and then while nobody types.

    python -m tests.harness.bench.start                          this machine's GPUs, live
    python -m tests.harness.bench.start --demo hgx-h100-8
    python -m tests.harness.bench.start --runs 9 --beside 'nvitop -m full'

Opens it in a terminal of 120 x 40 and reads what it writes. `wall` counts from the start of the
process, `CPU` is user and system time of all its threads. The first run fills the caches and is
not counted; of the others the least and the middle one are printed, as only the least is the
program's own. Needs the standard library alone, so that it runs on a machine with GPUs too.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.support.terminal import ROW, Terminal

ROW_BESIDE = r"B */ *[\d.]+[MG]iB"
"""Used and all memory in a row of nvitop: "0B / 140.4GiB"."""
QUIET_SHARE, QUIET_SECONDS = 0.1, 1.0
"""The first screen is whole once the program took less than this share of a core for so long."""
LONGEST_SECONDS = 60.0


class Moment(NamedTuple):
    """How far the program had come, and what that took."""

    wall: float
    """Seconds since its process was started."""
    cpu: float
    """Seconds of a core."""
    written: int
    """Bytes."""


class Idle(NamedTuple):
    """What it takes while nobody presses a key."""

    percent: float
    """Of a core."""
    written: float
    """Bytes a second."""
    rss: float
    pss: float
    """MiB, at the end."""


def started(command: Sequence[str], row: str) -> tuple[Moment, Moment]:
    """Start it once, until its first screen is whole."""
    with _terminal(command) as terminal:
        return _first(terminal, row)


def rested(command: Sequence[str], row: str, seconds: float) -> Idle:
    """Start it, wait until it is quiet, and leave it alone."""
    with _terminal(command) as terminal:
        _first(terminal, row)
        begun = _now(terminal)
        _watch(terminal, seconds)
        ended = _now(terminal)
        rss, pss = _memory(terminal.process.pid)
    passed = ended.wall - begun.wall
    return Idle(
        100 * (ended.cpu - begun.cpu) / passed, (ended.written - begun.written) / passed, rss, pss
    )


def _terminal(command: Sequence[str]) -> Terminal:
    return Terminal([], columns=120, lines=40, command=command)


def _first(terminal: Terminal, row: str) -> tuple[Moment, Moment]:
    """The first row of a GPU, and the whole screen: when the quiet began that followed it."""
    terminal.wait_for(row, LONGEST_SECONDS)
    shown = whole = _now(terminal)
    while whole.wall < LONGEST_SECONDS:
        _watch(terminal, QUIET_SECONDS)
        now = _now(terminal)
        if now.cpu - whole.cpu < QUIET_SHARE * QUIET_SECONDS:
            break
        whole = now
    return shown, whole


def _now(terminal: Terminal) -> Moment:
    wall = time.perf_counter() - terminal.started
    # The clock of another process's CPU time: clock_getcpuclockid(3), as Linux numbers it.
    cpu = time.clock_gettime((~terminal.process.pid << 3) | 2)
    return Moment(wall, cpu, len(terminal.written))


def _watch(terminal: Terminal, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        terminal.read(left)


def _memory(pid: int) -> tuple[float, float]:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    found = dict(re.findall(r"^(Rss|Pss): +(\d+) kB", text, re.MULTILINE))
    return int(found["Rss"]) / 1024, int(found["Pss"]) / 1024


def _table(name: str, command: Sequence[str], row: str, runs: int, seconds: float) -> None:
    found = [started(command, row) for _ in range(runs + 1)][1:]
    print(f"\n{name:34}{'wall':>8}{'':>8}{'CPU':>8}{'':>8}{'bytes':>10}")
    print(f"{'':34}{'least':>8}{'middle':>8}{'least':>8}{'middle':>8}{'middle':>10}")
    for title, place in (("first GPU row", 0), ("whole first screen", 1)):
        moments = [run[place] for run in found]
        walls, cpus = [one.wall for one in moments], [one.cpu for one in moments]
        figures = (min(walls), median(walls), min(cpus), median(cpus))
        written = median(one.written for one in moments)
        print(f"{title:34}" + "".join(f"{one:6.3f} s" for one in figures) + f"{written:10.0f}")
    idle = rested(command, row, seconds)
    print(
        f"idle for {seconds:.0f} s: {idle.percent:.2f} % of a core, {idle.written:.0f} bytes/s; "
        f"memory {idle.rss:.1f} MiB RSS, {idle.pss:.1f} MiB PSS",
        flush=True,
    )


def main() -> None:
    """Measure gputop, and the other program where one is named."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.bench.start",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--demo", help="a demo instead of this machine")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15.0, help="of doing nothing")
    parser.add_argument("--beside", default="", help="another program's command line")
    parser.add_argument("--row", default=ROW_BESIDE, help="what shows that its first row is there")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody starts it uncompiled twice
    asked = ["--demo", given.demo] if given.demo else []
    name = f"gputop, {f'demo {given.demo}' if given.demo else 'live'}"
    _table(name, [sys.executable, "-m", "gputop", *asked], ROW, given.runs, given.seconds)
    if given.beside:
        beside = shlex.split(given.beside)
        _table(given.beside, beside, given.row, given.runs, given.seconds)


if __name__ == "__main__":
    main()
