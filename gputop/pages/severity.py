"""Signs, inks and words of severities and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gputop.topology.diagnosis.engine import VERDICTS, Diagnosis
from gputop.topology.diagnosis.finding import (
    BROKEN,
    BY_DESIGN,
    CANNOT_TELL,
    NOTICE,
    SEVERITIES,
    SLOW,
    Finding,
)

SIGNS = {
    BROKEN: ("✗", "bad", "broken"),
    SLOW: ("▼", "warn", "slow"),
    CANNOT_TELL: ("?", "warn", "cannot tell"),
    NOTICE: ("•", "muted", "notice"),
    BY_DESIGN: ("○", "muted", "by design"),
}
"""Severity -> sign, ink and word."""
VERDICT_SIGNS = dict(
    zip(VERDICTS, (("✓", "good"), ("▼", "warn"), ("✗", "bad"), ("?", "warn")), strict=True)
)
"""Verdict of a diagnosis -> sign and ink."""
LOUD = (BROKEN, SLOW, CANNOT_TELL)
"""Severities for which a device gets a mark."""


def checks_done(diagnosis: Diagnosis, why: str = "") -> str:
    """How many rules were asked, and how many could not be: "76 checks done, 35 skipped"."""
    done, skipped = diagnosis.checks, diagnosis.skipped
    return f"{done} check{'s' * (done != 1)} done" + (
        f", {skipped} skipped{why}" if skipped else ""
    )


def notices(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that are notices, and not by design."""
    return tuple(finding for finding in findings if finding.severity == NOTICE)


def counted(findings: Iterable[Finding]) -> str:
    """Count the findings of each severity: "1 broken, 2 notices"."""
    count = Counter(finding.severity for finding in findings)
    words = []
    for severity in SEVERITIES:
        if number := count[severity]:
            plural = "s" if severity == NOTICE and number > 1 else ""
            words.append(f"{number} {SIGNS[severity][2]}{plural}")
    return ", ".join(words)
