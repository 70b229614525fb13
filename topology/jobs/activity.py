"""What the processes of a job do: two readings of /proc, and what changed between them.

proc_pid_stat(5): fields 14 and 15 are the time in user mode and in the kernel, in clock ticks.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from ..model.part import Raw
from ..model.readings import ProcessState
from ..sources.files.tree import Tree, Unreadable, clean
from ..sources.linux.containers import throttled
from ..sources.linux.process_facts import STATES
from ..sources.linux.process_files import sleep_of, wait_channel
from ..sources.linux.sleeps import (
    MOST_AT_FIRST,
    MOST_TOGETHER,
    SleepingThread,
    asleep,
    threads_of,
)

VARIABLES = frozenset(
    {
        "HOME",
        "LOCAL_WORLD_SIZE",
        "NCCL_INSPECTOR_DUMP_DIR",
        "NCCL_INSPECTOR_ENABLE",
        "NCCL_RAS_ADDR",
        "NCCL_RAS_ENABLE",
        "OMP_NUM_THREADS",
        "TORCH_FR_DUMP_TEMP_FILE",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        "XDG_CACHE_HOME",
    }
)
"""What is kept of the variables of a process; HOME and XDG_CACHE_HOME only to find dumps."""
FULL_CORE = 0.9
"""From this share of a core on, a process is said to use a whole one."""
INTERPRETERS = ("python", "pypy")
LIMIT_ENVIRONMENT = 4 * 2**20
LIMIT_COMMAND_LINE = 64 * 1024
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")

_STAT = re.compile(r"^\d+ \((.*)\) ([A-Za-z]) (.*)$", re.DOTALL)
_UTIME, _STIME, _THREADS, _START, _RSS = 10, 11, 16, 18, 20
"""Places after the state; the state is field 3 of the line."""


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of one process."""

    pid: int
    at: float
    """Seconds of a clock that only counts up."""
    state: ProcessState | None
    started_ticks: int
    """With the PID, the identity of the process."""
    user_seconds: float
    system_seconds: float
    first_seconds: float | None = None
    """CPU time of its first thread, in user mode and in the kernel; None where that is not told."""
    queued_seconds: float | None = None
    """How long its first thread stood in the queue of its CPUs; None where that is not told."""
    written_bytes: int | None = None
    """What it has had written to disks so far; None where that may not be read."""
    memory_bytes: int
    threads: int
    sleep: tuple[str, ...] | None = None
    """What stays equal during one uninterruptible sleep; None where it is in none."""
    channel: str | None = None
    """The function of the kernel in which it sleeps so, where the kernel says it."""
    sleepers: tuple[SleepingThread, ...] = ()
    """Its other threads that are in one."""
    periods: tuple[tuple[str, tuple[int, int]], ...] = ()
    """By cgroup that limits its CPU time: periods so far, and in how many it was stopped."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What one process did between two readings."""

    pid: int
    seconds: float
    """From the first reading to the second."""
    states: tuple[ProcessState | None, ProcessState | None]
    user_cores: float | None = None
    """Cores' worth of time in user mode; None where the readings are too near each other."""
    system_cores: float | None = None
    first_cores: float | None = None
    """Of both, what its first thread took: the program of Python. PyTorch goes backward in another
    one. None where it is not known."""
    queued: float | None = None
    """Share of the time in which its first thread could run and had no CPU."""
    written_per_second: float | None = None
    """Bytes that it had written to disks; None where that may not be read."""
    memory_bytes: int | None = None
    grown_bytes: int | None = None
    """What its resident memory gained; negative where it shrank."""
    threads: int | None = None
    asleep: bool = False
    """Whether both readings found it in one and the same uninterruptible sleep."""
    asleep_thread: str | None = None
    """Another thread that both readings found in one, by name and number; None where the process
    itself is in one too."""
    channel: str | None = None
    """The function of the kernel in which it sleeps so."""
    stopped_periods: tuple[tuple[str, tuple[int, int]], ...] = ()
    """By cgroup: periods between the readings, and in how many its CPU time was used up."""
    program: str | None = None
    """File name of its script: "train.py"; None where it has none or may not be read."""
    variables: tuple[tuple[str, str], ...] | None = None
    """Those of VARIABLES that it was started with; None where they may not be read."""

    @property
    def cores(self) -> float | None:
        """Cores' worth of time, in user mode and in the kernel; None where it is not known."""
        return None if self.user_cores is None else self.user_cores + (self.system_cores or 0.0)

    @property
    def stayed(self) -> str | None:
        """The state that both readings found; None where they differ."""
        return self.states[0] if self.states[0] == self.states[1] else None


