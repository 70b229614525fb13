"""Processes that use a GPU, as the operating system describes them.

The GPU driver knows the PIDs; whoever holds the reader sets `reader.pids`. The raw answer:
{"processes": {"1234": {"user", "command", "affinity": [cpu], "started_at": seconds since the
epoch, "memory_bytes", "arguments": [text], "opens_gpu": true, false or null, "asleep": seconds,
"wchan" and "asleep_thread" of an uninterruptible sleep, "memory_before": [[seconds ago, bytes]],
"library": {"path", "version", "replaced"} of the NCCL or RCCL that it has loaded, and what
linux/process_files.py reads}}}; a value may be {"error": why}, and an "arguments" that nobody asked
for is missing.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ...model.cpulist import written
from ...model.part import PartialNode, Raw
from ...model.readings import ProcessReading
from ...model.record import Gap
from ...model.source import Source
from ...model.versions import LoadedLibrary
from ..files.answers import FileAnswers, items_of, part, whole, words
from ..files.tree import Tree, Unreadable, clean, live_tree
from .nccl_files import VersionsRead, loaded_by
from .process_facts import ZOMBIE_LETTERS, facts
from .process_files import lasting, moving, state
from .sleeps import SleepWatch

if TYPE_CHECKING:
    import psutil

LIMIT_PROCESSES = 1024
LIMIT_ARGUMENTS = 256
LIMIT_CHARACTERS = 1024
GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/renderD", "/dev/dxg")
STRANGER = "the process of this number here has no GPU open: the driver means another one"
ENDED = "the process has ended and waits for its parent"
MINUTE_SECONDS = 60.0
KEPT_READS = 10
"""What hardly ever changes in a process (variables, limits) is read once in so many reads."""


class ProcessesReader:
    """Describes the processes named in `pids`."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.pids: frozenset[int] = frozenset()
        """PIDs to describe; set from outside between two reads."""
        self.with_args = False
        """Whether arguments are read; they may hold secrets."""
        self._openers: dict[int, float] = {}
        self._lasting: dict[int, tuple[int, tuple[Raw, Raw], dict[str, Raw]]] = {}
        """By PID: remaining reads, start time and command, and what /proc said."""
        self._versions: VersionsRead = {}
        self._clock = clock
        self._sleeps = SleepWatch(live_tree(), clock, sleep)
        self._marks: dict[int, tuple[Raw, list[tuple[float, int]]]] = {}
        """By PID: start time, and resident memory at a few moments, the oldest first."""

    def __call__(self) -> Raw:
        """Ask once; a process that has ended is left out."""
        pids = self.pids
        if not pids:
            return {"processes": {}}
        answer = describe(pids, with_args=self.with_args, openers=self._openers)
        # A process that once had a GPU open is not asked again: the list of its files is long.
        self._openers = {
            int(pid): entry["started_at"]
            for pid, entry in answer["processes"].items()
            if entry.get("opens_gpu") and isinstance(entry.get("started_at"), float)
        }
        for pid, entry in answer["processes"].items():
            if entry["opens_gpu"] is not False:
                entry |= self._read(int(pid), (entry["started_at"], entry.get("command")))
        self._lasting = {pid: kept for pid, kept in self._lasting.items() if pid in pids}
        entries = {int(pid): entry for pid, entry in answer["processes"].items()}
        self._sleeps.watch(entries)
        self._watch_memory(entries)
        return answer

    def _watch_memory(self, entries: dict[int, dict[str, Raw]]) -> None:
        """Say what memory each process had when it was first read, and about a minute ago."""
        now, last = self._clock(), self._marks
        self._marks = {}
        for pid, entry in entries.items():
            resident, whose = entry.get("memory_bytes"), entry.get("started_at")
            if not isinstance(resident, int):
                continue
            known = last.get(pid)
            marks = known[1] if known is not None and known[0] == whose else []
            # The first mark, and those of the last minute with the one before it.
            while len(marks) > 2 and now - marks[2][0] >= MINUTE_SECONDS:
                del marks[1]
            entry["memory_before"] = [[round(now - at, 1), held] for at, held in marks[:2]]
            if not marks or now - marks[-1][0] >= MINUTE_SECONDS / 6:
                marks.append((now, resident))
            self._marks[pid] = (whose, marks)

    def _read(self, pid: int, same: tuple[Raw, Raw]) -> dict[str, Raw]:
        left, whose, found = self._lasting.get(pid, (0, None, {}))
        if left <= 0 or whose != same:
            # A library stays loaded: its map, of thousands of lines, is read until it shows one.
            known = found.get("library") if whose == same else None
            found = lasting(live_tree(), pid)
            found["library"] = (
                known
                if isinstance(known, dict) and "path" in known
                else loaded_library(live_tree(), pid, self._versions)
            )
            left = KEPT_READS
        self._lasting[pid] = (left - 1, same, found)
        return moving(live_tree(), pid) | found


def loaded_library(tree: Tree, pid: int, read: VersionsRead) -> Raw:
    """The answer about the library that a process has loaded; None where it has none."""
    found = loaded_by(tree, pid, read)
    if isinstance(found, Unreadable):
        return {"error": found.why}
    return None if found is None else msgspec.structs.asdict(found)


