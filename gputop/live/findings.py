"""Findings as the app shows them: without those silenced in this session; signs of devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from gputop.topology.diagnosis.engine import Diagnosis, Silenced
from gputop.topology.model.finding import Finding
from gputop.topology.model.one_reason import without_told
from gputop.topology.model.page import Basis, Fact, Page
from gputop.topology.model.severity import Origin, Verdict

if TYPE_CHECKING:
    from gputop.topology.report import Report

FindingKey = tuple[str, tuple[str, ...], str]
"""Finding.key."""
HERE = "in this session"

ABOUT_JOBS = frozenset(
    {
        "containers-apart",
        "gpu-memory-unlisted",
        "gpu-shared",
        "job-zombie",
        "numa-binding",
        "rank-asleep",
        "rank-gpu-idle",
        "rank-memory-grows",
        "rank-stopped",
        "ranks-differ",
        "ranks-share-cpus",
        "ranks-share-gpu",
        "threads-over-cpus",
        "threads-over-quota",
    }
)
"""Rules whose findings are shown beside the job that they are about."""


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

    @property
    def of_jobs(self) -> Shown:
        """The same with what jobs said of themselves alone."""
        jobs = tuple(finding for finding in self.findings if finding.origin is Origin.JOB)
        return msgspec.structs.replace(self, findings=jobs)

    def about(self, *nodes: str, jobs: bool = False) -> tuple[Finding, ...]:
        """Loud findings on one of these devices; a part of a GPU has its GPU's.

        `jobs`: those about running jobs too, which say nothing about a link or a pair.
        """
        return tuple(one for one in _on(self.findings, nodes, jobs) if one.severity.counts)

    def mark(self, *nodes: str, jobs: bool = False) -> tuple[str, str] | None:
        """Sign and ink of the worst loud finding on one of these devices."""
        found = self.about(*nodes, jobs=jobs)
        return found[0].severity.shown[:2] if found else None


def of_a_job(finding: Finding) -> bool:
    """Whether it is about a running job: its GPUs are where that runs, not what is at fault."""
    return finding.origin is Origin.JOB or finding.id in ABOUT_JOBS


def _on(findings: Iterable[Finding], nodes: Sequence[str], jobs: bool) -> list[Finding]:
    wanted = {*nodes, *(node.partition("/")[0] for node in nodes)}
    return [
        finding
        for finding in findings
        if not wanted.isdisjoint(finding.devices) and (jobs or not of_a_job(finding))
    ]


def shown(
    report: Report | None,
    quiet: frozenset[FindingKey] = frozenset(),
    jobs: tuple[Finding, ...] = (),
) -> Shown | None:
    """The findings of a report and those about jobs; None where the rules were not asked yet."""
    if report is None or report.diagnosis is None:
        return None
    diagnosis = report.diagnosis
    own = without_told(diagnosis.findings, jobs)
    found = sorted((*jobs, *own), key=lambda finding: finding.severity.order)
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
    """An explanation of these devices, led by the findings about them; a pair's without jobs.

    If the page has no fix of its own, it ends with the fix of the worst harmful finding.
    """
    found = _on(shown.findings, nodes, jobs=len(nodes) == 1)
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
