"""Nineteen jobs of two H100, each as one look at it found it: the rank, the reason, the price."""

from __future__ import annotations

import re
from functools import cache

import pytest

from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.severity import JobVerdict
from tests.support.places import TESTS
from tests.topology.jobs.replaying import recorded, replayed

FOLDER = TESTS / "recordings/jobs-h100x2"
STEP_MS = 7.0
"""Median step of `ddp`, which the jobs with a fault do as well."""


@cache
def report(name: str) -> JobsReport:
    return replayed(recorded(FOLDER / f"{name}.json", FOLDER / "node.json"))


def job_of(name: str) -> JobState:
    (job,) = (job for job in report(name).jobs if job.program == "job.py")
    return job


# The reason is what the sentence has to hold; the step was measured by the ranks themselves.
@pytest.mark.parametrize(
    ("name", "verdict", "rank", "reason", "step_ms"),
    [
        ("cpu50", JobVerdict.SLOW, 1, "core", 56.3),
        ("cpu10", JobVerdict.SLOW, 1, "core", 15.0),
        ("gpu1.3", JobVerdict.SLOW, 1, "computes for longer", 8.5),
        ("gpu5", JobVerdict.SLOW, 1, "computes for longer", 29.6),
        ("loader30", JobVerdict.SLOW, 1, "timer", 35.7),
        ("lockslow", JobVerdict.SLOW, 1, "lock on a file", 15.0),
        ("othergpu", JobVerdict.SLOW, 1, "another program is on its GPU", 16.0),
        ("busycore", JobVerdict.SLOW, 1, "waits for a CPU", 15.5),
        ("lock", JobVerdict.WAITS, 1, "waits for a lock on a file", None),
        ("crossed", JobVerdict.HANGS, 0, "in another order", None),
        ("p2poff", JobVerdict.SLOW, None, "NCCL_P2P_DISABLE=1", 13.1),
        ("tplaunch", JobVerdict.SLOW, None, "starting kernels", None),
    ],
)
def test_a_sick_job(
    name: str, verdict: JobVerdict, rank: int | None, reason: str, step_ms: float | None
) -> None:
    job = job_of(name)
    assert job.verdict is verdict
    assert reason in job.sentence
    assert [one.rank for one in job.accused] == ([] if rank is None else [rank])
    if step_ms is not None:
        told = re.search(r"(?:takes about|step up to) ([\d.]+) times as long", job.sentence)
        assert told is not None
        assert float(told[1]) == pytest.approx(step_ms / STEP_MS, rel=0.3)


@pytest.mark.parametrize("name", ["ddp", "fsdp", "tp", "pp", "accum", "eval0", "ckpt0"])
def test_a_healthy_job_accuses_nobody(name: str) -> None:
    job = job_of(name)
    assert job.verdict is JobVerdict.RUNS
    assert job.accused == ()
    assert not any(finding.severity.counts for finding in job.findings)


@pytest.mark.parametrize("number", range(5))
def test_ranks_that_only_launch_and_are_late_in_turns_are_not_accused(number: int) -> None:
    """FSDP on a host that launches slowly: in three of five looks rank 1 was late, then rank 0."""
    folder = TESTS / "recordings/jobs-h200x2"
    told = replayed(recorded(folder / f"fsdp-{number}.json", folder / "node.json"))
    (job,) = (job for job in told.jobs if job.program == "job.py")
    assert job.verdict is JobVerdict.RUNS
    assert job.accused == ()


# Shares of a step by PyTorch's profiler: computing, exposed kernels of NCCL, nothing; in percent.
@pytest.mark.parametrize(
    ("name", "rank", "shares"),
    [
        ("cpu50", 1, (10, 1, 89)),
        ("gpu1.3", 0, (78, 20, 2)),
        ("gpu1.3", 1, (93, 5, 2)),
        ("loader30", 0, (18, 82, 0)),
        ("loader30", 1, (16, 1, 83)),
        ("gpu5", 0, (21, 78, 1)),
        ("gpu5", 1, (98, 1, 1)),
        ("cpu10", 0, (45, 54, 1)),
        ("cpu10", 1, (41, 3, 57)),
        ("lockslow", 1, (43, 3, 54)),
        ("tp", 1, (82, 16, 2)),
        ("accum", 0, (95, 3, 2)),
        ("ddp", 1, (91, 6, 3)),
        ("p2poff", 0, (47, 52, 1)),
    ],
)
def test_what_a_step_is_made_of(name: str, rank: int, shares: tuple[float, float, float]) -> None:
    load = next(one.load for one in job_of(name).ranks if one.rank == rank)
    assert load is not None
    told = (100 * load.computing, 100 * load.in_library, 100 * load.idle)
    assert told == pytest.approx(shares, abs=10)


def test_the_job_that_something_is_wrong_with_comes_first() -> None:
    verdicts = [job.verdict for job in report("othergpu").jobs]
    assert verdicts == [JobVerdict.SLOW, JobVerdict.UNKNOWN]
