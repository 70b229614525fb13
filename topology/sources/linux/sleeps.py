"""Uninterruptible sleeps of processes and of their threads, and for how long each one lasts.

proc_pid_task(5): a process is as stuck as the thread that the others wait for, and its own state
is that of its first thread alone. Switches of context that are equal twice say that a thread never
ran in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from ...model.part import Raw
from ..files.tree import Tree, Unreadable, clean
from .process_files import in_sleep, sleep_of, wait_channel

SECOND_LOOK_SECONDS = 0.5
MOST_AT_FIRST = 512
"""Threads of a process that are looked at when it is seen for the first time."""
MOST_AGAIN = 32
"""Of these at each later look, in turn: a look at one takes some 20 us."""
MOST_TOGETHER = 4096
"""Threads of all processes at one look."""

_STAT = re.compile(rb"^\d+ \((.*)\) ([A-Za-z]) ", re.DOTALL)


class SleepingThread(msgspec.Struct, frozen=True, kw_only=True):
    """One thread of a process, not its first, in an uninterruptible sleep."""

    tid: int
    name: str
    """As the process calls it: "pt_autograd_0"."""
    sleep: tuple[str, ...]
    """What stays equal during one such sleep."""

    @property
    def label(self) -> str:
        """Its name with its number: "pt_autograd_0 (4713)"."""
        return f"{self.name} ({self.tid})" if self.name else str(self.tid)


def threads_of(tree: Tree, pid: int) -> list[int]:
    """The threads of a process without its first, by number."""
    numbers = (int(name) for name in tree.names(f"proc/{pid}/task") if name.isdecimal())
    return sorted(tid for tid in numbers if tid != pid)


def asleep(tree: Tree, pid: int, tids: Iterable[int]) -> list[SleepingThread]:
    """Those of the threads that are in an uninterruptible sleep."""
    found = []
    for tid in tids:
        data = tree.octets(f"proc/{pid}/task/{tid}/stat", 0, 4096)
        match = None if isinstance(data, Unreadable) else _STAT.match(data)
        if match is None or match[2] != b"D":
            continue
        sleep = sleep_of(tree, pid, tid)
        if sleep is not None:
            name = clean(match[1])[:32]
            found.append(SleepingThread(tid=tid, name=name, sleep=sleep))
    return found


class SleepWatch:
    """Remembers who sleeps since when, from one look to the next."""

    def __init__(
        self, tree: Tree, clock: Callable[[], float], wait: Callable[[float], None]
    ) -> None:
        self._tree, self._clock, self._wait = tree, clock, wait
        self._since: dict[tuple[int, int], tuple[tuple[str, ...], float]] = {}
        """By process and thread: its sleep, and when that was seen first."""
        self._turns: dict[int, int] = {}
        """By process: from which of its threads on the next look goes."""

    def watch(self, entries: dict[int, dict[str, Raw]]) -> None:
        """Note in each entry how long its process has a thread in one uninterruptible sleep.

        Who is seen in one for the first time is looked at again a moment later: every read of a
        file may take a thread there for a while.
        """
        now, known = self._clock(), self._since
        found: dict[tuple[int, int], tuple[str, ...]] = {}
        names: dict[tuple[int, int], str] = {}
        left = MOST_TOGETHER
        for pid, entry in entries.items():
            status = entry.get("status")
            asleep_now = isinstance(status, dict) and in_sleep(status)
            sleep = sleep_of(self._tree, pid) if asleep_now else None
            if sleep is not None:
                found[pid, pid] = sleep
            tids = self._chosen(pid, left) if isinstance(status, dict) else []
            left -= len(tids)
            for thread in asleep(self._tree, pid, tids):
                found[pid, thread.tid] = thread.sleep
                names[pid, thread.tid] = thread.label
        self._turns = {pid: turn for pid, turn in self._turns.items() if pid in entries}
        self._since = {
            who: known[who] if who in known and known[who][0] == sleep else (sleep, now)
            for who, sleep in found.items()
        }
        if any(since == now for _, since in self._since.values()):
            self._wait(SECOND_LOOK_SECONDS)
            self._since = {
                who: kept
                for who, kept in self._since.items()
                if sleep_of(self._tree, *who) == kept[0]
            }
            now = self._clock()
        # The longest of each process; of equal ones its first thread.
        for (pid, tid), (_, since) in sorted(self._since.items(), key=lambda each: each[1][1]):
            if "asleep" in entries[pid]:
                continue
            entries[pid]["asleep"] = now - since
            entries[pid]["wchan"] = wait_channel(self._tree, pid, tid)
            if tid != pid:
                entries[pid]["asleep_thread"] = names[pid, tid]

    def _chosen(self, pid: int, left: int) -> list[int]:
        """The threads to look at now: those seen asleep before, and the next ones in turn."""
        tids = threads_of(self._tree, pid)
        start = self._turns.get(pid)
        most = min(left, MOST_AT_FIRST if start is None else MOST_AGAIN)
        turn = [tid for tid in tids if tid >= (start or 0)][:most]
        # Past the last one it begins again with the first.
        self._turns[pid] = turn[-1] + 1 if turn and turn[-1] != tids[-1] else 0
        before = {tid for whose, tid in self._since if whose == pid}
        return sorted({*turn, *(before & set(tids))})