def describe(
    pids: frozenset[int], *, with_args: bool = False, openers: dict[int, float] | None = None
) -> dict[str, Raw]:
    """Describe processes; `openers`: start times of those known to have a GPU open."""
    import psutil  # not before the first paint: it takes 15 ms to load

    found: dict[str, Raw] = {}
    for pid in sorted(pids)[:LIMIT_PROCESSES]:
        try:
            process = psutil.Process(pid)
            entry: dict[str, Raw] = {"started_at": process.create_time()}
            asked: dict[str, Callable[[], Raw]] = {
                "user": process.username,
                "command": process.name,
                "affinity": process.cpu_affinity,
                "memory_bytes": partial(_resident_bytes, process),
            }
            if with_args:
                asked["arguments"] = process.cmdline
            for key, ask in asked.items():
                try:
                    entry[key] = _storable(ask())
                except psutil.ZombieProcess:
                    entry[key] = {"error": ENDED}
                except psutil.AccessDenied:
                    entry[key] = {"error": "no permission"}
                except (KeyError, OSError) as error:
                    entry[key] = {"error": str(error)[:100] or type(error).__name__}
        except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError, OverflowError):
            continue
        known = (openers or {}).get(pid) == entry["started_at"]
        entry["opens_gpu"] = True if known else opens_gpu(pid)
        if entry["opens_gpu"] is False and state(live_tree(), pid) in ZOMBIE_LETTERS:
            entry["opens_gpu"] = None  # it has no files left to look through
        found[str(pid)] = entry
    return {"processes": found}


def _resident_bytes(process: psutil.Process) -> int:
    return process.memory_info().rss


def opens_gpu(pid: int) -> bool | None:
    """Whether the process has a GPU's device node open; None when we may not look."""
    folder = f"/proc/{pid}/fd"
    try:
        handles = os.listdir(folder)
    except OSError:
        return None
    for handle in handles:
        try:
            if os.readlink(f"{folder}/{handle}").startswith(GPU_DEVICES):
                return True
        except OSError:
            continue  # closed in between
    return False


def _storable(value: Raw) -> Raw:
    if isinstance(value, str):
        return clean(value)[:LIMIT_CHARACTERS]
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value


def parse(raw: Raw) -> PartialNode:
    """One reading for each process, by PID."""
    found = [
        _process(pid, entry)
        for text, entry in part(raw, "processes").items()
        if (pid := whole(text)) is not None and pid >= 0 and isinstance(entry, dict)
    ]
    return PartialNode(processes=tuple(sorted(found, key=lambda process: process.pid)))


def _process(pid: int, entry: dict[str, Raw]) -> ProcessReading:
    if entry.get("opens_gpu") is False:
        # Inside a container the driver may name PIDs of the host, where this number is not ours.
        return ProcessReading(pid=pid, gaps=(Gap("user", STRANGER), Gap("command", STRANGER)))
    fields = FileAnswers(entry, "not in the answer")
    affinity = entry.get("affinity")
    cpus = (
        [cpu for cpu in affinity if isinstance(cpu, int) and 0 <= cpu < 65_536]
        if isinstance(affinity, list)
        else None
    )
    if cpus is None:
        fields.text("affinity", "cpu_affinity")
    arguments = entry.get("arguments")
    return ProcessReading(
        pid=pid,
        user=fields.text("user", "user"),
        command=fields.text("command", "command"),
        arguments=words(arguments)[:LIMIT_ARGUMENTS] if isinstance(arguments, list) else None,
        cpu_affinity=written(cpus) if cpus is not None else None,
        started_at=_figure(fields, "started_at"),
        memory_bytes=_bytes(fields, "memory_bytes"),
        memory_before=_earlier(entry.get("memory_before")),
        library=_library(entry.get("library"), fields),
        **facts(entry, fields),  # type: ignore[arg-type]
        gaps=fields.gaps,
    )


def _earlier(raw: Raw) -> tuple[tuple[float, int], ...]:
    """Seconds ago and bytes, of two moments at most."""
    found = []
    for pair in items_of(raw)[:2]:
        if isinstance(pair, list) and len(pair) == 2:
            ago, held = pair
            if isinstance(ago, int | float) and 0 < ago < 1e9 and isinstance(held, int):
                found.append((float(ago), max(held, 0)))
    return tuple(found)


def _library(raw: Raw, fields: FileAnswers) -> LoadedLibrary | None:
    if not isinstance(raw, dict):
        return None
    path, version = raw.get("path"), raw.get("version")
    if isinstance(path, str) and path:
        known = isinstance(version, str) and re.fullmatch(r"\d{1,3}(\.\d{1,4}){1,3}", version)
        return LoadedLibrary(
            path=clean(path[:LIMIT_CHARACTERS]),
            version=version if known else None,
            replaced=raw.get("replaced") is True,
        )
    fields.text("library", "library")
    return None


def _figure(fields: FileAnswers, key: str) -> float | None:
    value = fields.raw.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
        return float(value)
    fields.text(key, key)
    return None


def _bytes(fields: FileAnswers, key: str) -> int | None:
    value = fields.raw.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    fields.text(key, key)
    return None


SOURCE = Source(
    id="processes", interval_seconds=2.0, deadline_seconds=3.0, reader=ProcessesReader, parse=parse
)
