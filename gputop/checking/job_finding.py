"""What a job says of itself, as a finding of its node."""

from __future__ import annotations

from gputop.topology.jobs.standing import SEVERITIES, JobState
from gputop.topology.model.finding import JOB, Finding
from gputop.topology.model.page import Fact, Fix
from gputop.topology.model.severity import NOTICE, Origin

MOST_FACTS = 8
STEP = "See what its processes do."


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
        fix=tuple(Fix(text=STEP, command=step) for step in job.steps),
        look=("gputop jobs",),
    )
