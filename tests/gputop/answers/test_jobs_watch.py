"""`gputop jobs --watch` and `--exit-code`: lines where a verdict changes, and codes for scripts."""

from __future__ import annotations

import re

import pytest

from gputop.answers.jobs import JobsRequest, answer_of
from gputop.answers.jobs_watch import GONE, changes, watch
from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.ras.memory import Memory
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.severity import JobVerdict
from tests.support.command import gputop_here

RUNS, HANGS, SLOW = JobVerdict.RUNS, JobVerdict.HANGS, JobVerdict.SLOW


def job(name: str, verdict: JobVerdict) -> JobState:
    return JobState(name=name, program=name, sentence=f"{name}: {verdict}", verdict=verdict)


def report(*jobs: JobState) -> JobsReport:
    return JobsReport(jobs=jobs)


def test_a_line_comes_where_a_verdict_changes_and_only_there() -> None:
    looks = [
        report(job("a", RUNS)),
        report(job("a", RUNS), job("b", SLOW)),
        report(job("a", RUNS), job("b", SLOW)),
        report(job("b", RUNS)),
        report(job("b", HANGS)),
        report(job("b", RUNS)),
    ]
    said: list[str] = []
    asked: list[Memory] = []

    def look(memory: Memory) -> JobsReport:
        asked.append(memory)
        return looks[len(asked) - 1]

    assert watch(look, until_hang=True, sleep=lambda _: None, say=said.append) == 2
    assert len(asked) == 5, "the first hang ends it"
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} "
    assert all(re.match(stamp, line) for line in said)
    assert [re.sub(stamp, "", line) for line in said] == [
        "✓ runs: a: runs",
        "▼ slow: b: slow",
        "✓ runs: b: runs",
        f"? a {GONE}",
        "✗ hangs: b: hangs",
    ]


def test_a_name_from_outside_stays_one_line() -> None:
    (change,) = changes({}, {"a": job("a\x1b[2J\nroot", RUNS)})
    line = change.shown
    assert "\x1b" not in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ((), 3),
        ((RUNS,), 0),
        ((RUNS, JobVerdict.UNKNOWN), 3),
        ((RUNS, SLOW, JobVerdict.UNKNOWN), 1),
        ((JobVerdict.WAITS,), 1),
        ((JobVerdict.FAULTY, HANGS), 2),
    ],
)
def test_the_code_is_that_of_the_worst_job_where_it_is_asked_for(
    verdicts: tuple[JobVerdict, ...], code: int
) -> None:
    found = answer_of(report(*(job("a", verdict) for verdict in verdicts)))
    assert found.exit_code == 0
    assert answer_of(found.report, coded=True).exit_code == code


def test_a_demo_that_hangs_has_the_code_and_watching_it_is_refused() -> None:
    assert gputop_here("jobs", "--demo", "sick-h100-8").returncode == 0
    assert gputop_here("jobs", "--demo", "sick-h100-8", "--exit-code").returncode == 2
    refused = gputop_here("jobs", "--demo", "sick-h100-8", "--watch")
    assert refused.returncode == 64
    assert "--watch looks at the jobs here" in refused.stderr
    assert JobsRequest().no_ras is False
