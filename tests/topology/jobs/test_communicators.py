"""Several communicators of one job: who waits in which, and ranks that gave one up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from gputop.topology.jobs.asking import answer
from gputop.topology.jobs.ras.answer import parse
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.comparing import communicator_states
from gputop.topology.jobs.ras.places import place
from gputop.topology.jobs.standing import LONG_SECONDS
from gputop.topology.model.severity import JobVerdict, Severity
from gputop.topology.model.snapshot import NodeSnapshot
from tests.support.places import RECORDINGS
from tests.topology.jobs.ras.service import document, missing, rank
from tests.topology.jobs.test_standing import PIDS, activities, asked, counts, snapshot, told

__all__ = ["snapshot"]

LEFT = missing(3, PIDS[3], unresponsive=False)
NAMED = "rank 3 (pid 41003, GPU3) has left the communicator"


def test_a_rank_that_left_as_nccl_2_28_says_it() -> None:
    data = (RECORDINGS / "ras" / "left.json.txt").read_bytes()
    replies = [RasReply(place=place("localhost:28028"), answers=(parse(data),))]
    (found,) = communicator_states(replies, replies)
    (lost,) = found.communicator.missing
    assert (lost.rank, lost.pid, lost.left) == (1, 1263, True)
    assert found.still is True
    assert found.late == frozenset()


def both(large: bytes, *small: dict[str, Any], lost: tuple[dict[str, Any], ...] = ()) -> bytes:
    """An answer with a second communicator."""
    found = json.loads(large)
    found["communicators"] += json.loads(document(small, lost, name="0xb"))["communicators"]
    return json.dumps(found).encode()


def pair(count: int, **state: Any) -> dict[str, Any]:
    """Rank 0 of a communicator of two, whose other rank is rank 3 of the job."""
    return rank(0, PIDS[2], count, **state)


def idle(node: NodeSnapshot) -> NodeSnapshot:
    gpus = tuple(replace(each, utilization_percent=0.0) for each in node.readings.gpus)
    return replace(node, readings=replace(node.readings, gpus=gpus))


def test_a_rank_that_left_one_communicator_while_another_goes_on(snapshot: NodeSnapshot) -> None:
    gone = missing(1, PIDS[3], unresponsive=False)
    ras = asked(*(both(counts(*[n] * 6), pair(5), lost=(gone,)) for n in (7, 9)))
    job = told(snapshot, activities(), ras)
    assert job.verdict == JobVerdict.RUNS
    assert job.sentence == "train.py: 6 ranks, runs: collectives are launched: all-reduce 7 to 9"
    assert not any(each.trouble for each in job.ranks)
    assert job.steps == ()
    assert (
        "communicator of 2 ranks: all others launched all-reduce 5; none launched anything between "
        "two answers; rank 1 has left it"
    ) in [fact.title for fact in job.findings]


def test_a_rank_that_aborted_one_communicator_while_another_goes_on(snapshot: NodeSnapshot) -> None:
    aborted = rank(1, PIDS[3], 5, abort=True)
    ras = asked(*(both(counts(*[n] * 6), pair(5), aborted) for n in (7, 9)))
    job = told(snapshot, activities(), ras)
    assert job.verdict == JobVerdict.RUNS
    assert not any(each.trouble for each in job.ranks)


def test_nothing_moves_and_whether_others_wait_is_not_known(snapshot: NodeSnapshot) -> None:
    job = told(snapshot, activities(), asked(counts(*[7] * 5, lost=(LEFT,))))
    assert job.verdict == JobVerdict.UNKNOWN
    assert job.sentence == (
        f"train.py: 6 ranks, {NAMED}, where all-reduce 7 was launched last; whether the others "
        "wait is not known"
    )
    assert [f.severity for f in job.findings if NAMED in f.title] == [Severity.NOTICE]
    assert job.steps[0] == "py-spy dump --pid 41003"
    alone = told(idle(snapshot), activities(), asked(counts(*[7] * 5, lost=(LEFT,))))
    assert alone.verdict == JobVerdict.UNKNOWN
    assert alone.sentence.endswith("GPUs of the others idle, so they need not wait in a collective")


@pytest.mark.parametrize("aborts", [False, True])
def test_the_last_collective_is_that_of_the_communicator_that_it_left(
    snapshot: NodeSnapshot, aborts: bool
) -> None:
    gone = missing(1, PIDS[3], unresponsive=False)
    small = [pair(5), *([rank(1, PIDS[3], 5, abort=True)] if aborts else [])]
    seen = both(counts(*[7] * 6), *small, lost=() if aborts else (gone,))
    job = told(snapshot, activities(), asked(seen))
    assert job.verdict == JobVerdict.UNKNOWN
    assert ", where all-reduce 5 was launched last;" in job.sentence


def test_nothing_moved_for_long(snapshot: NodeSnapshot) -> None:
    ras = asked(counts(*[7] * 5, lost=(LEFT,)))
    ras = tuple(replace(each, quiet_seconds=LONG_SECONDS) for each in ras)
    job = told(snapshot, activities(), ras)
    assert job.verdict == JobVerdict.FAULTY
    assert f"{NAMED}, where all-reduce 7 was launched last (no progress for 10 min)" in job.sentence


def test_who_is_stopped_or_behind_comes_before_who_left(snapshot: NodeSnapshot) -> None:
    gone = (missing(1, PIDS[3], unresponsive=False),)
    stopped = both(counts(*[7] * 5, lost=(missing(2, PIDS[2]),)), pair(5), lost=gone)
    job = told(snapshot, activities(p41002="stopped"), asked(stopped))
    assert job.verdict == JobVerdict.HANGS
    assert job.sentence.endswith("wait in all-reduce 7, rank 2 (pid 41002, GPU2) is stopped (T)")
    # The rank that left one communicator is the one that is behind in the other.
    late = told(snapshot, activities(), asked(both(counts(7, 7, 7, 6, 7, 7), pair(5), lost=gone)))
    assert late.verdict == JobVerdict.WAITS
    assert "5 wait in all-reduce 7, rank 3 (pid 41003, GPU3) has not launched it" in late.sentence
    other = told(snapshot, activities(), asked(both(counts(7, 6, 7, 7, 7, 7), pair(5), lost=gone)))
    assert other.verdict == JobVerdict.WAITS
    assert "rank 1 (pid 41001, GPU1) has not launched it" in other.sentence
    assert "has left" not in other.sentence
    assert "whether rank 1 (pid 41001, GPU1) still comes:" in str(other.unknown)


def test_all_ranks_gave_it_up(snapshot: NodeSnapshot) -> None:
    ranks = [rank(n, PIDS[n], 7, abort=True) for n in range(6)]
    job = told(snapshot, activities(), asked(document(ranks)))
    assert job.sentence == "train.py: 6 ranks, their communicator is aborted"


def test_one_that_others_report_as_failed(snapshot: NodeSnapshot) -> None:
    ranks = [rank(n, PIDS[n], 7, abort=n == 3, asynchronous=6 * (n == 0)) for n in range(6)]
    job = told(snapshot, activities(), asked(document(ranks)))
    assert "rank 3 (pid 41003, GPU3) has aborted its communicator" in job.sentence
    assert "rank 0 (pid 41000, GPU0) reports remote process error" in job.sentence


@pytest.mark.parametrize("later", [7, 8])
def test_one_answer_alone_or_one_after_which_it_goes_on(snapshot: NodeSnapshot, later: int) -> None:
    first, second = (counts(*[n] * 5, lost=(LEFT,)) for n in (7, later))
    job = told(snapshot, activities(), asked(first, second))
    assert (job.verdict == JobVerdict.RUNS) == (later == 8)
    reply = RasReply(place=place("localhost:1"), answers=(parse(first),))
    once = told(snapshot, activities(), communicator_states([reply]))
    assert once.verdict == JobVerdict.UNKNOWN
    assert NAMED in once.sentence


def groups(whole: bytes, *pairs: tuple[int, int]) -> bytes:
    """The communicator of all six ranks, and those of ranks 0 and 1, 2 and 3, 4 and 5."""
    found = json.loads(whole)
    for at, (one, other) in enumerate(pairs):
        ranks = [rank(n, PIDS[2 * at + n], count) for n, count in enumerate((one, other))]
        found["communicators"] += json.loads(document(ranks, name=f"0x{at}"))["communicators"]
    return json.dumps(found).encode()


@pytest.mark.parametrize("later", [9, 11])
def test_who_is_behind_in_a_pair_holds_up_that_pair_alone(
    snapshot: NodeSnapshot, later: int
) -> None:
    first = groups(counts(*[3] * 6), (9, 8), (9, 9), (9, 9))
    second = groups(counts(*[3] * 6), (9, 8), (later, later), (later, later))
    job = told(snapshot, activities(), asked(first, second))
    assert job.verdict == JobVerdict.WAITS
    assert job.sentence.startswith(
        "train.py: 6 ranks, 1 waits in all-reduce 9 of the communicator of 2 ranks, rank 1 (pid "
        "41001, GPU1) has not launched it (its last all-reduce was 8)"
    )


def test_ranks_that_go_on_in_another_communicator_do_not_wait(snapshot: NodeSnapshot) -> None:
    lost = missing(1, PIDS[1])
    first, second = (groups(counts(*[3] * 5, lost=(lost,)), (9, 9), (n, n)) for n in (9, 12))
    job = told(snapshot, activities(p41001="stopped"), asked(first, second))
    assert job.verdict == JobVerdict.HANGS
    assert "3 wait in all-reduce 3, rank 1 (pid 41001, GPU1) is stopped (T)" in job.sentence


def test_a_rank_that_nobody_waits_for_is_no_trouble(snapshot: NodeSnapshot) -> None:
    """Rank 0 logs alone at the end of a step that others have begun again."""

    def told_by(small: int) -> bytes:
        found: dict[str, Any] = json.loads(counts(6, 7, 7, 7, 7, 7))
        ranks = [rank(n, PIDS[n + 1], small) for n in range(5)]
        found["communicators"] += json.loads(document(ranks, name="0xb"))["communicators"]
        return json.dumps(found).encode()

    job = told(snapshot, activities(), asked(told_by(4), told_by(5)))
    assert job.verdict == JobVerdict.RUNS
    assert not any(each.trouble for each in job.ranks)
    still = told(snapshot, activities(), asked(told_by(4)))
    assert still.verdict == JobVerdict.WAITS
    assert "5 wait in all-reduce 7" in still.sentence


def test_two_jobs_that_nobody_names_are_two(snapshot: NodeSnapshot) -> None:
    """One runs and one does not: neither answers for the other."""

    def reply(runs: int) -> RasReply:
        good = document([rank(n, 61000 + n, runs) for n in range(4)], name="0xc")
        late = document([rank(n, 71000 + n, 5 - (n == 1)) for n in range(4)], name="0xd")
        return RasReply(place=place("localhost:28028"), answers=(parse(good), parse(late)))

    ras = communicator_states([reply(9)], [reply(5)])
    second, here, first = answer(snapshot, activities(), ras, asked=True).jobs
    assert here.job is not None
    assert (first.verdict, second.verdict) == (JobVerdict.RUNS, JobVerdict.WAITS)
    assert "rank 1 (pid 71001" in second.sentence
