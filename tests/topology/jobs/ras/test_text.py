"""Answers as text, put together from the format strings of client_support.cc."""

import pytest

from gputop.topology.jobs.ras.answer import RasError
from gputop.topology.jobs.ras.text import parse

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
