"""What is asked of a whole chunk of lines is what each of its lines would answer."""

from __future__ import annotations

import pytest

from gputop.topology.logs.reading.chunk import Chunk

SAID = b"n1:2:3 [0] NCCL INFO Connected"
WARNED = b"n1:2:3 [0] init.cc:1 NCCL WARN it failed"
DULL = b"step 3"


@pytest.mark.parametrize(
    ("lines", "others", "glued"),
    [
        ([DULL, SAID, WARNED], [DULL, WARNED], False),
        ([SAID, SAID, DULL], [DULL], False),
        ([SAID, SAID + SAID], [], True),
        ([SAID + WARNED, DULL], [DULL], True),
        ([WARNED + WARNED, SAID], [WARNED + WARNED], False),
    ],
)
def test_lines_of_the_library_are_counted(
    lines: list[bytes], others: list[bytes], glued: bool
) -> None:
    chunk = Chunk(lines)
    assert (chunk.others, chunk.glued, chunk.unmarked) == (others, glued, False)


def test_a_chunk_of_other_programs_is_unmarked() -> None:
    chunk = Chunk([DULL, b"error"])
    assert (chunk.unmarked, chunk.blank) == (True, False)
    assert Chunk([b"", b" "]).blank


def test_colours_are_removed_and_lines_stay_lines() -> None:
    lines = [b"\x1b[1m" + DULL, b"\x1b]0;no end", b"", b"\x1b[31m" + SAID + b"\x1b[0m", b"\x1b"]
    chunk = Chunk(lines)
    assert chunk.lines == [DULL, b"0;no end", b"", SAID, b"\x1b"]
    assert chunk.others == [DULL, b"0;no end", b"", b"\x1b"]


def test_a_chunk_knows_whether_a_line_speaks_of_a_failure() -> None:
    assert Chunk([SAID, WARNED, DULL]).failing
    assert not Chunk([SAID, DULL]).failing


def test_other_levels_of_the_library_are_told_from_lines_about_it() -> None:
    about = b"[rank0]: DistBackendError: NCCL error in: x.cpp:3"
    assert Chunk([SAID, WARNED, WARNED, about, DULL]).other_levels == {WARNED}
