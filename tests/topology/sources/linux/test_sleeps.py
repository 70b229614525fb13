"""Uninterruptible sleeps of processes and threads: in a copied /proc, and one of our own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.sources.files.tree import FolderTree, live_tree
from gputop.topology.sources.linux import sleeps
from gputop.topology.sources.linux.process_files import SWITCHES
from gputop.topology.sources.linux.sleeps import SleepWatch, asleep, threads_of

SLEEPER = """
import os, sys, threading
def hang():
    # The child opens a pipe that nobody writes to, and until it runs a program its parent's thread
    # sleeps uninterruptibly.
    opened = (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[opened])
threading.Thread(target=hang).start()
"""


class Machine:
    """A folder like /proc, and a clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 100.0
        self.naps: list[float] = []
        self.looked: list[str] = []
        self.after: Any = None
        self.sleeper = SleepWatch(FolderTree(root), lambda: self.now, self.nap)

    def nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds
        if self.after is not None:
            self.after()

    def put(self, pid: int, tid: int, letter: str, switches: int = 7, begun: int = 9) -> None:
        folders = [self.root / f"proc/{pid}/task/{tid}"]
        folders += [self.root / f"proc/{pid}"] * (pid == tid)
        words = {"D": "disk sleep", "S": "sleeping", "R": "running"}[letter]
        lines = [f"State:\t{letter} ({words})", *(f"{name}:\t{switches}" for name in SWITCHES)]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "stat").write_text(f"{tid} (a) R (b) {letter}{' 1' * 18} {begun} 1\n")
            (folder / "status").write_text("\n".join(lines) + "\n")
            (folder / "wchan").write_text("nfs_wait")

    def look(self, *pids: int) -> dict[int, dict[str, Any]]:
        entries: dict[int, dict[str, Any]] = {pid: {"status": self.status(pid)} for pid in pids}
        self.sleeper.watch(entries)
        return entries

    def status(self, pid: int) -> dict[str, str]:
        lines = (self.root / f"proc/{pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_a_sleep_counts_once_it_was_seen_twice(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for pid, letter in ((1, "D"), (2, "D"), (3, "R")):
        machine.put(pid, pid, letter)
    machine.after = lambda: machine.put(2, 2, "D", 8)
    found = machine.look(1, 2, 3)
    assert found[1]["asleep"] == sleeps.SECOND_LOOK_SECONDS
    assert found[1]["wchan"] == "nfs_wait"
    assert not any("asleep" in found[pid] for pid in (2, 3))
    machine.now += 60
    assert machine.look(1, 3)[1]["asleep"] == pytest.approx(60 + sleeps.SECOND_LOOK_SECONDS)
    assert len(machine.naps) == 1
    assert machine.look() == {}


def test_a_thread_that_sleeps_while_the_first_one_does_not(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for tid, letter in ((10, "S"), (11, "R"), (12, "D")):
        machine.put(10, tid, letter)
    found = machine.look(10)[10]
    assert (found["asleep_thread"], found["wchan"]) == ("a) R (b (12)", "nfs_wait")
    assert found["asleep"] == sleeps.SECOND_LOOK_SECONDS
    machine.put(10, 12, "D", 8)
    machine.after = lambda: machine.put(10, 12, "S", 9)
    assert "asleep" not in machine.look(10)[10], "a short sleep for a file is none"


def test_the_longest_sleep_of_a_process_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.put(10, 10, "S")
    machine.put(10, 12, "D")
    machine.look(10)
    machine.put(10, 10, "D")
    machine.now += 5
    assert machine.look(10)[10]["asleep_thread"].endswith("(12)")
    machine.put(10, 12, "R")
    assert "asleep_thread" not in machine.look(10)[10]


def test_a_number_that_is_given_anew_inherits_no_sleep(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.put(1, 1, "D")
    machine.put(2, 2, "S")
    machine.put(2, 3, "D")
    machine.look(1, 2)
    machine.now += 60
    machine.put(1, 1, "D", begun=10)
    machine.put(2, 3, "D", begun=10)
    found = machine.look(1, 2)
    assert [found[pid]["asleep"] for pid in (1, 2)] == [sleeps.SECOND_LOOK_SECONDS] * 2


def test_threads_are_looked_at_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleeps, "MOST_AT_FIRST", 3)
    monkeypatch.setattr(sleeps, "MOST_AGAIN", 2)
    machine = Machine(tmp_path)
    for tid in range(10, 17):
        machine.put(10, tid, "D" if tid == 11 else "S")
    asked: list[list[int]] = []
    real = sleeps.asleep

    def noted(tree: Any, pid: int, tids: Any) -> Any:
        asked.append(list(tids))
        return real(tree, pid, tids)

    monkeypatch.setattr(sleeps, "asleep", noted)
    for _ in range(4):
        machine.look(10)
    assert asked == [[11, 12, 13], [11, 14, 15], [11, 16], [11, 12]]


def test_a_thread_of_our_own(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", SLEEPER, str(pipe)]) as child:
        try:
            until = time.monotonic() + 20
            found: list[sleeps.SleepingThread] = []
            while not found and time.monotonic() < until:
                found = asleep(live_tree(), child.pid, threads_of(live_tree(), child.pid))
                time.sleep(0.01)
            (thread,) = found
            assert thread.tid != child.pid
            (again,) = asleep(live_tree(), child.pid, [thread.tid])
            assert again == thread
        finally:
            # Who opens the other end lets the child go on, and so the thread.
            os.close(os.open(pipe, os.O_RDWR))
            child.kill()
