"""`gputop jobs --watch`: one line whenever a job's verdict changes, until somebody ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import click
import msgspec

from gputop.terminal.clean import clean
from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.ras.memory import Memory
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.severity import JobVerdict, Mark

PAUSE_SECONDS = 5.0
"""From one look to the next: RAS is asked no oftener than the app asks it."""
GONE = "is no longer seen"
LONGEST_SENTENCE = 500
STAMP = "%Y-%m-%dT%H:%M:%S%z"

Look = Callable[[Memory], JobsReport]
"""Asks where the jobs stand; is given what earlier looks left of RAS's counts."""


def watch(
    look: Look,
    *,
    until_hang: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = click.echo,
) -> int:
    """Look again and again, and say what is new; ends at the first hang where that is wanted.

    Gives the exit code of a hang. Raises what the look raises, and KeyboardInterrupt at Ctrl+C.
    """
    known: dict[str, JobState] = {}
    memory: Memory = {}
    while True:
        report = look(memory)
        memory = report.memory
        jobs = {job.name: job for job in report.jobs}
        for change in changes(known, jobs):
            say(f"{time.strftime(STAMP)} {change.shown}")
        known = jobs
        if until_hang and any(job.verdict is JobVerdict.HANGS for job in report.jobs):
            return JobVerdict.HANGS.exit_code
        sleep(PAUSE_SECONDS)


class WatchLine(msgspec.Struct, frozen=True):
    """One change: what it is now, in a line."""

    mark: Mark
    text: str

    @property
    def shown(self) -> str:
        """As it is printed, behind the time."""
        return f"{self.mark.sign} {clean(self.text, LONGEST_SENTENCE)}"


def changes(before: dict[str, JobState], now: dict[str, JobState]) -> Iterator[WatchLine]:
    """A line for each job that is new, that stands otherwise than before, or that is gone."""
    for name, job in now.items():
        if name not in before or before[name].verdict is not job.verdict:
            yield WatchLine(job.verdict, f"{job.verdict}: {job.sentence}")
    for name in before:
        if name not in now:
            yield WatchLine(JobVerdict.UNKNOWN, f"{name} {GONE}")
