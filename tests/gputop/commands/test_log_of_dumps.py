"""`gputop log` explains dumps of the flight recorder, and refuses what only looks like one."""

from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path

import pytest

from gputop.__main__ import run
from gputop.exits import ANSWERED, CANNOT_TELL
from tests.topology.jobs.flight.test_compare import REAL, dumped, entry

RUNS = b"\x80\x02}X\x07\x00\x00\x00entriescos\nsystem\nX\x02\x00\x00\x00id\x85R."
"""A pickle that would call os.system."""
UNMARKED = b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00cposix\nsystem\n."
"""One without any word of a dump."""


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(words)
    out, err = capsys.readouterr()
    return code, " ".join(out.split()), err


def test_one_dump_is_explained_as_by_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    log = said(["log", str(REAL)], capsys)
    assert log == said(["jobs", "--from", str(REAL)], capsys)
    assert log[0] == ANSWERED
    assert "1 waited in all-reduce 1 of the default group when the dump was written" in log[1]
    assert run(["log", str(REAL), "--json"]) == ANSWERED
    assert json.loads(capsys.readouterr().out)["schema"] == "gputop.jobs/1"


def test_a_folder_of_dumps_tells_who_has_other_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank, size in enumerate((64, 64, 96)):
        (tmp_path / f"fr_{rank}").write_bytes(dumped(entry(7, size=size)))
    (tmp_path / "rank0.log").write_text("a line of the job\n")
    code, out, err = said(["log", str(tmp_path)], capsys)
    assert (code, err) == (ANSWERED, "")
    assert "collective 7 has other sizes on some ranks: 64 on ranks 0 and 1; 96 on rank 2" in out


@pytest.mark.parametrize("data", [RUNS, UNMARKED, pickle.dumps({"a": 1}), b"\x80\x02\xff"])
def test_any_other_pickle_is_refused_in_one_line(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace_0").write_bytes(data)
    code, out, err = said(["log", str(tmp_path / "trace_0")], capsys)
    assert (code, out, err.count("\n")) == (CANNOT_TELL, "", 1)
    assert "\\x" not in err
    assert err.isprintable() or err.rstrip("\n").isprintable()


def test_a_sound_dump_is_told_beside_a_hostile_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fr_0").write_bytes(dumped(entry(2, state="started")))
    (tmp_path / "fr_1").write_bytes(RUNS)
    os.mkfifo(tmp_path / "fr_2")
    code, out, err = said(["log", str(tmp_path)], capsys)
    assert code == ANSWERED
    assert "no dump of ranks 1 and 2" in out
    assert "not among those of plain data" in err


def test_a_folder_without_dumps_and_a_pickle_on_stdin_get_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = said(["log", str(tmp_path)], capsys)
    assert code == CANNOT_TELL
    assert "nor a folder with dumps of a flight recorder" in err
    stream = io.BufferedReader(io.BytesIO(RUNS))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
    code, _, err = said(["log", "-"], capsys)
    assert code == CANNOT_TELL
    assert "a pickle, not a log" in err


def test_a_dump_whose_name_ends_in_no_rank_is_not_called_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace").symlink_to(REAL)
    _, out, _ = said(["log", str(tmp_path / "trace")], capsys)
    assert "1 dump of unknown rank" in out
    assert "its name ends in no rank" in out
