"""What ranks said last, what they were busy with, and names that come late."""

from __future__ import annotations

import pytest

from gputop.topology.logs.reading import gathering, graph_lines
from gputop.topology.logs.reading.gathering import GatheredLog
from gputop.topology.logs.reading.prefix import Heads, Speaker
from gputop.topology.logs.reading.read import read_log

WORK = (
    b"[rank3]:[E1122 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective "
    b"operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=12, NumelOut=34, "
    b"Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
)
HEAD = b"n1:7:9 [0] NCCL INFO "


def test_the_collective_of_a_rank_is_read_with_its_sizes_and_text() -> None:
    (one,) = read_log([WORK]).progress
    assert (one.rank, one.work, one.operation, one.elements) == (3, 7, "ALLREDUCE", (12, 34))
    assert one.text.startswith("[Rank 3] Watchdog caught")


@pytest.mark.parametrize(
    ("line", "busy"),
    [
        (b"Saving model checkpoint to /data/step-100", 1),
        (b"Saving model checkpoint to /data: done", 0),
        (b"step 100 | loss 2.1", 0),
    ],
)
def test_what_a_rank_was_busy_with_before_its_collective_ran_out_of_time(
    line: bytes, busy: int
) -> None:
    assert [note.line for note in read_log([b"start", line, WORK]).busy] == [2] * busy


@pytest.mark.parametrize("word", [b"failed", b"an error"])
def test_a_line_that_is_only_counted_is_kept_where_it_speaks_of_a_failure(word: bytes) -> None:
    log = read_log([HEAD + b"New proxy recv connection 3, " + word, HEAD + b"New proxy recv 4"])
    assert [note.line for note in log.notes] == [1]
    assert log.kinds == {"proxy": 2}


@pytest.mark.parametrize("said", [b"scheduleRmaTasks done", b"minNChannels: 2"])
def test_calls_are_counted_as_calls(said: bytes) -> None:
    assert read_log([HEAD + said]).kinds == {"call": 1}


def test_ranks_of_one_size_are_one_communicator_where_no_start_is_there() -> None:
    shape = b"comm 0xa rank 1 nRanks 2 nNodes 1 localRanks 2 localRank 1 MNNVL 0"
    (comm,) = read_log([HEAD + shape]).communicators
    assert (comm.ident, comm.nranks, comm.nodes) == ("unnamed of 2 ranks", 2, 1)
    assert [(rank.rank, rank.host, rank.pid) for rank in comm.ranks] == [(1, "n1", 7)]


def test_one_more_than_can_be_told_apart_makes_the_count_a_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathering, "MAX_LEFT_OUT", 2)
    log = GatheredLog()
    for key in "abbacba":
        log._leave_out("things", key)
    assert log.more == {"things or more": 2}


def test_a_communicator_of_which_the_start_is_missing_gets_its_name_when_it_is_ready() -> None:
    ready = (
        b"ncclCommInitRank comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xc"
        b" - Init COMPLETE"
    )
    (named,) = read_log(
        [HEAD + b"Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", HEAD + ready]
    ).communicators
    assert named.ident == "c"
    (unnamed,) = read_log(
        [HEAD + b"Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
         HEAD + ready.replace(b" commId 0xc", b"")]
    ).communicators  # fmt: skip
    assert unnamed.ident != "a"


def test_a_tree_that_was_seen_is_counted_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph_lines, "MAX_TREE_ROWS", 1)
    start = (
        b"ncclCommInitRank comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xc"
        b" - Init START"
    )
    trees = b"Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 [2] -1/-1/-1->0->1"
    log = read_log([HEAD + start, HEAD + trees])
    assert log.more["tree rows"] == 1
    (tree,) = log.communicators[0].trees
    assert (tree.rank, tree.parent, tuple(tree.channels)) == (0, -1, (0, 1))


def test_a_head_is_read_once_whatever_launchers_put_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[bytes] = []
    speaker = Heads.speaker

    def heard(heads: Heads, end: bytes, head: bytes) -> Speaker | None:
        read.append(end)
        return speaker(heads, end, head)

    monkeypatch.setattr(Heads, "speaker", heard)
    lines = [b"10:00:%02d node " % second + HEAD + b"proxy" for second in range(60)]
    assert read_log(lines).library_lines == 60
    assert read == [b"n1:7:9 [0]"]