def glance(
    tree: Tree,
    pids: Iterable[int],
    clock: Callable[[], float] = time.monotonic,
    limited: Collection[int] = (),
    before: Mapping[int, Glance] | None = None,
) -> dict[int, Glance]:
    """Read the processes once; those that are gone or cannot be read are left out.

    `limited`: those whose cgroups limit their CPU time; `before`: an earlier reading, whose
    sleeping threads alone are looked at again.
    """
    found: dict[int, Glance] = {}
    looked = 0
    for pid in pids:
        text = tree.text(f"proc/{pid}/stat", 4096)
        at = clock()
        match = _STAT.match(text) if isinstance(text, str) else None
        rest = match[3].split() if match else []
        if match is None or len(rest) <= _RSS or not all(_whole(rest[at]) for at in _NEEDED):
            continue
        if before is None:
            tids = threads_of(tree, pid)[: max(min(MOST_AT_FIRST, MOST_TOGETHER - looked), 0)]
        else:
            known = before.get(pid)
            tids = [] if known is None else [thread.tid for thread in known.sleepers]
        looked += len(tids)
        found[pid] = Glance(
            pid=pid,
            at=at,
            sleepers=tuple(asleep(tree, pid, tids)),
            state=STATES.get(match[2]),
            started_ticks=int(rest[_START]),
            user_seconds=int(rest[_UTIME]) / TICKS,
            system_seconds=int(rest[_STIME]) / TICKS,
            first_seconds=_first(tree, pid),
            queued_seconds=_queued(tree, pid),
            written_bytes=_written(tree, pid),
            memory_bytes=int(rest[_RSS]) * PAGE,
            threads=int(rest[_THREADS]),
            sleep=sleep_of(tree, pid) if match[2] == "D" else None,
            channel=_channel(wait_channel(tree, pid)) if match[2] == "D" else None,
            periods=tuple(throttled(tree, f"proc/{pid}/cgroup").items()) if pid in limited else (),
        )
    return found


def _first(tree: Tree, pid: int) -> float | None:
    """Seconds of CPU time of the thread that the process began with."""
    text = tree.text(f"proc/{pid}/task/{pid}/stat", 4096)
    match = _STAT.match(text) if isinstance(text, str) else None
    rest = match[3].split() if match else []
    if len(rest) <= _STIME or not all(_whole(rest[at]) for at in (_UTIME, _STIME)):
        return None
    return (int(rest[_UTIME]) + int(rest[_STIME])) / TICKS


def _queued(tree: Tree, pid: int) -> float | None:
    """Nanoseconds on the run queue, the second number (Documentation/scheduler/sched-stats.rst)."""
    text = tree.text(f"proc/{pid}/schedstat", 256)
    words = text.split() if isinstance(text, str) else []
    return int(words[1]) / 1e9 if len(words) == 3 and _whole(words[1]) else None


def _written(tree: Tree, pid: int) -> int | None:
    """Bytes that it had sent to storage (proc_pid_io(5)), which its owner alone may read."""
    text = tree.text(f"proc/{pid}/io", 1024)
    lines = text.splitlines() if isinstance(text, str) else []
    told = next((line.split() for line in lines if line.startswith("write_bytes:")), [])
    return int(told[1]) if len(told) == 2 and _whole(told[1]) else None


