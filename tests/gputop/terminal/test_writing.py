"""Files that somebody asked for, on a full disk: there whole or not at all, and said in a line."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import IO

import pytest

from gputop.__main__ import run
from gputop.app import GpuTop
from gputop.exits import ANSWERED, CANNOT_TELL, USAGE
from gputop.terminal import writing
from gputop.terminal.writing import write_whole
from tests.grid import share
from tests.support.app import app_of, demo_report, give, press
from tests.support.command import gputop_process, powerless
from tests.support.places import ROOT

SNAPSHOT = ("snapshot", "--demo", "hgx-h100-8", "-o")
LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # Python would leave half of it behind, for all later starts
size = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
from gputop.__main__ import main
main()
"""


@contextlib.contextmanager
def full_after(size_bytes: int) -> Iterator[None]:
    """Let no file grow beyond this: the same way as a disk that fills up while one writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Of a module that is imported first here Python would leave half of the byte code behind.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = before


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


def test_a_link_is_refused_and_what_it_leads_to_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.write_text("theirs")
    for name, target in (("link", there), ("dangling", tmp_path / "nowhere")):
        link = tmp_path / name
        link.symlink_to(target)
        assert run([*SNAPSHOT, str(link)]) == USAGE
        assert run(["check", "--demo", "hgx-h100-8", "--junit", str(link)]) == USAGE
        assert link.is_symlink()
        assert capsys.readouterr().err.count("it is a symbolic link; name the file") == 2
    assert there.read_text() == "theirs"
    assert not (tmp_path / "nowhere").exists()


def test_a_pipe_and_a_device_get_it_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "new" * 100_000)
    reader.join()
    assert heard == ["new" * 100_000]
    assert pipe.is_fifo()
    monkeypatch.setattr(writing, "READER_SECONDS", 0.1)
    with pytest.raises(OSError, match="nobody reads this pipe"):
        write_whole(pipe, "for nobody")
    write_whole(Path("/dev/null"), "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_has_a_name(place: str) -> None:
    done = gputop_process(*SNAPSHOT, place)
    assert done.returncode == ANSWERED, done.stderr
    assert json.loads(done.stdout)["schema"] == "gputop.snapshot/1"


def test_a_file_in_a_folder_that_may_not_be_written_is_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    place = folder / "node.json"
    place.write_text("x" * 1_000_000)
    folder.chmod(0o500)
    done = powerless(*SNAPSHOT, str(place))
    assert done.returncode == ANSWERED, done.stderr
    assert json.loads(place.read_text())["schema"] == "gputop.snapshot/1"


def test_a_file_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    node, suite = tmp_path / "node.json", tmp_path / "suite.xml"
    before = os.umask(0)
    try:
        assert run([*SNAPSHOT, str(node)]) == ANSWERED
        check = ["check", "--demo", "hgx-h100-8", "--junit", str(suite)]
        assert run(check) == ANSWERED
    finally:
        os.umask(before)
    assert stat.S_IMODE(node.stat().st_mode) == 0o600
    # A report for other programs, which often run as somebody else.
    assert stat.S_IMODE(suite.stat().st_mode) == 0o644


def test_fresh_never_writes_over(tmp_path: Path) -> None:
    place = tmp_path / "one"
    write_whole(place, "a", fresh=True)
    with pytest.raises(FileExistsError):
        write_whole(place, "b", fresh=True)
    assert place.read_text() == "a"


def refused(arguments: list[str], out: IO[bytes], unbuffered: str) -> str:
    """Why Python could not write its answer to a file."""
    done = subprocess.run(
        [sys.executable, *arguments],
        stdout=out,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert done.returncode == CANNOT_TELL
    _, said, why = done.stderr.splitlines()[-1].partition("gputop: cannot write the answer: ")
    assert said
    return why


@pytest.mark.parametrize(
    ("command", "unbuffered", "size_bytes"),
    share(
        product(
            ["topo", "snapshot", "explain", "topo --format dot", "--help"], ["", "1"], [0, 1000]
        ),
        3,
    ),
)
def test_stdout_that_takes_no_more_is_cannot_tell(
    tmp_path: Path, command: str, unbuffered: str, size_bytes: int
) -> None:
    arguments = command.split()
    if command != "--help":
        arguments += ["--demo", "hgx-h100-8"]
    with (tmp_path / "out").open("wb") as out:
        why = refused(["-c", LIMITED, str(size_bytes), *arguments], out, unbuffered)
    assert why == "File too large"


@pytest.mark.parametrize("unbuffered", share(["", "1"], 2))
def test_a_full_disk_behind_stdout_is_cannot_tell(unbuffered: str) -> None:
    with open("/dev/full", "wb") as out:
        for command in ("topo", "snapshot", "check"):
            arguments = ["-m", "gputop", command, "--demo", "hgx-h100-8"]
            assert refused(arguments, out, unbuffered) == "No space left on device"


@pytest.mark.parametrize("name", ["missing/out.json", "nul\0l"])
def test_a_path_that_cannot_be_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run([*SNAPSHOT, str(tmp_path / name)]) == USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1
