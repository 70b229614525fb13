"""Processes that use a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gputop.topology.model.versions import LoadedLibrary
from gputop.topology.sources.files.tree import Tree, Unreadable
from gputop.topology.sources.linux import processes
from gputop.topology.sources.linux.nccl_files import VersionsRead, loaded_by
from tests.support.nccl.shared_object import library

parse = processes.SOURCE.parse


@pytest.fixture
def child() -> Iterator[int]:
    """A process that waits, with an argument that nobody may store unasked."""
    command = [sys.executable, "-c", "input()", "--token=secret"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def test_nobody_is_asked_about_unasked() -> None:
    assert processes.ProcessesReader()() == {"processes": {}}
    assert parse({"processes": {}}).processes == ()


def test_a_process_is_described(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "opens_gpu", lambda pid: True)
    reader = processes.ProcessesReader()
    reader.pids = frozenset({child})
    raw = reader()
    assert "secret" not in json.dumps(raw)
    (found,) = parse(raw).processes
    assert found.pid == child
    assert found.user == psutil.Process().username()
    assert (found.command or "").startswith("python")
    assert found.arguments is None
    assert found.started_at is not None
    assert found.memory_bytes is not None
    assert found.cpu_affinity
    assert {gap.why for gap in found.gaps} <= {"unlimited", "no such file on this machine"}
    assert found.parent == os.getpid()
    assert found.state in {"running", "sleeping", "disk sleep"}
    assert found.variables is not None


def test_arguments_only_on_request(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "opens_gpu", lambda pid: True)
    reader = processes.ProcessesReader()
    reader.pids, reader.with_args = frozenset({child}), True
    (found,) = parse(reader()).processes
    assert found.arguments is not None
    assert found.arguments[-1] == "--token=secret"


def test_a_process_that_ended_is_left_out() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    reader = processes.ProcessesReader()
    reader.pids = frozenset({process.pid, 2**31 - 1, 2**70})
    assert reader() == {"processes": {}}


def test_a_stranger_with_the_same_number_is_not_described(child: int) -> None:
    reader = processes.ProcessesReader()
    reader.pids = frozenset({child})
    (found,) = parse(reader()).processes  # it has no GPU open
    assert (found.user, found.command) == (None, None)
    assert found.why("command") == processes.STRANGER


def test_an_open_gpu_is_seen_by_its_device_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "nvidia0"
    node.write_text("")
    monkeypatch.setattr(processes, "GPU_DEVICES", (str(tmp_path / "nvidia"),))
    assert processes.opens_gpu(os.getpid()) is False
    with node.open():
        assert processes.opens_gpu(os.getpid()) is True
    assert processes.opens_gpu(2**31 - 1) is None


def test_a_known_opener_is_not_looked_through_again(
    child: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def opens(pid: int) -> bool:
        asked.append(pid)
        return True

    monkeypatch.setattr(processes, "opens_gpu", opens)
    reader = processes.ProcessesReader()
    reader.pids = frozenset({child})
    reader()
    (found,) = parse(reader()).processes
    assert asked == [child]
    assert found.command


def test_names_keep_what_they_are() -> None:
    hostile = "\x1b[31m[bold]python"
    raw = {"processes": {"7": {"command": hostile, "user": {"error": "no permission"}}}}
    (found,) = parse(raw).processes
    assert found.command == hostile
    assert found.why("user") == "no permission"


def test_a_denied_answer_is_a_gap(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: psutil.Process) -> str:
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "username", denied)
    monkeypatch.setattr(processes, "opens_gpu", lambda pid: None)
    reader = processes.ProcessesReader()
    reader.pids = frozenset({child})
    (found,) = parse(reader()).processes
    assert found.user is None
    assert found.why("user") == "no permission"
    assert found.command


def test_memory_is_told_as_it_was_at_first_and_a_minute_ago() -> None:
    now = [0.0]
    reader = processes.ProcessesReader(clock=lambda: now[0])

    def look(at: float, held: int, started: float = 1.0) -> tuple[tuple[float, int], ...]:
        now[0] = at
        entry = {"memory_bytes": held, "started_at": started, "opens_gpu": True}
        reader._watch_memory({7: entry})
        (found,) = parse({"processes": {"7": entry}}).processes
        return found.memory_before

    assert look(0.0, 10) == ()
    assert look(1.0, 20) == ((1.0, 10),)
    for at in range(2, 301):
        found = look(float(at), 100 + at)
    first, lately = found
    assert first == (300.0, 10)
    assert 60.0 <= lately[0] <= 75.0
    assert lately[1] == 400 - lately[0]
    assert look(301.0, 5, started=2.0) == (), "the number was given to another process"
    assert len(reader._marks[7][1]) == 1


MAPPED = """import mmap, sys
with open(sys.argv[1], "rb") as file:
    held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print("mapped", flush=True)
input()"""


def test_the_library_of_a_process_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "libnccl.so.2"
    path.write_bytes(library(b"NCCL version 2.30.7+cuda13.3"))
    asked: list[int] = []

    def counted(tree: Tree, pid: int, read: VersionsRead) -> LoadedLibrary | Unreadable | None:
        asked.append(pid)
        return loaded_by(tree, pid, read)

    monkeypatch.setattr(processes, "loaded_by", counted)
    monkeypatch.setattr(processes, "opens_gpu", lambda pid: True)
    command = [sys.executable, "-c", MAPPED, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.readline()
        reader = processes.ProcessesReader()
        reader.pids = frozenset({child.pid, os.getpid()})
        for _ in range(2 * processes.KEPT_READS + 1):
            raw = reader()
        child.kill()
    found = {process.pid: process.library for process in parse(raw).processes}
    assert found == {
        child.pid: LoadedLibrary(path=str(path), version="2.30.7"),
        os.getpid(): None,
    }
    # One that has loaded none yet is looked at again.
    assert (asked.count(child.pid), asked.count(os.getpid())) == (1, 3)


@pytest.mark.parametrize(
    ("raw", "library", "why"),
    [
        ({"error": "no permission"}, None, "no permission"),
        ({"path": "/a/librccl.so.1", "version": "2.27.7"}, "rccl 2.27.7", None),
        ({"path": "/a/libnccl.so.2", "version": "2.x; rm"}, "nccl None", None),
        ({"path": 7}, None, "the answer is no text"),
        ([], None, None),
    ],
)
def test_what_is_said_of_a_library_is_text_from_outside(
    raw: object, library: str | None, why: str | None
) -> None:
    (found,) = parse({"processes": {"7": {"library": raw}}}).processes
    loaded = found.library
    assert (loaded and f"{loaded.name} {loaded.version}") == library
    assert found.why("library") == why
