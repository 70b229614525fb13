"""A log with its symptoms, and how far it agrees with the prediction."""

from __future__ import annotations

import msgspec

from ...logs.comparing.overlay import Overlay, lay
from ...logs.report.places import gpus_from, normal
from ...logs.report.report import LogNote, LogReport
from ...model.finding import Finding
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW
from ...model.snapshot import NodeSnapshot
from ...node import Node
from ...recorded.pasted import PastedText
from ..case import Case
from ..engine import diagnose
from .explain import ECHOES, explain, unexplained
from .next_step import next_step
from .pasted_figures import PastedFigure, pasted_figures
from .quoting import Quoter
from .saved_ras import ras_findings

SAID = (BROKEN, SLOW, NOTICE, CANNOT_TELL)
"""Severities that are told."""
EMPTY = ("evidence-missing", "nothing-to-examine")
"""That a text cannot show a thing is no finding of this report."""


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
