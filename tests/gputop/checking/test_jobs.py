"""Where the jobs of a node stand, as findings of its check."""

from __future__ import annotations

import json

import pytest

from gputop.topology.jobs.finding import finding_of
from gputop.topology.jobs.standing import JobState, RankState
from gputop.topology.model.finding import JOB
from gputop.topology.model.page import Fix
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW, JobVerdict, Severity
from tests.support.command import gputop_here
from tests.support.places import RECORDINGS


@pytest.mark.parametrize(
    ("verdict", "severity"),
    [
        (JobVerdict.HANGS, BROKEN),
        (JobVerdict.FAULTY, SLOW),
        (JobVerdict.WAITS, SLOW),
        (JobVerdict.SLOW, SLOW),
        (JobVerdict.UNKNOWN, NOTICE),
        (JobVerdict.RUNS, NOTICE),
    ],
)
def test_a_job_counts_as_its_verdict_does(verdict: JobVerdict, severity: Severity) -> None:
    rank = RankState(rank=3, pid=41, label="rank 3 (pid 41, GPU3)")
    steps = ("py-spy dump --pid 41", "py-spy dump --pid 40")
    job = JobState(
        name="a", program="a", sentence="a: said", verdict=verdict, ranks=(rank,), steps=steps
    )
    found = finding_of(job)
    assert (found.severity, found.title) == (severity, "a: said")
    text = "Run this next for a, about rank 3 (pid 41, GPU3)."
    assert found.fix == (Fix(text=text, command="py-spy dump --pid 41"),)


@pytest.mark.parametrize(("demo", "code"), [("sick-h100-8", 2), ("hgx-h100-8", 0)])
def test_check_says_of_a_job_what_jobs_says(demo: str, code: int) -> None:
    (job,) = json.loads(gputop_here("jobs", "--json", "--demo", demo).stdout)["jobs"]
    done = gputop_here("check", "--quick", "--jobs", "--json", "--demo", demo)
    answer = json.loads(done.stdout)
    (found,) = [one for one in answer["findings"] if one["id"] == JOB]
    assert found["title"] == job["sentence"]
    assert done.returncode == answer["exit_code"] == code
    alone = json.loads(gputop_here("check", "--quick", "--json", "--demo", demo).stdout)
    assert JOB not in {one["id"] for one in alone["findings"]}


def test_a_recording_tells_of_its_jobs_with_the_option_and_without() -> None:
    command = ("check", "--quick", "--json", "--from", str(RECORDINGS / "saved-h200x2" / "cpu50"))
    plain, asked = gputop_here(*command), gputop_here(*command, "--jobs")
    assert plain.returncode == asked.returncode == 1
    found = [json.loads(done.stdout)["findings"] for done in (plain, asked)]
    assert found[0] == found[1]
    assert [one["id"] for one in found[0]].count(JOB) == 1
