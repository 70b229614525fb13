"""Answers as text, put together from the format strings of client_support.cc."""

import pytest

from gputop.topology.jobs.ras.answer import RasError
from gputop.topology.jobs.ras.text import parse
from tests.support.places import RECORDINGS

HEAD = """NCCL version 2.26.2+cuda12.8 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          4            1          4        4

Communicators... (0.012s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""
HEALTHY = (
    HEAD
    + """    0         1         1         4         4         4   RUNNING      OK

Errors
======

Warnings
========

"""
)
BEHIND = (
    HEAD
    + """    0         1         1         4         4         4   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (00000000a1b2c3d4) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 1042
  Rank 2 has launched up to operation 1041 -- GPU 2 managed by process 4711 on node 127.0.0.1

"""
)
LOST = (
    HEAD
    + """    0         1         1         3         4         3   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 4711 on node 127.0.0.1 managing GPU 2

#0-0 (00000000a1b2c3d4) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 2 -- GPU 0 (NVML 2) managed by process 4711 on node 127.0.0.1

Warnings
========

TIMEOUT
  Encountered 1 communication timeout while gathering communicator data

"""
)
STATES = (
    HEAD
    + """    0         1         1         4         4         4     ABORT  ERROR,MISMATCH

Errors
======

#0-0 (00000000a1b2c3d4) ERROR
  Asynchronous error on 1 rank
  Rank 1 reported Remote process error -- GPU 1 managed by process 12 on node 127.0.0.1

Warnings
========

#0-0 (00000000a1b2c3d4) MISMATCH
  Communicator ranks have different status
  2 ranks have status RUNNING
  Rank 0 has status ABORT -- GPU 0 managed by process 11 on node 127.0.0.1
  Rank 3 has status NOCOMM -- GPU 3 managed by process 14 on node 127.0.0.1
  Communicator ranks have different AllReduce operation counts
  2 ranks have launched up to operation 9
  Rank 0 -- GPU 0 managed by process 11 on node 127.0.0.1
  Rank 1 -- GPU 1 managed by process 12 on node 127.0.0.1
  Rank 2 has not launched any operations -- GPU 2 managed by process 13 on node 127.0.0.1
"""
)
OLD = (
    HEAD
    + """    0         1         1         2         2         2   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (00000000a1b2c3d4) MISMATCH
  Communicator ranks have different collective operation counts
  Rank 0 has launched up to operation 3 -- GPU 0 managed by process 11 on node 127.0.0.1
  Rank 1 has launched up to operation 2 -- GPU 1 managed by process 12 on node 127.0.0.1
"""
)


def test_a_healthy_job_has_its_communicator_and_no_rank_by_name() -> None:
    answer = parse(HEALTHY.encode())
    assert (answer.version, answer.seconds) == ("2.26.2", 0.012)
    (one,) = answer.communicators
    assert (one.size, one.state, one.marks, one.ranks) == (4, "RUNNING", (), ())


def test_a_rank_that_is_behind_and_what_the_others_launched() -> None:
    (one,) = parse(BEHIND.encode()).communicators
    assert one.name == "0xa1b2c3d4"
    assert one.agreed == (("AllReduce", 3, 1042),)
    (rank,) = one.ranks
    assert (rank.rank, rank.pid, rank.counts) == (2, 4711, (("AllReduce", 1041),))


def test_a_rank_of_which_there_is_no_data() -> None:
    answer = parse(LOST.encode())
    (one,) = answer.communicators
    (lost,) = one.missing
    assert (lost.rank, lost.pid, lost.cuda_device, lost.nvml_device) == (2, 4711, 0, 2)
    assert (lost.unresponsive, answer.timeouts, answer.silent[0].pid) == (True, 1, 4711)


def test_states_errors_and_ranks_that_left_the_communicator() -> None:
    (one,) = parse(STATES.encode()).communicators
    by = {rank.rank: rank for rank in one.ranks}
    assert by[0].state == "ABORT"
    assert by[1].errors == ("remote process error",)
    assert {number: dict(rank.counts) for number, rank in by.items()} == {
        0: {"AllReduce": 9},
        1: {"AllReduce": 9},
        2: {"AllReduce": 0},
    }
    assert [(lost.rank, lost.unresponsive) for lost in one.missing] == [(3, False)]
    assert one.agreed == ()


def test_the_words_of_the_first_version() -> None:
    (one,) = parse(OLD.encode()).communicators
    assert [dict(rank.counts) for rank in one.ranks] == [{"collective": 3}, {"collective": 2}]


@pytest.mark.parametrize("data", [b"", b"hello\n" * 9, b"\xff\xfe\x00" * 50])
def test_another_text_is_none(data: bytes) -> None:
    with pytest.raises(RasError, match="does not begin"):
        parse(data)


MISSING_OLD = (
    HEAD.replace("2.26.2", "2.24.3")
    + """    0         1         1         2         4         4   RUNNING  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4711 on node 127.0.0.1 managing GPU 0 (NVML 2)

