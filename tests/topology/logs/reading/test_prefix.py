"""Lines that a terminal broke at its edge are put together again."""

from __future__ import annotations

import pytest

from gputop.topology.logs.reading.prefix import rejoined
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.outcome import outcome_of
from tests.support.places import RECORDINGS

FAULT = (RECORDINGS / "real-faults" / "captured_shm_tiny.txt").read_bytes().splitlines()
EDGES = (80, 100, 132, 160)


def broken(lines: list[bytes], edge: int) -> list[bytes]:
    return [line[at : at + edge] for line in lines for at in range(0, max(len(line), 1), edge)]


@pytest.mark.parametrize("edge", EDGES)
def test_a_paste_of_a_narrow_terminal_tells_the_same_outcome(edge: int) -> None:
    lines = broken(FAULT, edge)
    assert outcome_of(read_log(lines)).sentence == outcome_of(read_log(FAULT)).sentence
    assert len(rejoined(lines)) == len(lines)


def test_a_whole_log_stays_as_it_is() -> None:
    assert rejoined(FAULT) is FAULT


def test_ranks_that_print_one_text_of_one_length_are_not_broken() -> None:
    lines = []
    for rank in range(8):
        lines += [b"n1:%d:9 [%d] NCCL INFO comm 0xa rank %d Init COMPLETE" % (rank, rank, rank)]
        lines += [b"Traceback (most recent call last):"]
    assert rejoined(lines) is lines
