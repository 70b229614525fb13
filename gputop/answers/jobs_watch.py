"""`gputop jobs --watch`: one line whenever a job's verdict changes, until somebody ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import click

from gputop.terminal.clean import clean
from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.ras.memory import Memory
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.severity import JobVerdict

PAUSE_SECONDS = 5.0
"""From one look to the next: RAS is asked no oftener than the app asks it."""
GONE = "is no longer seen"
LONGEST_SENTENCE = 500

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
        for line in changes(known, jobs):
            say(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}")
        known = jobs
        if until_hang and any(job.verdict is JobVerdict.HANGS for job in report.jobs):
            return JobVerdict.HANGS.exit_code
        sleep(PAUSE_SECONDS)


def changes(before: dict[str, JobState], now: dict[str, JobState]) -> Iterator[str]:
    """A line for each job that is new, that stands otherwise than before, or that is gone."""
    for name, job in now.items():
        if name not in before or before[name].verdict is not job.verdict:
            yield f"{job.verdict.sign} {job.verdict}: {clean(job.sentence, LONGEST_SENTENCE)}"
    for name in before:
        if name not in now:
            yield f"? {clean(name, LONGEST_SENTENCE)} {GONE}"
