"""What a job says of itself, as a finding of its node."""

from __future__ import annotations

import re

from gputop.topology.jobs.standing import SEVERITIES, JobState
from gputop.topology.model.finding import JOB, Finding
from gputop.topology.model.page import Fact, Fix
from gputop.topology.model.severity import NOTICE, Origin

MOST_FACTS = 8


def job_finding(job: JobState) -> Finding:
    """What `gputop jobs` says of a job, as a finding about the GPUs of the ranks that it names."""
    troubled = [address for rank in job.accused for address in rank.gpus]
    return Finding.of(
        id=JOB,
        severity=SEVERITIES.get(job.verdict, NOTICE),
        title=job.sentence,
        origin=Origin.JOB,
        devices=tuple(dict.fromkeys(troubled)),
        evidence=tuple(
            Fact(what="fact", value=finding.title, source=", ".join(finding.sources))
            for finding in job.findings[:MOST_FACTS]
        ),
        fix=_next(job),
        look=("gputop jobs",),
    )


def _next(job: JobState) -> tuple[Fix, ...]:
    """The line to run next for this job; `gputop jobs` has those that may follow."""
    if not job.steps:
        return ()
    numbers = set(re.findall(r"\d+", job.steps[0]))
    who = next((rank.label for rank in job.ranks if str(rank.pid) in numbers), "its process")
    return (Fix(text=f"Run this next for {job.program}, about {who}.", command=job.steps[0]),)
