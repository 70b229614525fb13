"""The jobs of the last answer, the worst first; the picture before Textual shows them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.topology.model.severity import JobVerdict

if TYPE_CHECKING:
    from gputop.topology.jobs.asking import JobsReport
    from gputop.topology.jobs.standing import JobState

WRONG = (JobVerdict.HANGS, JobVerdict.FAULTY, JobVerdict.WAITS, JobVerdict.SLOW)
"""The verdicts that every screen names."""


def wrong(answer: JobsReport | None) -> list[JobState]:
    """The jobs that hang, wait, are faulty or slow, the worst first."""
    return [job for job in told(answer) if job.verdict in WRONG]


def told(answer: JobsReport | None) -> list[JobState]:
    """All jobs, the worst first."""
    return sorted(answer.jobs if answer else (), key=lambda job: job.verdict.order)
