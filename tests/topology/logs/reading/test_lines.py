"""How much of a log is read: packed files that unpack without end, lines that nobody needs."""

from __future__ import annotations

import gzip
import io
import json
import time

import pytest

from gputop.topology.jobs.saved import in_sections
from gputop.topology.logs.reading import lines
from gputop.topology.logs.reading.read import read_log
from tests.support.places import RECORDINGS

HEAD_LINE = b"node:12:34 [0] misc/socket.cc:50 NCCL WARN socketTryAccept: Accept failed: Too many\n"


@pytest.mark.parametrize("line", [b"\n", b"A" * 70_000, b"h:1:1 [0] NCCL INFO Using eth0 \n"])
def test_a_small_file_that_unpacks_without_end_is_left_in_time(
    monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setattr(lines, "FREELY_UNPACKED", 2 << 20)
    packed = gzip.compress(line * (10_000_000 // len(line)))
    log = read_log(io.BytesIO(packed))
    assert log.bytes <= max(2 << 20, lines.MOST_UNPACKED * len(packed)) + lines.CHUNK_BYTES
    assert log.more["rest of the log (it unpacks to over 100 times its size)"] == 1


def test_a_log_of_one_warning_over_and_over_is_read_whole() -> None:
    packed = gzip.compress(HEAD_LINE * 100_000)
    assert len(packed) * lines.MOST_UNPACKED < len(HEAD_LINE) * 100_000 < lines.FREELY_UNPACKED
    log = read_log(io.BytesIO(packed))
    assert not log.more
    assert log.lines == log.library_lines == 100_000


def test_lines_that_nobody_needs_are_counted() -> None:
    foreign = b"step 1\n" * 300_000
    whole = foreign + HEAD_LINE + foreign + b"the end of NC"
    log = read_log(io.BytesIO(whole + b"CL\n"))
    assert log.lines == 600_002
    assert log.library_lines == 1
    assert log.kinds["elsewhere"] == 600_001
    (note,) = log.notes
    assert note.line == 300_001


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "written",
    [
        HEAD_LINE.replace(b"\n", b"\r") * 3,
        (HEAD_LINE * 3).decode().encode("utf-16"),
        (HEAD_LINE * 3).replace(b"NCCL", b"\x1b[1mNC\x1b[0mCL"),
    ],
    ids=["returns", "utf-16", "colours"],
)
def test_a_log_is_read_however_its_lines_are_written(written: bytes, packed: bool) -> None:
    log = read_log(io.BytesIO(gzip.compress(written) if packed else written))
    assert (log.lines, log.library_lines) == (3, 3)


@pytest.mark.parametrize(
    "line",
    [b"x" * 16_000 + HEAD_LINE, b"ProcessGroupNCCL " * 900 + b"timeou timeout\n"],
    ids=["head", "torch"],
)
def test_long_lines_do_not_take_the_square_of_their_length(line: bytes) -> None:
    began = time.process_time()
    log = read_log(io.BytesIO(line * 300))
    assert log.lines == 300
    assert time.process_time() - began < 20, "five megabytes take about a second"


@pytest.mark.parametrize(("ranks", "end"), [(10_000, b""), (300, b"\n"), (300, HEAD_LINE)])
def test_an_answer_of_ras_in_one_line_is_read_whole(ranks: int, end: bytes) -> None:
    """A recorded one of two ranks, with as many as a large job has."""
    recorded = json.loads((RECORDINGS / "ras" / "behind.json").read_text())
    told = recorded["communicators"][0]
    told["size"] = ranks
    told["ranks"] = [{**told["ranks"][rank % 2], "rank": rank} for rank in range(ranks)]
    written = json.dumps(recorded).encode()
    assert lines.LONGEST_LINE < len(written) < lines.LONGEST_DOCUMENT
    log = read_log(io.BytesIO(written + (b"\n" + end if end else b"")), outputs=True)
    assert log.pasted is not None
    (answer,) = in_sections("log", log.pasted.sections).answers
    assert answer.first == 1
    assert [len(one.ranks) for one in answer.answer.communicators] == [ranks]
    assert log.library_lines == (end == HEAD_LINE)
    assert not log.more


def test_longer_lines_are_cut_and_counted() -> None:
    wrapped = b'{"log": "' + HEAD_LINE[:-1] + b"x" * lines.LONGEST_LINE + b'"}\n'
    log = read_log(io.BytesIO(wrapped + b"{" * (lines.LONGEST_DOCUMENT + 1)), outputs=True)
    assert log.more == {"ends of long lines": 2}
    assert log.lines == 2


def test_single_lines_are_read_by_the_piece() -> None:
    given = [b"line %d" % number for number in range(1000)]
    (batch,) = lines.LineReader(given).batches()
    assert batch == given
    large = [b"x" * 1000] * 3000
    batches = list(lines.LineReader(large).batches())
    assert len(batches) < 6
    assert [line for batch in batches for line in batch] == large
