"""What is found about the nodes of a fleet, and their words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..model.page import Fact, Fix
from ..model.severity import BROKEN, CANNOT_TELL, SLOW, Severity
from .hosts import fold, in_order

HEALTHY, MISSING, ODD = "healthy", "missing", "odd"
STATES = (BROKEN, MISSING, SLOW, ODD, CANNOT_TELL, HEALTHY)
"""What becomes of a node, the worst first. missing: it was asked for and wrote nothing; odd: it
differs from equal nodes in a way that costs a job something."""
NODE, PRESENCE, FILE, COMPARED = "node", "presence", "file", "compared"
PAIRS, SHARED = "pairs", "shared"
"""Where a finding is from: the node's own check, which files are there, what a file is, the
comparison with equal nodes, and what pairs of nodes measured. SHARED is what pairs say of a part
that several nodes share, such as a switch: it counts for the fleet, and none of the nodes is called
bad for it."""
LOUD = (BROKEN, SLOW, CANNOT_TELL)
"""Severities that count for the verdict."""
MOST_EVIDENCE = 12


class FleetFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding about some nodes."""

    id: str
    """Kebab-case and stable; of a node's own finding the id of its rule."""
    severity: Severity
    """As of a finding of one node."""
    about: str
    """NODE, PRESENCE, FILE, COMPARED, PAIRS or SHARED."""
    title: str
    """One line, without the hosts."""
    hosts: tuple[str, ...]
    """Every node that it is about, in the order in which people count."""
    evidence: tuple[Fact, ...] = ()
    """For some of the hosts, where they are many."""
    disproof: str = ""
    impact: str = ""
    fix: tuple[Fix, ...] = ()
    sources: tuple[str, ...] = ("gputop fleet",)

    @property
    def folded(self) -> str:
        """The hosts as a list: "g[1-6,8]"."""
        return fold(self.hosts)


def finding(
    id_: str,
    severity: Severity,
    about: str,
    title: str,
    hosts: Iterable[str],
    *,
    evidence: Sequence[Fact] = (),
    disproof: str = "",
    impact: str = "",
    fix: Sequence[Fix] = (),
) -> FleetFinding:
    """Make a finding; hosts are put in order, evidence is cut to what somebody reads."""
    return FleetFinding(
        id=id_,
        severity=severity,
        about=about,
        title=title,
        hosts=tuple(in_order(hosts)),
        evidence=tuple(evidence[:MOST_EVIDENCE]),
        disproof=disproof,
        impact=impact,
        fix=tuple(fix),
    )


def by_harm(findings: Iterable[FleetFinding]) -> list[FleetFinding]:
    """The most harmful first, among equals those about more nodes."""
    return sorted(findings, key=lambda item: (item.severity.order, -len(item.hosts), item.id))


def state_of(verdict: str, findings: Iterable[FleetFinding]) -> str:
    """What becomes of a node by its own verdict and by what is found about it."""
    items = [item for item in findings if item.about != SHARED]
    found = {(item.about, item.severity) for item in items}
    if any(item.id in ("missing", "missing-now") for item in items):
        return MISSING
    severities = {severity for _, severity in found}
    if BROKEN in severities or verdict == BROKEN:
        return BROKEN
    if verdict == SLOW or (NODE, SLOW) in found or (PAIRS, SLOW) in found:
        return SLOW
    if SLOW in severities:
        return ODD
    if CANNOT_TELL in severities or verdict != HEALTHY:
        return CANNOT_TELL
    return HEALTHY
