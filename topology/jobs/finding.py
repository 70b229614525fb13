"""What a job says of itself, as the one finding by which check, Findings and fleet tell it."""

from __future__ import annotations

import re

from ..model.finding import JOB, Finding, Kind, Subject
from ..model.page import NEXT_START, SIMULATED, UNSET, Fact, Fix
from ..model.severity import NOTICE, Origin
from .standing import SEVERITIES, JobState

MOST_FACTS = 8
ASK = "gputop jobs"
ENVIRON = "/proc/PID/environ"
ASK_FILES = "gputop jobs, with the same --from"


def finding_of(job: JobState, look: str = ASK) -> Finding:
    """What `gputop jobs` says of a job, as a finding about the GPUs of the ranks that it names.

    `look`: what tells more.
    """
    severity = SEVERITIES.get(job.verdict, NOTICE)
    troubled = [address for rank in job.accused for address in rank.gpus]
    return Finding.of(
        id=JOB,
        severity=severity,
        title=f"{job.sentence} ({SIMULATED})" if job.simulated else job.sentence,
        origin=Origin.JOB,
        devices=tuple(dict.fromkeys(troubled)),
        evidence=(
            *(Fact(what=name, value=value, source=ENVIRON) for name, value in job.variables),
            *(
                Fact(what="fact", value=finding.title, source=", ".join(finding.sources))
                for finding in job.findings[:MOST_FACTS]
            ),
        ),
        about=_about(job),
        fix=_without(job)
        or _next(job)
        or (Fix(text=f"Look at its ranks and facts: {look}."),) * severity.counts,
        look=(look,),
    )


def _about(job: JobState) -> tuple[Subject, ...]:
    """The variables that it blames, and the processes that have them."""
    users = () if job.job is None or not job.variables else job.job.processes
    return (
        *(Subject(Kind.FLAG, name) for name, _ in job.variables),
        *(Subject(Kind.PROCESS, str(user.pid)) for user in users),
    )


def _without(job: JobState) -> tuple[Fix, ...]:
    """To start without the variables that the sentence blames."""
    names = [name for name, _ in job.variables]
    return (Fix.of(NEXT_START, UNSET, names),) if names else ()


def _next(job: JobState) -> tuple[Fix, ...]:
    """The line to run next for this job; `gputop jobs` has those that may follow."""
    if not job.steps:
        return ()
    numbers = set(re.findall(r"\d+", job.steps[0]))
    who = next((rank.label for rank in job.ranks if str(rank.pid) in numbers), "its process")
    return (Fix(text=f"Run this next for {job.program}, about {who}.", command=job.steps[0]),)
