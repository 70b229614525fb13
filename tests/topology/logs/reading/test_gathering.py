"""What there is no room for is counted once, and belongs to nothing else."""

from __future__ import annotations

import pytest

from gputop.topology.logs.reading import gathering
from gputop.topology.logs.reading.building import MAX_COMMUNICATORS
from gputop.topology.logs.reading.read import read_log

HEAD = b"vm:1:%d [0] NCCL INFO "
OF_ONE = (
    HEAD + b"ncclCommInitRank comm 0x%x rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x%x"
    b" - Init START",
    HEAD + b"comm 0x%x rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
    HEAD + b"Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    HEAD + b"Channel 00/01 : 0 1",
    HEAD + b"ncclCommInitRank comm 0x%x rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x%x"
    b" - Init COMPLETE",
)


def communicators(*numbers: int) -> list[bytes]:
    return [line % ((number,) * line.count(b"%")) for number in numbers for line in OF_ONE]


def test_more_communicators_than_are_kept_are_counted_once_each() -> None:
    log = read_log(communicators(*range(1, 1001)))
    assert len(log.communicators) == MAX_COMMUNICATORS < 1000
    assert log.more == {"communicators": 1000 - MAX_COMMUNICATORS}


def test_beyond_what_can_be_told_apart_the_count_says_that_there_may_be_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathering, "MAX_LEFT_OUT", 2)
    for left_out, said in ((2, "communicators"), (4, "communicators or more")):
        log = read_log(communicators(*range(MAX_COMMUNICATORS + left_out)))
        assert log.more == {said: 2}


def test_lines_of_a_communicator_that_is_left_out_belong_to_no_other_one() -> None:
    stray = b"vm:9:9 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/IPC"
    log = read_log([stray, *communicators(*range(1, MAX_COMMUNICATORS + 10))])
    unnamed = log.communicators[0]
    assert [(found.src, found.dst) for found in unnamed.transports] == [(1, 0)]
    assert not unnamed.rings
