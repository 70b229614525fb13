"""What is not kept of runs, and how long another writer is waited for."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import msgspec
import pytest

from gputop.measuring import history
from gputop.measuring.history import keep, runs
from tests.gputop.measuring.test_history import KEY, run


def test_a_run_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = len(msgspec.json.encode(run(1)))
    monkeypatch.setattr(history, "LONGEST_LINE", length)
    assert keep(run(1), KEY, tmp_path) == ""
    longer = run(2, level="normal!")
    assert len(msgspec.json.encode(longer)) > length
    said = keep(longer, KEY, tmp_path)
    assert said.startswith("the run is not kept in the history: it takes ")
    assert str(length) in said
    assert (tmp_path / f"{KEY}.jsonl").read_bytes().count(b"\n") == 1
    assert [run.taken_at for run in runs(KEY, tmp_path)] == [1.0]


def test_a_writer_who_does_not_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "LOCK_SECONDS", 0.3)
    assert keep(run(1), KEY, tmp_path) == ""
    with (tmp_path / f".{KEY}.lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert keep(run(2), KEY, tmp_path) == f"the run is not kept in the history: {history.HELD}"
        # One who ends in time is waited for.
        monkeypatch.setattr(history, "LOCK_SECONDS", 30.0)
        threading.Timer(0.2, fcntl.flock, (other, fcntl.LOCK_UN)).start()
        assert keep(run(3), KEY, tmp_path) == ""
    assert [run.taken_at for run in runs(KEY, tmp_path)] == [1.0, 3.0]


def test_without_locks_in_the_file_system_runs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    assert keep(run(1), KEY, tmp_path) == ""
    assert len(runs(KEY, tmp_path)) == 1
