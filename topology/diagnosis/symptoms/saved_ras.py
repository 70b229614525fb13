"""What answers of RAS in a log or another text say of the ranks, as findings."""

from __future__ import annotations

import re

from ...jobs.saved import SavedAnswer, in_sections, states_with_answers
from ...jobs.standing import JobState
from ...model.finding import Finding
from ...model.page import Fact, Fix
from ...model.severity import BROKEN, NOTICE, SLOW, JobVerdict
from ...recorded.pasted import PastedText

ID = "ras-answer"
SEVERITIES = {
    JobVerdict.HANGS: BROKEN, JobVerdict.FAULTY: BROKEN, JobVerdict.WAITS: SLOW,
}  # fmt: skip
"""Of a verdict; any other one is a notice."""
MOST_QUOTED = 6
LONGEST = 300
SOURCES = ("NCCL user guide, RAS", "NCCL src/ras/client_support.cc")
QUOTED = re.compile(r"#\d|Process \d|Rank \d|Communicator ranks|\d+ ranks ")
"""How lines begin that say what a rank does."""


def ras_findings(pasted: PastedText | None, name: str) -> tuple[Finding, ...]:
    """One finding a job, with the sentence of `gputop jobs` as its title."""
    if pasted is None:
        return ()
    saved = in_sections(name, pasted.sections)
    return tuple(_finding(job, last) for job, last in states_with_answers(saved))


def _finding(job: JobState, last: SavedAnswer) -> Finding:
    severity = SEVERITIES.get(job.verdict, NOTICE)
    facts = [finding.title for finding in job.findings if not finding.severity.counts]
    return Finding.of(
        id=ID,
        severity=severity,
        title=f"RAS{job.sentence.removeprefix(job.name)}",
        evidence=_quoted(last),
        cause="; ".join([*facts, *(f"not known: {text}" for text in job.unknown)]),
        fix=tuple(Fix(text="", command=step) for step in job.steps),
        look=("Ask again on a node of the job: gputop jobs --ras",),
        sureness="certain",
        count=len(last.lines),
        sources=SOURCES,
    )


def _quoted(last: SavedAnswer) -> tuple[Fact, ...]:
    lines = [(at, line.strip()) for at, line in enumerate(last.lines, last.first) if line.strip()]
    told = [(at, line) for at, line in lines if QUOTED.match(line)] or [
        (at, line) for at, line in lines if line[:1].isdigit()
    ]
    return tuple(
        Fact(what=f"line {at}", value=line[:LONGEST], source=last.where, line=at)
        for at, line in told[:MOST_QUOTED]
    )
