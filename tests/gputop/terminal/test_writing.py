"""Files that somebody asked for, on a full disk: there whole or not at all, and said in a line."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.__main__ import run
from gputop.app import GpuTop
from gputop.exits import ANSWERED, CANNOT_TELL, USAGE
from gputop.terminal.writing import write_whole
from tests.support.app import app_of, demo_report, give, press

SNAPSHOT = ("snapshot", "--demo", "hgx-h100-8", "-o")


@contextlib.contextmanager
def full_after(size_bytes: int) -> Iterator[None]:
    """Let no file grow beyond this: the same way as a disk that fills up while one writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_snapshot_that_does_not_fit_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "node.json"
    with full_after(5000):
        assert run([*SNAPSHOT, str(place)]) == CANNOT_TELL
    assert list(tmp_path.iterdir()) == []
    (line,) = capsys.readouterr().err.splitlines()
    assert "node.json: not written: File too large" in line


def test_what_was_there_before_stays(tmp_path: Path) -> None:
    place = tmp_path / "node.json"
    place.write_text("earlier")
    place.chmod(0o640)
    with full_after(5000):
        assert run([*SNAPSHOT, str(place)]) == CANNOT_TELL
    assert place.read_text() == "earlier"
    assert run([*SNAPSHOT, str(place)]) == ANSWERED
    assert json.loads(place.read_text())["schema"] == "gputop.snapshot/1"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [place]


def test_a_junit_file_that_does_not_fit_is_not_there(tmp_path: Path) -> None:
    place = tmp_path / "check.xml"
    with full_after(2000):
        assert run(["check", "--demo", "hgx-h100-8", "--junit", str(place)]) == CANNOT_TELL
    assert list(tmp_path.iterdir()) == []


async def test_an_export_that_does_not_fit_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        with full_after(40_000):  # the picture fits, the snapshot does not
            await press(pilot, "x")
        assert [note.message for note in app_of(pilot)._notifications] == [
            "cannot export: File too large"
        ]
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_one_and_a_pipe_gets_it_all(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_bytes(b"a")
    link = tmp_path / "link"
    link.symlink_to(there)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert there.read_bytes() == b"new"
    write_whole(Path("/dev/null"), b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_fresh_never_writes_over(tmp_path: Path) -> None:
    place = tmp_path / "one"
    write_whole(place, b"a", fresh=True)
    with pytest.raises(FileExistsError):
        write_whole(place, b"b", fresh=True)
    assert place.read_bytes() == b"a"


@pytest.mark.parametrize("name", ["missing/out.json", "nul\0l"])
def test_a_path_that_cannot_be_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run([*SNAPSHOT, str(tmp_path / name)]) == USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1
