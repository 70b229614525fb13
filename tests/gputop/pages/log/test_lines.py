"""The lines about a communicator."""

from __future__ import annotations

from gputop.pages.log.lines import rank_lines
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import LogReport
from gputop.widgets.spans import text_of


def read(*lines: str) -> LogReport:
    return read_log([line.encode() for line in lines])


def test_a_size_that_no_line_gives_is_not_made_up() -> None:
    piece = "n1:9:30 [0] NCCL INFO Channel 00/0 : 4[4] -> 3[3] via P2P/IPC"
    (comm,) = read(piece).communicators
    assert comm.size_seen_only
    assert text_of(rank_lines(comm, 80)[0]).strip() == "at least 5 ranks"
    shape = "n1:9:30 [0] NCCL INFO comm 0x1 rank 4 nranks 8 cudaDev 4 busId 60 - Init COMPLETE"
    (comm,) = read(piece, shape).communicators
    assert (comm.nranks, comm.size_seen_only) == (8, False)
    assert text_of(rank_lines(comm, 80)[0]).strip() == "8 ranks"
