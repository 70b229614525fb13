"""`gputop record`: what is in the file stays, whatever ends the recorder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gputop.__main__ import run
from gputop.answers import record as recording
from gputop.answers.record import (
    RecordAnswer,
    RecordEnd,
    Recorder,
    RecordRequest,
    answer,
    length_of,
    size_of,
)
from gputop.answers.record_notes import Noting
from gputop.exits import ANSWERED, CANNOT_TELL, USAGE, Exit
from gputop.terminal.appending import BUSY, OTHER
from gputop.topology.model.readings import GpuProcess, GpuUse
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.sessions.session_file import SessionFile
from tests.gputop.terminal.test_writing import full_after
from tests.support.command import powerless
from tests.support.places import ROOT
from tests.support.rule_cases import base
from tests.support.sessions import BEGUN, demo_readings, write_recording

DEMO = "dgx-1v"
FIRST_FRAMES = 3
PATIENCE_SECONDS = 60.0


class Clock:
    """A clock that goes on by what is slept."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        """Pass the time, with the real one standing still."""
        self.now += seconds


def recorded(path: Path, monkeypatch: pytest.MonkeyPatch, **asked: object) -> RecordAnswer:
    """The answer to a recording of a demo, without waiting."""
    clock = Clock()
    monkeypatch.setattr(recording, "LEAST_SHARE", 0.0)
    request = RecordRequest(output=str(path), demo=DEMO, **asked)  # type: ignore[arg-type]
    return answer(request, clock.sleep, lambda: clock.now)


def test_it_ends_after_its_duration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = recorded(tmp_path / "a", monkeypatch, duration="1m", interval=2.0)
    assert found.ended is RecordEnd.DURATION
    assert found.readings == 30
    assert len(SessionFile(tmp_path / "a")) == 30
    assert found.bytes < (tmp_path / "a").stat().st_size
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0


def test_it_ends_before_the_file_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = recorded(tmp_path / "a", monkeypatch, max_size="12kB")
    assert found.ended is RecordEnd.SIZE
    assert 11_000 < (tmp_path / "a").stat().st_size <= 12_000
    with pytest.raises(Exit, match="one reading needs more"):
        recorded(tmp_path / "b", monkeypatch, max_size="1kB")
    assert not (tmp_path / "b").exists()


def test_a_recording_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        recorded(tmp_path / "a", monkeypatch, duration="5s")
    session = SessionFile(tmp_path / "a")
    assert len(session) == 10
    begun = [one.frame for one in session.notes() if one.note.text == "recording begins"]
    assert begun == [0, 5]


def test_kill_9_costs_nothing_that_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    command = [sys.executable, "-m", "gputop", "record", "--demo", DEMO, "--interval", "0.2"]
    recorder = subprocess.Popen([*command, "-o", str(path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        count, end = 0, time.monotonic() + PATIENCE_SECONDS
        while count < FIRST_FRAMES and time.monotonic() < end:
            time.sleep(0.1)
            if path.exists() and path.stat().st_size > 100:
                count = len(SessionFile(path))
    finally:
        os.kill(recorder.pid, signal.SIGKILL)
        recorder.wait()
    session = SessionFile(path)
    assert len(session) >= count >= FIRST_FRAMES
    assert session.snapshot(len(session) - 1).machine.gpus


def test_two_recorders_do_not_write_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a"
    first = Recorder(path)
    first.add(base(f"demo {DEMO}"))
    size = path.stat().st_size
    assert run(["record", "--demo", DEMO, "-o", str(path), "--duration", "1s"]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert BUSY in line
    assert path.stat().st_size == size
    first.close()
    Recorder(path).close()


def test_a_full_disk_is_said_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a"
    clock = Clock()
    monkeypatch.setattr(recording, "LEAST_SHARE", 0.0)
    request = RecordRequest(output=str(path), demo=DEMO)
    with full_after(12_000), pytest.raises(Exit, match="File too large; all up to") as error:
        answer(request, clock.sleep, lambda: clock.now)
    assert error.value.exit_code == CANNOT_TELL
    session = SessionFile(path)
    assert len(session) > 3
    assert not session.remarks()


def test_files_that_cannot_be_written_are_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    (shut := tmp_path / "shut").mkdir(mode=0o500)
    for path, why in (
        (tmp_path / "other", OTHER),
        (tmp_path / "link", "symbolic link"),
        (shut / "a", "Permission denied"),
        (tmp_path, "not a regular file"),
        (tmp_path / "none" / "a", "No such file"),
        (Path("/dev/full"), "not a regular file"),
    ):
        done = powerless("record", "--demo", DEMO, "-o", str(path), "--duration", "1s")
        (line,) = done.stderr.splitlines()
        assert (done.returncode, why in line) == (USAGE, True), line
    assert (tmp_path / "other").read_text() == "mine"


def test_what_is_written_for_times_and_sizes() -> None:
    assert [length_of(text) for text in ("90", "90s", "1.5m", "8h", "2d")] == [
        90, 90, 90, 28_800, 172_800,
    ]  # fmt: skip
    assert [size_of(text) for text in ("500kB", "20MB", "2 GB", "1MiB", "7")] == [
        500e3, 20e6, 2e9, 2**20, 7,
    ]  # fmt: skip
    for wrong in ("", "-1", "0", "x", "1y", "1e9"):
        with pytest.raises(Exit):
            length_of(wrong)
        with pytest.raises(Exit):
            size_of(wrong)


def with_process(snapshot: NodeSnapshot, *pids: int) -> NodeSnapshot:
    """The reading with these processes on its second GPU, and none elsewhere."""
    mine = tuple(GpuProcess(pid=pid, kind=GpuUse.COMPUTE) for pid in pids)
    gpus = tuple(
        msgspec.structs.replace(one, processes=mine if place == 1 else ())
        for place, one in enumerate(snapshot.readings.gpus)
    )
    readings = msgspec.structs.replace(snapshot.readings, gpus=gpus)
    return msgspec.structs.replace(snapshot, readings=readings)


def test_processes_that_come_and_go_are_noted() -> None:
    noting, readings = Noting(), demo_readings(4)
    steps: tuple[tuple[int, ...], ...] = ((5,), (5, 6), (6,), ())
    said = [
        [note.text for note in noting.of(with_process(one, *pids)) if note.kind == "process"]
        for one, pids in zip(readings, steps, strict=True)
    ]
    assert said == [
        [], ["process 6 began on GPU1"], ["process 5 ended on GPU1"], ["process 6 ended on GPU1"],
    ]  # fmt: skip


def test_a_verdict_that_changes_and_events_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.answers.record_notes.NEWS_SECONDS", -100.0)
    noting, (healthy, later) = Noting(), demo_readings(2)
    assert [note.text for note in noting.of(healthy)] == ["recording begins"]
    lost = msgspec.structs.replace(later.readings.gpus[0], lost=True)
    readings = msgspec.structs.replace(later.readings, gpus=(lost, *later.readings.gpus[1:]))
    found = noting.of(msgspec.structs.replace(later, readings=readings))
    kinds = [(note.kind, note.harm) for note in found]
    assert ("event", "broken") in kinds
    assert ("verdict", "broken") in kinds
    assert any("node broken, was healthy" in note.text for note in found)
    device = next(note.device for note in found if note.kind == "event")
    assert device == lost.address


def test_a_clock_that_was_set_is_noted() -> None:
    steady = iter((0.0, 1.0, 2.0))
    noting = Noting(steady=lambda: next(steady))
    said = []
    for place, at in enumerate((0.0, 1.0, -3598.0)):
        one = msgspec.structs.replace(
            demo_readings(3)[place], taken_at=BEGUN + at, source=("live",)
        )
        said.append([note.text for note in noting.of(one) if note.kind == "clock"])
    assert said == [[], [], ["the clock was set back by 1 h 0 min"]]


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """Ten seconds of a demo."""
    return write_recording(tmp_path / "night.gtrec", demo_readings(10, "sick-h100-8"))


COMMANDS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("check", "--quick"), 1), (("explain", "0", "1"), 0), (("jobs",), 0), (("topo",), 0),
    (("snapshot",), 0), (("which", "2"), 0), (("flags",), 0), (("metrics",), 0), (("-1",), 0),
    (("cost", "Llama", "3", "8B"), 0),
)  # fmt: skip


@pytest.mark.parametrize(("command", "code"), COMMANDS, ids=lambda given: str(given))
def test_every_command_reads_a_recording_at_a_time(
    command: tuple[str, ...], code: int, night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--from", str(night), "--at", "+4s"]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_the_time_decides_which_reading_it_is(
    night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = []
    for at in (("--at", "+4s"), ("--at", "-1s"), ()):
        assert run(["snapshot", "--from", str(night), *at]) == ANSWERED
        taken.append(json.loads(capsys.readouterr().out)["taken_at"] - BEGUN)
    assert taken == [4, 8, 9]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (lambda night: ["topo", "--from", night, "--at", "+1h"], "is not in the recording"),
        (lambda night: ["topo", "--from", night, "--at", "soon"], "is no time"),
        (lambda night: ["topo", "--at", "+1s"], "needs --from FILE"),
        (lambda night: ["topo", "--from", night, "--at", ""], "needs --from FILE"),
        (lambda night: ["topo", "--from", __file__, "--at", "+1s"], "no recording"),
        (lambda night: ["record", "-o", "x", "--from", night], "does not go on"),
        (lambda night: ["record"], "name the file"),
    ],
)
def test_wrong_times_and_files_are_said_in_a_line(
    arguments: Callable[[str], list[str]],
    said: str,
    night: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(arguments(str(night))) in (USAGE, CANNOT_TELL)
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_two_moments_of_a_recording_are_compared(
    night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", f"{night}@+1s", str(night)]) == ANSWERED
    assert "8.0 s later" in capsys.readouterr().out
