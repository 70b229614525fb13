"""Which answer of RAS is about which job: texts name hardly a process."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gputop.topology.jobs.asking import JobsReport, answer
from gputop.topology.jobs.ras.answer import RasAnswer
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.comparing import communicator_states
from gputop.topology.jobs.ras.places import RasPlace
from gputop.topology.jobs.ras.text import parse
from gputop.topology.model.severity import JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from tests.topology.jobs.ras.test_text import BEHIND, HEALTHY, LOST, MISSING_OLD
from tests.topology.jobs.test_standing import PIDS, activities, snapshot

__all__ = ["snapshot"]

SIX = "1          6            1          6        6"


def text(raw: str, speaker: int | None = None, *, ranks: int = 6) -> RasAnswer:
    """An answer of a job with so many ranks, all on this machine."""
    summary = f"1          {ranks}            1          {ranks}        {ranks}"
    sized = raw.replace("1          4            1          4        4", summary)
    sized = sized.replace(
        "1         1         4         4         4   ", f"1 1 {ranks} {ranks} {ranks} "
    )
    sized = sized.replace("1         1         3         4         3   ", f"1 1 5 {ranks} 5 ")
    return replace(parse(sized.encode()), speaker=speaker)


def told(
    snapshot: NodeSnapshot,
    *answers: RasAnswer,
    before: tuple[RasAnswer, ...] | None = None,
    quiet: float | None = None,
    **more: Any,
) -> JobsReport:
    here = RasPlace(address="localhost:28028", pids=frozenset(PIDS))
    reply = RasReply(place=here, answers=answers)
    earlier = reply if before is None else RasReply(place=here, answers=before)
    ras = tuple(
        replace(each, quiet_seconds=quiet) for each in communicator_states([reply], [earlier])
    )
    return answer(snapshot, more.pop("found", activities()), ras, asked=True, replies=(reply,))


@pytest.mark.parametrize("speaker", [41003, None])
def test_a_healthy_job_that_answers_in_text_is_one_job(
    snapshot: NodeSnapshot, speaker: int | None
) -> None:
    (job,) = told(snapshot, text(HEALTHY, speaker)).jobs
    assert job.verdict == JobVerdict.UNKNOWN
    assert job.sentence == (
        "train.py: 6 ranks, all answer RAS and have launched equally many collectives, how many "
        "the text of NCCL 2.26.2 does not say; whether they compute or wait is not known"
    )
    taken = "whether the answer of RAS is about this job: it names no process"
    assert (taken in str(job.unknown)) == (speaker is None)
    assert len(job.ranks) == 6


def test_two_processes_of_a_job_that_answer_are_heard_once(snapshot: NodeSnapshot) -> None:
    (job,) = told(snapshot, text(HEALTHY, 41001), text(HEALTHY, 41004)).jobs
    assert str(job.findings).count("communicator of 6 ranks") == 1
    (job,) = told(snapshot, text(HEALTHY, 41001), text(BEHIND, 41004)).jobs
    assert str(job.findings).count("communicator of 6 ranks") == 1
    assert "3 launched all-reduce 1042" in str(job.findings)


def test_an_answer_of_another_number_of_ranks_is_not_taken_for_a_jobs(
    snapshot: NodeSnapshot,
) -> None:
    own, other = told(snapshot, text(HEALTHY, ranks=8)).jobs
    assert "RAS names none of its processes" in own.sentence
    assert other.job is None


def test_an_answer_that_two_jobs_may_have_given_is_given_to_none(snapshot: NodeSnapshot) -> None:
    processes = tuple(
        replace(each, job=f"slurm {each.pid % 2}.0", world_size=3, rank=each.pid // 2)
        for each in snapshot.readings.processes
    )
    halves = replace(snapshot, readings=replace(snapshot.readings, processes=processes))
    assert len(told(halves, text(HEALTHY, ranks=3)).jobs) == 3
    first, second = told(halves, text(HEALTHY, 41001, ranks=3)).jobs
    assert ["RAS" in str(job.findings) for job in (first, second)] == [False, True]
    # What one job is known to have said cannot be the other's.
    first, second = told(halves, text(HEALTHY, 41001, ranks=3), text(HEALTHY, ranks=3)).jobs
    assert ["it names no process" in str(job.unknown) for job in (first, second)] == [True, False]


def test_a_rank_that_is_behind_and_one_that_still_comes(snapshot: NodeSnapshot) -> None:
    late = BEHIND.replace("3 ranks", "5 ranks").replace("process 4711", "process 41002")
    (job,) = told(snapshot, text(late, 41000), quiet=0.4).jobs
    assert job.verdict == JobVerdict.WAITS
    assert job.sentence == (
        "train.py: 6 ranks, 5 wait in all-reduce 1042 (no progress for 0.4 s), rank 2 (pid 41002, "
        "GPU2) has not launched it (its last all-reduce was 1041)"
    )
    (job,) = told(snapshot, text(late, 41000), quiet=2.4).jobs
    assert (job.verdict, job.quiet_seconds) == (JobVerdict.WAITS, 2.4)
    (job,) = told(snapshot, text(HEALTHY, 41000), before=(text(late, 41000),)).jobs
    assert job.verdict == JobVerdict.RUNS
    (job,) = told(snapshot, text(late, 41000), before=(text(HEALTHY, 41000),)).jobs
    assert job.verdict == JobVerdict.RUNS


@pytest.mark.parametrize("cores", [0.1, 1.0])
def test_a_rank_that_evaluates_or_writes_a_checkpoint_alone_is_no_hang_for_minutes(
    snapshot: NodeSnapshot, cores: float
) -> None:
    late = text(BEHIND.replace("3 ranks", "5 ranks").replace("4711", "41002"), 41000)
    idle = {pid: replace(each, user_cores=cores) for pid, each in activities().items()}
    verdicts = [told(snapshot, late, quiet=s, found=idle).jobs[0].verdict for s in (2.4, 300, 700)]
    assert verdicts == [JobVerdict.WAITS, JobVerdict.WAITS, JobVerdict.HANGS]
    (job,) = told(snapshot, late, quiet=300, found=idle).jobs
    assert "whether rank 2 (pid 41002, GPU2) still comes" in str(job.unknown)
    assert "still comes" not in str(told(snapshot, late, quiet=700, found=idle).jobs[0].unknown)


def test_ranks_that_are_behind_and_not_named(snapshot: NodeSnapshot) -> None:
    lines = "  2 ranks have launched up to operation 7\n  4 ranks have launched up to operation 6\n"
    raw = f"{BEHIND.partition('  3 ranks')[0]}{lines}"
    (job,) = told(snapshot, text(raw, 41000), quiet=0.4).jobs
    assert job.verdict == JobVerdict.WAITS
    assert (
        "2 wait in all-reduce 7 (no progress for 0.4 s), 4 have not launched it; which, RAS does "
        "not name" in job.sentence
    )
    assert "4 that are not named launched less" in str(job.findings)
    alone = told(snapshot, text(raw, 41000), before=()).jobs[0]
    assert "4 ranks launched all-reduce 6, 2 others 7; only one answer of RAS" in alone.sentence


def test_a_lost_rank_by_all_forms_of_the_text(snapshot: NodeSnapshot) -> None:
    for raw in (
        LOST,
        MISSING_OLD.replace("1         1         2         4         4   ", "1 1 5 6 6 "),
    ):
        (job,) = told(snapshot, text(raw.replace("4711", "41002"), 41000)).jobs
        assert job.verdict == JobVerdict.FAULTY
        assert "rank 2 (pid 41002, GPU2)" in job.sentence
        assert len(job.ranks) == 6
    several = raw.replace("rank: 2", "ranks: 2,3").replace("4711", "41002")
    (job,) = told(snapshot, text(several, 41000)).jobs
    assert [rank.rank for rank in job.ranks if rank.trouble] == [2, 3]


def test_a_dead_process_where_no_communicator_is_left(snapshot: NodeSnapshot) -> None:
    raw = MISSING_OLD.partition("#0-0")[0].replace("4711", "41002")
    gone = raw.replace(
        "    0         1         1         2         4         4   RUNNING  INCOMPLETE", ""
    )
    (job,) = told(snapshot, text(gone, 41000)).jobs
    assert "rank 2 (pid 41002, GPU2) is given up by RAS" in job.sentence


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("   INIT", "their communicator is still being initialised"),
        ("FINALIZE", "their communicator is being taken down"),
        ("  ABORT", "their communicator is aborted"),
    ],
)
def test_the_state_of_a_communicator(snapshot: NodeSnapshot, state: str, said: str) -> None:
    (job,) = told(snapshot, text(HEALTHY.replace("RUNNING", state.strip()), 41000)).jobs
    assert said in job.sentence
    assert (job.verdict == JobVerdict.FAULTY) == ("ABORT" in state)
