"""Ranks and devices in the words of a connection."""

from __future__ import annotations

from gputop.topology.logs.comparing.placing import _devices
from gputop.topology.logs.reading.read import read_log


def test_both_ends_of_a_connection_have_their_rank_and_device() -> None:
    start = (
        b"n1:7:9 [0] NCCL INFO ncclCommInitRank comm 0xa rank 4 nranks 8 cudaDev 0 nvmlDev 0 "
        b"busId 60 commId 0xc - Init START"
    )
    ends = b"n1:7:9 [0] NCCL INFO Channel 00/0 : 4[0] -> 5[1] via %b"
    for via, local in ((b"P2P/IPC", True), (b"NET/IB/0", False)):
        (comm,) = read_log([start, ends % via]).communicators
        assert _devices(comm.transports) == [(4, "0", local), (5, "1", local)]