def _share(before: float | None, now: float | None, seconds: float) -> float | None:
    """What grew, for each second; None where it is not known."""
    if before is None or now is None or seconds <= 0:
        return None
    return max(now - before, 0.0) / seconds


def _channel(text: Raw) -> str | None:
    """The name of a function of the kernel; "0" stands for one that is not told."""
    return text if isinstance(text, str) and re.fullmatch(r"[\w.]{2,80}", text) else None


_NEEDED = (_UTIME, _STIME, _THREADS, _START, _RSS)


def _whole(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 20


def activity_delta(
    tree: Tree, first: dict[int, Glance], second: dict[int, Glance]
) -> dict[int, Activity]:
    """What each process did that both readings found; a number that was given anew is left out."""
    found = {}
    for pid, now in second.items():
        before = first.get(pid)
        if before is None or before.started_ticks != now.started_ticks:
            continue
        seconds = now.at - before.at
        # A clock tick is 10 ms: over less than ten of them a share says little.
        long = seconds >= 10 / TICKS
        itself = now.sleep is not None and now.sleep == before.sleep
        stuck = [thread for thread in now.sleepers if thread in before.sleepers]
        thread = None if itself or not stuck else stuck[0]
        found[pid] = Activity(
            pid=pid,
            seconds=seconds,
            states=(before.state, now.state),
            user_cores=(now.user_seconds - before.user_seconds) / seconds if long else None,
            system_cores=(now.system_seconds - before.system_seconds) / seconds if long else None,
            first_cores=_share(before.first_seconds, now.first_seconds, seconds if long else 0.0),
            queued=_share(before.queued_seconds, now.queued_seconds, seconds if long else 0.0),
            written_per_second=_share(
                before.written_bytes, now.written_bytes, seconds if long else 0.0
            ),
            memory_bytes=now.memory_bytes,
            grown_bytes=now.memory_bytes - before.memory_bytes,
            threads=now.threads,
            asleep=itself,
            asleep_thread=None if thread is None else thread.label,
            channel=now.channel
            if thread is None
            else _channel(wait_channel(tree, pid, thread.tid)),
            stopped_periods=tuple(
                (group, (periods - was[0], stopped - was[1]))
                for group, (periods, stopped) in now.periods
                if (was := dict(before.periods).get(group)) is not None
            ),
            program=program(tree, pid),
            variables=variables(tree, pid),
        )
    return found


def program(tree: Tree, pid: int) -> str | None:
    """The file name of the script or module that an interpreter runs; no other argument is kept."""
    data = tree.octets(f"proc/{pid}/cmdline", 0, LIMIT_COMMAND_LINE)
    words = [] if isinstance(data, Unreadable) else [*map(clean, data.split(b"\0"))]
    if not words or not os.path.basename(words[0]).startswith(INTERPRETERS):
        return None
    wanted = iter(words[1:])
    for word in wanted:
        if word == "-m":
            return next(wanted, None)
        if word in ("-c", "-"):
            return None
        if word in ("-W", "-X"):
            next(wanted, None)
        elif not word.startswith("-"):
            return os.path.basename(word)[:80] or None
    return None


def variables(tree: Tree, pid: int) -> tuple[tuple[str, str], ...] | None:
    """Those of VARIABLES that a process was started with; None where they may not be read."""
    data = tree.octets(f"proc/{pid}/environ", 0, LIMIT_ENVIRONMENT)
    if isinstance(data, Unreadable):
        return None
    pairs = (entry.partition(b"=") for entry in data.split(b"\0"))
    named = {clean(name): clean(value)[:512] for name, sign, value in pairs if sign}
    return tuple(sorted((name, value) for name, value in named.items() if name in VARIABLES))
