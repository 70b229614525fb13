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

from gputop.topology.sources.linux import processes

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
