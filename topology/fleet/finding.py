"""What is found about the nodes of a fleet, and their words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model.finding import Finding
from ..model.page import Fact, Fix
from ..model.severity import NodeState, Origin, Severity, Verdict, Word
from .hosts import fold, in_order


class Scope(Word):
    """Where a finding about a fleet is from."""

    NODE = "node"
    """The node's own check."""
    PRESENCE = "presence"
    """Which files are there."""
    FILE = "file"
    """What a file is."""
    COMPARED = "compared"
    """The comparison with equal nodes."""
    PAIRS = "pairs"
    """What pairs of nodes measured."""
    SHARED = "shared"
    """What pairs say of a part that several nodes share, such as a switch: it counts for the fleet,
    and none of the nodes is called bad for it."""


NODE, PRESENCE, FILE, COMPARED = Scope.NODE, Scope.PRESENCE, Scope.FILE, Scope.COMPARED
PAIRS, SHARED = Scope.PAIRS, Scope.SHARED
HEALTHY, MISSING, ODD = NodeState.HEALTHY, NodeState.MISSING, NodeState.ODD
GONE = ("missing", "missing-now")
"""Ids of the findings about nodes that were asked for and did not answer."""
MOST_EVIDENCE = 12


class FleetFinding(Finding, frozen=True, kw_only=True, rename={"scope": "about"}):
    """A finding about some nodes. Its title is without the hosts, its evidence for some of them."""

    scope: Scope
    hosts: tuple[str, ...]
    """Every node that it is about, in the order in which people count."""

    @property
    def folded(self) -> str:
        """The hosts as a list: "g[1-6,8]"."""
        return fold(self.hosts)


def finding(
    id_: str,
    severity: Severity,
    scope: Scope,
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
        scope=scope,
        origin=Origin.FLEET,
        family="",
        devices=(),
        sources=("gputop fleet",),
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


def state_of(verdict: Verdict, findings: Iterable[FleetFinding]) -> NodeState:
    """What becomes of a node by its own verdict and by what is found about it."""
    items = [item for item in findings if item.scope is not SHARED]
    if any(item.id in GONE for item in items):
        return MISSING
    severities = {item.severity for item in items}
    slow = {item.scope for item in items if item.severity is Severity.SLOW}
    if Severity.BROKEN in severities or verdict is Verdict.BROKEN:
        return NodeState.BROKEN
    if verdict is Verdict.SLOW or not slow.isdisjoint((NODE, PAIRS)):
        return NodeState.SLOW
    if slow:
        return ODD
    if Severity.CANNOT_TELL in severities or verdict is not Verdict.HEALTHY:
        return NodeState.CANNOT_TELL
    return HEALTHY


_DIFFERS = "-differs"
"""The end of the ids of facts that differ."""


def differences(found: Iterable[FleetFinding]) -> str:
    """What a node with these findings has that most equal nodes have not, in words."""
    parts = []
    for item in found:
        if item.id.endswith(_DIFFERS):
            what, _, rest = item.title.partition(" where ")
            parts.append(what + (f" and{rest.rpartition(', and')[2]}" if ", and" in rest else ""))
    return "; ".join(parts)
