"""A log with its symptoms, and how far it agrees with the prediction."""

from __future__ import annotations

import re

import msgspec

from ...jobs.saved import SavedAnswer, in_sections, states_with_answers
from ...jobs.standing import JobState
from ...logs.comparing.overlay import Overlay, lay
from ...logs.report.places import gpus_from, normal
from ...logs.report.report import LogNote, LogReport
from ...model.finding import Finding
from ...model.page import Fact, Fix
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, JobVerdict
from ...model.snapshot import NodeSnapshot
from ...node import Node
from ...recorded.pasted import PastedText
from ..case import Case
from ..engine import diagnose
from .explain import ECHOES, explain, unexplained
from .next_step import next_step
from .pasted_figures import PastedFigure, pasted_figures
from .quoting import Quoter

SAID = (BROKEN, SLOW, NOTICE, CANNOT_TELL)
"""Severities that are told."""
EMPTY = ("evidence-missing", "nothing-to-examine")
"""That a text cannot show a thing is no finding of this report."""

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


class ReadLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log, its symptoms, and the prediction for it."""

    log: LogReport
    findings: tuple[Finding, ...]
    unexplained: tuple[LogNote, ...]
    next: str
    """What to fetch where no finding names a cause; may be empty."""
    overlay: Overlay
    measured: tuple[PastedFigure, ...] = ()
    """Figures of other programs in the same text."""


def fits(log: LogReport, snapshot: NodeSnapshot) -> bool:
    """Whether all GPUs that the log names are on this node."""
    here = {normal(gpu.address) for gpu in snapshot.machine.gpus}
    named = gpus_from(log)
    return bool(named) and set(named) <= here


def examine(
    log: LogReport, snapshot: NodeSnapshot | None, *, library: str | None = None
) -> ReadLog:
    """Explain a log and compare it with a node; without one, with that of its own System block.

    What outputs of other tools in the same text show is among the findings.
    """
    ras = ras_findings(log.pasted, log.name or "text")
    said, left = (*explain(log), *pasted_findings(log.pasted), *ras), unexplained(log)
    found = tuple(sorted(said, key=_harm))
    overlay = lay(log, snapshot, library=library)
    beside = None if log.pasted is None else log.pasted.snapshot
    if snapshot is None and not overlay.node and beside is not None and fits(log, beside):
        overlay = lay(log, beside, library=library)
    return ReadLog(
        log=log,
        findings=found,
        unexplained=left,
        next=next_step(log, found, left),
        overlay=overlay,
        measured=pasted_figures(log.pasted),
    )


def _harm(finding: Finding) -> tuple[int, bool]:
    """The most harmful first; among equals those that say more than that something failed."""
    return finding.severity.order, finding.id in ECHOES


# What the rules find in outputs of tools that stand in a log or in any other text.
def pasted_findings(pasted: PastedText | None) -> tuple[Finding, ...]:
    """Findings of the rules, each with the lines of the text first, then what was read off them."""
    if pasted is None or not _has_devices(pasted):
        return ()
    case = Case(Node(pasted.snapshot).decide())
    quoter = Quoter(pasted)
    found = []
    for finding in diagnose(case).findings:
        if finding.severity not in SAID or finding.id in EMPTY:
            continue
        lines = quoter.quoted(finding)
        if not lines:
            continue  # nothing in the text shows it: it follows from what is not there
        found.append(
            msgspec.structs.replace(
                finding,
                severity=NOTICE if finding.severity == CANNOT_TELL else finding.severity,
                evidence=(*lines, *finding.evidence),
                cause=finding.impact,
                count=len(lines),
                sureness="certain",
            )
        )
    return tuple(found)


def _has_devices(pasted: PastedText) -> bool:
    machine = pasted.snapshot.machine
    return bool(machine.gpus or machine.rdma or machine.unnamed_acs or pasted.snapshot.measurements)


# What answers of RAS in a log or another text say of the ranks, as findings.
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
