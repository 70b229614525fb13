"""`gputop replay` in a pipe: what happened, as text and JSON, and the exports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputop.__main__ import run
from gputop.exits import ANSWERED, CANNOT_TELL, USAGE
from gputop.topology.recorded.sessions.changes import NoteKind, SessionNote
from tests.support.sessions import BEGUN, demo_readings, write_recording

NOTES = {
    0: (SessionNote(NoteKind.RECORDER, "recording begins"),),
    3: (SessionNote(NoteKind.EVENT, "GPU3: lost", "broken"),),
}


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """Ten seconds with an event."""
    return write_recording(tmp_path / "night.gtrec", demo_readings(10), NOTES)


def test_a_pipe_gets_what_happened(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(night)]) == ANSWERED
    out = capsys.readouterr().out
    assert "8 GPUs, 10 readings in 9.0 s" in out
    assert "broken" in out
    assert "GPU3: lost" in out


def test_json_has_the_events(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(night), "--json"]) == ANSWERED
    found = json.loads(capsys.readouterr().out)
    assert (found["readings"], found["first_at"], len(found["gpus"])) == (10, BEGUN, 8)
    assert [(one["at"] - BEGUN, one["kind"]) for one in found["events"]] == [
        (0, "recorder"), (3, "event"),
    ]  # fmt: skip
    assert found["odd"] == []
    assert found["events_left_out"] == 0


def test_exports_are_written_whole(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending in (".csv", ".json"):
        assert run(["replay", str(night), "--export", str(night.with_suffix(ending))]) == ANSWERED
    assert len(night.with_suffix(".csv").read_text().splitlines()) == 81
    assert json.loads(night.with_suffix(".json").read_text())["traceEvents"]
    assert run(["replay", str(night), "--export", str(night.with_suffix(".txt"))]) == USAGE
    assert ".csv or .json" in capsys.readouterr().err


def test_other_files_are_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cut := tmp_path / "cut").write_bytes(b"gputop recording 1\n")
    for name, code in ((__file__, CANNOT_TELL), (str(cut), CANNOT_TELL), (str(tmp_path), USAGE),
                       (str(tmp_path / "none"), USAGE), ("a\0b", USAGE)):  # fmt: skip
        assert run(["replay", name]) == code
        assert len(capsys.readouterr().err.splitlines()) == 1
