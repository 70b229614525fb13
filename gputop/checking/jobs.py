"""Where the jobs of a node stand, as findings of its check."""

from __future__ import annotations

import msgspec

from gputop.simulating.jobs import simulated
from gputop.topology.jobs.asking import ask_live
from gputop.topology.jobs.standing import SEVERITIES, JobState
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Fact, Fix
from gputop.topology.model.severity import NOTICE, Origin
from gputop.topology.model.snapshot import NodeSnapshot

ID = "job"
MOST_FACTS = 8
STEP = "See what its processes do."


def with_jobs(node: NodeSnapshot, demo: str | None) -> NodeSnapshot:
    """The node with one finding for each job on it: its sentence, what proves it, what to look at.

    Asks what `gputop jobs` asks, NCCL's RAS service of this machine included; of a demo, whose
    jobs nobody runs, the answer is simulated.
    """
    report = simulated(node, demo) if demo else ask_live(node, ras=True)
    found = tuple(map(job_finding, report.jobs))
    return msgspec.structs.replace(node, symptoms=(*node.symptoms, *found))


def job_finding(job: JobState) -> Finding:
    """What `gputop jobs` says of a job, as a finding about the GPUs of its troubled ranks."""
    troubled = [address for rank in job.ranks if rank.trouble is not None for address in rank.gpus]
    return Finding.of(
        id=ID,
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
