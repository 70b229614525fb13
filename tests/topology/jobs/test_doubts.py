"""What accuses nobody of this moment: old dumps, ranks that are busy elsewhere, slow ranks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from gputop.topology.jobs.asking import answer
from gputop.topology.jobs.flight.dump import parse as parse_dump
from gputop.topology.jobs.flight.files import FRESH_SECONDS, FoundDumps
from gputop.topology.jobs.from_files import of_files
from gputop.topology.jobs.ras.answer import parse
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.comparing import communicator_states
from gputop.topology.jobs.ras.places import place
from gputop.topology.model.severity import JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from tests.topology.jobs.flight.test_compare import dumped, entry
from tests.topology.jobs.ras.service import document, rank
from tests.topology.jobs.test_standing import PIDS, activities, asked, counts, snapshot, told

__all__ = ["snapshot"]

BEGAN, WRITTEN = 50, 100.0


def dumps(*lasts: int, written: tuple[float, ...] = (), **more: Any) -> FoundDumps:
    """A dump for each rank, whose last collective has not ended."""
    times = written or (WRITTEN,) * len(lasts)
    return FoundDumps(
        dumps=tuple(
            parse_dump(
                dumped(entry(last, state="started", time_created_ns=BEGAN * 10**9, **more)),
                f"d_{number}",
                time,
            )
            for number, (last, time) in enumerate(zip(lasts, times, strict=True))
        )
    )


def test_an_old_dump_says_where_ranks_were(snapshot: NodeSnapshot) -> None:
    found = dumps(2, 2, 1)
    at_once = told(snapshot, activities(), (), dumps=found, now=WRITTEN + FRESH_SECONDS)
    assert at_once.verdict == JobVerdict.HANGS
    assert "2 wait in all-reduce 2 of the default group, rank 2" in at_once.sentence
    later = told(snapshot, activities(), (), dumps=found, now=WRITTEN + 7300)
    assert later.verdict == JobVerdict.FAULTY
    assert (
        "6 ranks, 2 waited in all-reduce 2 of the default group when a dump was written, 2 h 1 min "
        "ago, rank 2 (pid 41002, GPU2) had not entered it"
    ) in later.sentence
    assert later.sentence.endswith("; whether they still do is not known")


def test_a_dump_written_before_others_entered_a_collective_accuses_nobody() -> None:
    (job,) = of_files(None, dumps(9, 9, 3, written=(WRITTEN, WRITTEN, BEGAN - 1.0))).jobs
    assert "in all-reduce 9 of the default group when the dump was written" in job.sentence
    assert not any(rank.trouble for rank in job.ranks)
    assert "the dump of rank 2 is older than that collective" in str(job.findings)
    (job,) = of_files(None, dumps(9, 9, 3)).jobs
    assert "rank 2 had not entered it" in job.sentence
    assert "how long ranks had waited" in job.unknown[0]


def test_an_old_dump_accuses_nobody_where_ras_knows_who_is_behind_now(
    snapshot: NodeSnapshot,
) -> None:
    found, later = dumps(2, 2, 1), WRITTEN + 7300
    ras = asked(counts(9, 8, 9, 9, 9, 9))
    job = told(snapshot, activities(), ras, dumps=found, now=later)
    assert [rank.rank for rank in job.ranks if rank.trouble] == [1]
    equal = told(snapshot, activities(), asked(counts(*[9] * 6)), dumps=found, now=later)
    assert not [rank for rank in equal.ranks if rank.trouble]
    assert equal.verdict == JobVerdict.UNKNOWN
    fresh = told(snapshot, activities(), ras, dumps=found, now=WRITTEN + 5)
    assert [rank.rank for rank in fresh.ranks if rank.trouble] == [1, 2]


def test_a_stopped_rank_comes_before_sizes_that_differ(snapshot: NodeSnapshot) -> None:
    sides = (dumped(entry(1)), dumped(entry(1, size=5)))
    found = FoundDumps(dumps=tuple(parse_dump(side, f"d_{n}") for n, side in enumerate(sides)))
    job = told(snapshot, activities(p41002="stopped"), (), dumps=found)
    assert "rank 2 (pid 41002, GPU2) is stopped (T)" in job.sentence
    assert "has other sizes" in str(job.findings)
    assert "has other sizes" in told(snapshot, activities(), (), dumps=found).sentence


@pytest.mark.parametrize(("later", "verdict"), [(5, JobVerdict.WAITS), (6, JobVerdict.RUNS)])
def test_a_rank_that_launches_in_another_communicator_may_still_come(
    snapshot: NodeSnapshot, later: int, verdict: str
) -> None:
    def both(small: int) -> bytes:
        pair = document([rank(n, PIDS[n], small) for n in (2, 3)], name="0xb")
        whole = json.loads(counts(7, 7, 6, 7, 7, 7))
        whole["communicators"] += json.loads(pair)["communicators"]
        return json.dumps(whole).encode()

    job = told(snapshot, activities(), asked(both(5), both(later)))
    assert job.verdict == verdict
    assert any(each.trouble for each in job.ranks) == (verdict == JobVerdict.WAITS)


def test_a_rank_that_is_only_behind_may_be_slow(snapshot: NodeSnapshot) -> None:
    job = told(snapshot, activities(), asked(counts(7, 6, 7, 7, 7, 7)))
    assert "whether rank 1 (pid 41001, GPU1) still comes" in job.unknown[0]
    stopped = told(snapshot, activities(p41001="stopped"), asked(counts(7, 6, 7, 7, 7, 7)))
    assert stopped.verdict == JobVerdict.HANGS
    assert "still come" not in str(stopped.unknown)


def test_an_answer_without_counts_says_nothing_of_waiting(snapshot: NodeSnapshot) -> None:
    bare = document([rank(n, PIDS[n], 0) | {"collective_counts": {}} for n in range(6)])
    job = told(snapshot, activities(), asked(bare))
    assert job.verdict == JobVerdict.UNKNOWN
    assert "RAS answers, without counts of collectives" in job.sentence
    assert "this answer of RAS counts no collectives" in str(job.findings)
    assert "none launched anything" not in str(job.findings)


def test_one_answer_with_counts_says_nothing_of_what_was_launched(snapshot: NodeSnapshot) -> None:
    reply = RasReply(place=place("localhost:1"), answers=(parse(counts(7, 6, 7, 7, 7, 7)),))
    job = told(snapshot, activities(), communicator_states([reply]))
    assert "only one answer of RAS has their counts" in job.sentence


def test_processes_that_ras_does_not_name_are_not_said_to_be_off_the_gpus(
    snapshot: NodeSnapshot,
) -> None:
    nobody = document([rank(n, 0, 7) for n in range(6)])
    reply = RasReply(place=place("localhost:1"), answers=(parse(nobody),))
    ras = communicator_states([reply], [reply])
    named, other = answer(snapshot, activities(), ras, asked=True, replies=(reply,)).jobs
    assert "whether they wait is not known: RAS names none of its processes" in named.sentence
    assert "names none, so it may be a job named here too" in other.unknown[0]


def test_the_next_step_for_a_stopped_rank_of_a_recorded_node(snapshot: NodeSnapshot) -> None:
    processes = [
        replace(each, state="stopped") if each.pid == 41002 else each
        for each in snapshot.readings.processes
    ]
    readings = replace(snapshot.readings, processes=tuple(processes))
    job = told(replace(snapshot, readings=readings), {}, (), recorded=True)
    assert "is stopped (T)" in job.sentence
    assert job.steps == ("kill -CONT 41002",)