#0-0 (00000000a1b2c3d4) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 2

Warnings
========

"""
)


def test_the_first_versions_name_missing_ranks_and_processes_apart() -> None:
    (one,) = parse(MISSING_OLD.encode()).communicators
    (lost,) = one.missing
    assert (lost.rank, lost.pid, lost.cuda_device, lost.nvml_device) == (2, 4711, 0, 2)
    assert (lost.dead, lost.unresponsive) == (True, True)
    several = MISSING_OLD.replace("The missing rank: 2", "The missing ranks: 2,3")
    (two,) = parse(several.encode()).communicators
    assert [(lost.rank, lost.pid) for lost in two.missing] == [(2, None), (3, None)]
    # Of a communicator of some ranks it is not known that the silent process is one of them.
    part = MISSING_OLD.replace("2         4         4   RUN", "2         3         3   RUN")
    assert parse(part.encode()).communicators[0].missing[0].pid is None


def test_ranks_that_left_by_the_word_of_the_first_versions() -> None:
    lines = "  Communicator ranks have different status\n{}\n"
    head = OLD.partition("  Communicator ranks")[0]
    one = lines.format("  Rank 1 has status UNKNOWN")
    some = lines.format("  2 ranks have status UNKNOWN\n  The unknown ranks: 0,1")
    for text, ranks in ((one, [1]), (some, [0, 1])):
        (found,) = parse((head + text).encode()).communicators
        assert [(lost.rank, lost.unresponsive) for lost in found.missing] == [
            (rank, False) for rank in ranks
        ]


def test_a_list_of_ranks_that_may_be_cut_off_loses_its_last_number() -> None:
    listed = ",".join(str(rank) for rank in range(1000, 1210))[:1023]
    (one,) = parse(
        MISSING_OLD.replace("rank: 2", f"ranks: {listed}")
        .replace(" 4         4   R", " 4096 4 R")
        .encode()
    ).communicators
    assert [lost.rank for lost in one.missing] == list(range(1000, 1204))


def test_what_stands_above_the_communicators() -> None:
    job = parse(HEALTHY.encode()).job
    assert job is not None
    assert (job.nodes, job.processes_per_node, job.processes, job.gpus) == (1, 4, 4, 4)


def test_the_name_of_amds_library() -> None:
    text = HEALTHY.replace(
        "NCCL version 2.26.2+cuda12.8 compiled with CUDA 12.8",
        'RCCL version 2.28.3 compiled with ROCm "7.2.0.0"',
    )
    assert (parse(text.encode()).library, parse(text.encode()).version) == ("RCCL", "2.28.3")


def public(name: str) -> bytes:
    return (RECORDINGS / "ras" / "public" / f"{name}.txt").read_bytes()


def test_a_job_whose_nodes_differ_and_communicators_without_a_rank() -> None:
    answer = parse(public("uneven-2.27.3"))
    assert answer.job is not None
    assert (answer.job.nodes, answer.job.processes, answer.job.processes_per_node) == (2, 10, None)
    assert [one.size for one in answer.communicators] == [2] * 5
    assert [(lost.rank, lost.pid) for lost in answer.communicators[0].missing] == [(1, 60004)]
    assert answer.pids == {60004}, "the text lists processes of another node as the outlier's"


def test_stragglers_that_are_the_many() -> None:
    (one,) = parse(public("stragglers-2.26.2")).communicators
    assert one.agreed == (("AllGather", 30, 640),)
    assert [(rank.rank, rank.pid, dict(rank.counts)) for rank in one.ranks] == [
        (12, 323032, {"AllGather": 641}),
        (13, 323033, {"AllGather": 641}),
    ]


def test_an_excerpt_is_read_where_that_is_wanted() -> None:
    with pytest.raises(RasError):
        parse(public("missing-2.24"))
    answer = parse(public("missing-2.24"), whole=False)
    assert [(lost.rank, lost.pid) for lost in answer.communicators[0].missing] == [(21, None)]
    assert (answer.silent[0].pid, answer.timeouts) == (3487984, 2)
    dead = parse(public("dead-2.30.7"), whole=False)
    assert (dead.communicators, dead.silent[0].dead) == ((), True)
    down = parse(public("teardown-2.24"), whole=False)
    assert [one.state for one in down.communicators] == ["FINALIZE", *["RUNNING"] * 7, "INIT"]


@pytest.mark.parametrize(("characters", "whole"), [(998, True), (999, True), (1000, False)])
def test_the_last_number_of_a_list_without_end_may_be_cut(characters: int, whole: bool) -> None:
    """NCCL writes a list of ranks into a buffer of a fixed size."""
    first = "3" if characters % 2 else "03"
    listed = ",".join([first, *["3"] * ((characters - len(first)) // 2 - 1), "2"])
    assert len(listed) == characters
    text = MISSING_OLD.replace("The missing rank: 2", f"The missing ranks: {listed}")
    (one,) = parse(text.encode()).communicators
    assert (2 in {lost.rank for lost in one.missing}) is whole
