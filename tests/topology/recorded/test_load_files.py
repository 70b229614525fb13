"""`--from`: files that wait, never end or are none, and folders full of other things."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from gputop.exits import Exit
from gputop.reading import load_files
from gputop.topology.recorded.load import HEAD_BYTES, LoadError, load
from gputop.topology.recorded.plain_file import NotPlainError, read_plain
from tests.support.command import gputop


def test_a_long_file_is_read_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"x" * 5000)
    assert len(read_plain(path, 99)) == 100
    assert read_plain(path, 5000) == b"x" * 5000


def test_a_pipe_that_nobody_writes_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(NotPlainError):
        read_plain(path, 99)
    with pytest.raises(LoadError, match="not a regular file") as refused:
        load([str(path)])
    assert refused.value.unreadable


def test_a_file_of_proc_that_waits_for_news_is_refused_at_once() -> None:
    path = Path("/proc/kmsg")
    if not os.access(path, os.R_OK):
        pytest.skip("/proc/kmsg may not be read here")
    refused: list[str] = []

    def ask() -> None:
        try:
            load([str(path)])
        except LoadError as error:
            refused.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(60)
    assert refused


def test_a_folder_of_other_things_is_reported_in_few_words(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"note-{number:03}").write_text("call Bob about GPU 3")
    (tmp_path / "node.json").write_bytes(b'{"schema": "gputop.snapshot/1", "taken_at": 1}')
    done = gputop("topo", "--from", str(tmp_path))
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "note-019 and 40 more" in line


def test_a_pipe_is_not_even_opened_for_its_writer_would_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def refuse(*_: object) -> int:
        raise AssertionError

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(NotPlainError):
        read_plain(path, 99)


def test_what_is_no_file_in_a_folder_is_named(tmp_path: Path) -> None:
    node = b'{"schema": "gputop.snapshot/1", "taken_at": 1}'
    (tmp_path / "node.json").write_bytes(node)
    (tmp_path / "below").mkdir()
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    skipped = dict(load([str(tmp_path)]).skipped)
    assert list(skipped) == ["gone", "loop", "pipe", "zero"]
    assert skipped["pipe"] == skipped["zero"] == "not a regular file"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("filler", [b" ", b"|", b"\t ", b"GPU0 ", b"CPU "])
def test_a_long_line_of_nothing_costs_nothing(tmp_path: Path, filler: bytes) -> None:
    path = tmp_path / "text"
    path.write_bytes(filler * (HEAD_BYTES // len(filler) - 1) + b"x\n")
    with pytest.raises(LoadError, match="not a format"):
        load([str(path)])


@pytest.mark.parametrize(
    "content",
    [
        b"Package: libfail\nBreaks: other (<< 2)\nDescription: reports errors\n failed, broken\n",
        b"root:x:0:0:root:/root:/bin/bash\nerror:x:7:7:failed to start:/:/bin/false\n",
        b"\x7fELF\0\0bind: Address already in use\0ETIMEDOUT (110): Connection timed out\n",
        b"\xde\x12\x04\x95\0\0socket: Connection refused\nexited with exit code 1\n",
    ],
    ids=["packages", "users", "program", "messages"],
)
def test_what_only_holds_words_of_failure_is_no_node(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    for command in (["topo"], ["check", "--quick"], ["snapshot"]):
        ended = gputop(*command, "--from", str(path))
        assert ended.returncode == 3
        assert ended.stdout == ""
        assert "not a format that gputop knows" in ended.stderr


def test_a_program_is_no_node() -> None:
    with pytest.raises(Exit, match="not a format"):
        load_files((sys.executable,))
