"""What the rules find in outputs of tools that stand in a log or in any other text."""

from __future__ import annotations

import msgspec

from ...model.finding import Finding
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW
from ...node import Node
from ...recorded.pasted import PastedText
from ..case import Case
from ..engine import diagnose
from .quoting import Quoter

SAID = (BROKEN, SLOW, NOTICE, CANNOT_TELL)
"""Severities that are told."""
EMPTY = ("evidence-missing", "nothing-to-examine")
"""That a text cannot show a thing is no finding of this report."""


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
