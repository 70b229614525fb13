"""Groups of nodes that are alike in all their facts, or of which the same was found."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..model.finding import JOB
from ..model.gathered import gathered_by
from ..model.severity import Severity
from .facts import digest
from .hosts import fold, in_order
from .record import NodeReport
from .section import CATEGORIES


class AlikeNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with the same product and the same facts."""

    product: str
    hosts: tuple[str, ...]
    digests: dict[str, str]
    """Category -> digest of the facts; {} where the files hold none."""
    summary: str
    """What they run, in a few words: "driver 580.95.05, CUDA 13.0, kernel 6.8.0"."""
    reference: bool = False
    """Whether it is the largest of its product: what the others are compared with, mostly."""

    @property
    def folded(self) -> str:
        """The hosts as a list."""
        return fold(self.hosts)


def groups(nodes: Mapping[str, NodeReport]) -> tuple[AlikeNodes, ...]:
    """The groups, the largest first."""
    alike = gathered_by(nodes.values(), lambda report: (report.product, *map(id, report.facts)))
    made: list[AlikeNodes] = []
    seen: set[str] = set()
    for members in sorted(alike.values(), key=lambda members: (-len(members), members[0].host)):
        first = members[0]
        made.append(
            AlikeNodes(
                product=first.product,
                hosts=tuple(in_order(report.host for report in members)),
                digests={
                    name: digest(facts)
                    for name, facts in zip(CATEGORIES, first.facts, strict=False)
                },
                summary=_summary(first),
                reference=first.product not in seen,
            )
        )
        seen.add(first.product)
    return tuple(made)


def _summary(report: NodeReport) -> str:
    driver = report.category("driver")
    parts = [f"{what} {driver[what]}" for what in ("driver", "CUDA", "ROCm") if what in driver]
    parts += [driver[what] for what in ("kernel",) if what in driver]
    return ", ".join(parts)


MOST_JOBS = 16
"""Jobs that something is wrong with, each a finding of its own; more of them are one."""


def by_finding(
    nodes: Mapping[str, NodeReport],
) -> dict[tuple[str, Severity, str], dict[str, list[str]]]:
    """What the nodes' own checks found: rule, severity and job -> host -> titles.

    A rule finds the same on many nodes, a job says of itself what no other one does.
    """
    found: dict[tuple[str, Severity, str], dict[str, list[str]]] = {}
    jobs = set[str]()
    for host, report in nodes.items():
        for item in report.findings:
            if item.id == JOB and len(jobs) < MOST_JOBS:
                jobs.add(item.title)
            job = item.title if item.id == JOB and item.title in jobs else ""
            hosts = found.setdefault((item.id, item.severity, job), {})
            hosts.setdefault(host, []).append(item.title)
    return found
