"""Counts of findings and of checks in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gputop.topology.model.english import listing
from gputop.topology.model.severity import NOTICE, Severity

if TYPE_CHECKING:
    from gputop.topology.diagnosis.engine import Diagnosis
    from gputop.topology.model.finding import Finding


OF_NODE = "node"
"""Before the verdict on the node where the one on a job stands beside it."""
_UNEXPECTED = "unexpected-"
"""How the ids of the rules begin that compare with --expect."""


def checks_done(diagnosis: Diagnosis, why: str = "") -> str:
    """How many rules were asked, and how many could not be: "76 checks done, 35 skipped"."""
    done, skipped = diagnosis.checks, diagnosis.skipped
    return f"{done} check{'s' * (done != 1)} done" + (
        f", {skipped} skipped{why}" if skipped else ""
    )


def compared(expect: str | None, examined: Iterable[str], findings: Iterable[Finding]) -> str:
    """What rules held against --expect, for people; "" without it."""
    held = [rule.removeprefix(_UNEXPECTED) for rule in examined if rule.startswith(_UNEXPECTED)]
    if not expect or not held:
        return ""
    text = f"compared with {expect}: {listing(held)}"
    loud = any(finding.severity.counts for finding in findings)
    return text if loud else f"{text}; all as expected"


def notices(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that are notices, and not by design."""
    return tuple(finding for finding in findings if finding.severity == NOTICE)


def counted(findings: Iterable[Finding]) -> str:
    """Count the findings of each severity: "1 broken, 2 notices"."""
    count = Counter(finding.severity for finding in findings)
    words = []
    for severity in Severity:
        if number := count[severity]:
            plural = "s" if severity == NOTICE and number > 1 else ""
            words.append(f"{number} {severity.word}{plural}")
    return ", ".join(words)
