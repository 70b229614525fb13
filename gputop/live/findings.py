"""Findings as the app shows them: without those silenced in this session; signs of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gputop.topology.diagnosis.engine import Diagnosis, Silenced
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Basis, Fact, Page
from gputop.topology.model.severity import Origin, Verdict

if TYPE_CHECKING:
    from gputop.topology.report import Report

FindingKey = tuple[str, tuple[str, ...], str]
"""Finding.key."""
HERE = "in this session"


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of a diagnosis without those that the user silenced."""

    diagnosis: Diagnosis
    findings: tuple[Finding, ...] = ()
    silenced: tuple[Silenced, ...] = ()
    """Those of the site, and those of this session."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the findings that are left: silencing is a person's decision."""
        return Verdict.of(finding.severity for finding in self.findings)

    @property
    def of_node(self) -> Shown:
        """The same without those about jobs."""
        own = tuple(finding for finding in self.findings if finding.origin is not Origin.JOB)
        return msgspec.structs.replace(self, findings=own)

    def about(self, *nodes: str) -> tuple[Finding, ...]:
        """Loud findings on one of these devices; a part of a GPU has its GPU's."""
        wanted = {*nodes, *(node.partition("/")[0] for node in nodes)}
        return tuple(
            finding
            for finding in self.findings
            if finding.severity.counts and not wanted.isdisjoint(finding.devices)
        )

    def mark(self, *nodes: str) -> tuple[str, str] | None:
        """Sign and ink of the worst loud finding on one of these devices."""
        found = self.about(*nodes)
        return found[0].severity.shown[:2] if found else None


def shown(
    report: Report | None,
    quiet: frozenset[FindingKey] = frozenset(),
    jobs: tuple[Finding, ...] = (),
) -> Shown | None:
    """The findings of a report and those about jobs; None where the rules were not asked yet."""
    if report is None or report.diagnosis is None:
        return None
    diagnosis = report.diagnosis
    found = sorted((*jobs, *diagnosis.findings), key=lambda finding: finding.severity.order)
    here = tuple(finding for finding in found if finding.key in quiet)
    return Shown(
        diagnosis=diagnosis,
        findings=tuple(finding for finding in found if finding.key not in quiet),
        silenced=(
            *diagnosis.silenced,
            *(Silenced(finding=finding, reason=HERE) for finding in here),
        ),
    )


def explained_with(why: Page, shown: Shown, *nodes: str) -> Page:
    """An explanation of these devices, led by the findings about them.

    If the page has no fix of its own, it ends with the fix of the worst harmful finding.
    """
    wanted = {*nodes, *(node.partition("/")[0] for node in nodes)}
    found = [finding for finding in shown.findings if not wanted.isdisjoint(finding.devices)]
    worst = next((finding for finding in found if finding.severity.counts and not why.fix), None)
    facts = (
        Fact(
            what=f"{finding.severity.word}:",
            value=finding.title,
            because=finding.impact,
            source=f"rule {finding.id}",
            basis=Basis.UNSAID,
            decides=finding.severity.counts,
        )
        for finding in found
    )
    return Page.why(
        title=why.title,
        claim=why.claim,
        facts=(*facts, *why.facts),
        impact=why.impact,
        fix=why.fix if worst is None else worst.fix,
    )
