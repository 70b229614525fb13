"""Which findings are about a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.screens.jobs.list import JobRow
    from gputop.topology.model.finding import Finding

ABOUT_JOBS = frozenset(
    {
        "containers-apart",
        "gpu-memory-unlisted",
        "gpu-shared",
        "job-zombie",
        "numa-binding",
        "rank-asleep",
        "rank-gpu-idle",
        "rank-memory-grows",
        "rank-stopped",
        "ranks-differ",
        "ranks-share-cpus",
        "ranks-share-gpu",
        "threads-over-cpus",
        "threads-over-quota",
    }
)
"""Rules whose findings are shown beside the job that they are about."""


def about_jobs(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those of the findings that are about running jobs."""
    return tuple(finding for finding in findings if finding.id in ABOUT_JOBS)


def about(row: JobRow, shown: Shown | None) -> tuple[Finding, ...]:
    """Findings on running jobs that name a GPU of this job, without silenced ones."""
    mine = set(row.job.gpus if row.user is None else row.user.gpus)
    findings = () if shown is None else about_jobs(shown.findings)
    return tuple(finding for finding in findings if not mine.isdisjoint(finding.devices))
