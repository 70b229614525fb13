"""The fleet: all nodes of a folder, what is found about them, and one verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from ..model.page import Fact
from ..model.severity import BROKEN, CANNOT_TELL, SLOW, Severity, Verdict
from .differences import differences, grouped
from .finding import (
    MISSING,
    NODE,
    ODD,
    SHARED,
    STATES,
    FleetFinding,
    by_harm,
    finding,
    state_of,
)
from .foreign import unusable_findings
from .grouping import AlikeNodes, groups
from .hosts import as_they_answer, in_order
from .outliers import Strip, outliers, strips
from .planning.links import FleetLinks
from .presence import CONTRADICTION, MISSING_NOW, STALE, newest, presence
from .record import Beside, NodeReport, Unusable

NOTHING = "no-nodes"


class Fleet:
    """Nodes and what is found about them; immutable, and pure once its files are read."""

    def __init__(
        self,
        folder: str,
        reports: Iterable[NodeReport],
        *,
        unusable: Iterable[Unusable] = (),
        beside: Iterable[Beside] = (),
        foreign: Iterable[FleetFinding] = (),
        expected: Collection[str] = (),
        links: FleetLinks | None = None,
        accused: Iterable[FleetFinding] = (),
        now: float | None = None,
    ) -> None:
        """`expected`: hosts that were asked for. `now`: seconds since the epoch.

        `links`: what pairs of nodes measured; `accused`: what is found in that.
        """
        self.folder = folder
        self.now = time.time() if now is None else now
        self.unusable = tuple(unusable)
        self.beside = tuple(beside)
        self.links = links or FleetLinks()
        self.nodes, older = newest(reports)
        self.older = sum(map(len, older.values()))
        """Files of which a newer one of the same node is there."""
        self.expected = tuple(in_order(as_they_answer(expected, self.nodes)))
        about = presence(self.nodes, older, self.unusable, frozenset(self.expected), self.now)
        apart = {
            host
            for item in about
            if item.id in (CONTRADICTION, MISSING_NOW, STALE)
            for host in item.hosts
        }
        judged = {host: report for host, report in self.nodes.items() if host not in apart}
        self.strips: tuple[Strip, ...] = tuple(strips(_by_product(judged)))
        found = [*_own(judged), *about, *differences(judged), *outliers(self.strips, judged)]
        found += [*accused, *foreign, *unusable_findings(self.unusable)]
        if not self.nodes and not self.expected:
            found.append(_nothing(folder, self.unusable))
        self.findings: tuple[FleetFinding, ...] = tuple(by_harm(found))
        """The most harmful first."""
        self._apart = apart

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Every host that was asked for, that answered, or that another file tells of."""
        named = (host for item in self.findings for host in item.hosts)
        return tuple(in_order((*self.expected, *self.nodes, *named)))

    @cached_property
    def by_host(self) -> dict[str, tuple[FleetFinding, ...]]:
        """Host -> its findings, the most harmful first."""
        found: dict[str, list[FleetFinding]] = {}
        for item in self.findings:
            for host in item.hosts:
                found.setdefault(host, []).append(item)
        return {host: tuple(items) for host, items in found.items()}

    @cached_property
    def states(self) -> dict[str, str]:
        """Host -> one of STATES."""
        return {
            host: state_of(self._verdict_of(host), self.by_host.get(host, ()))
            for host in self.hosts
        }

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many hosts are in each state."""
        found = Counter(self.states.values())
        return {state: found[state] for state in STATES}

    @cached_property
    def groups(self) -> tuple[AlikeNodes, ...]:
        """Nodes that are alike, the largest group first."""
        return groups(self.nodes)

    @cached_property
    def verdict(self) -> Verdict:
        """The worst of its nodes and of what they share."""
        counts = self.counts
        shared = {item.severity for item in self.findings if item.about == SHARED}
        if counts[BROKEN] or counts[MISSING] or BROKEN in shared:
            return Verdict.BROKEN
        if counts[SLOW] or counts[ODD] or SLOW in shared:
            return Verdict.SLOW
        doubt = any(item.severity == CANNOT_TELL for item in self.findings)
        unsure = counts[CANNOT_TELL] or doubt or not self.nodes
        return Verdict.CANNOT_TELL if unsure else Verdict.HEALTHY

    @property
    def pairs(self) -> tuple[str, ...]:
        """Files with results of pairs of nodes."""
        return tuple(item.path for item in self.beside if item.schema.startswith("gputop.net/"))

    def hosts_in(self, *states: str) -> tuple[str, ...]:
        """The hosts in these states."""
        return tuple(host for host in self.hosts if self.states[host] in states)

    def _verdict_of(self, host: str) -> str:
        report = self.nodes.get(host)
        return Verdict.CANNOT_TELL if report is None or host in self._apart else report.verdict


def _by_product(nodes: Mapping[str, NodeReport]) -> dict[str, list[NodeReport]]:
    groups_ = grouped(nodes, lambda report: report.product)
    return {product: [nodes[host] for host in hosts] for product, hosts in groups_.items()}


def _own(nodes: Mapping[str, NodeReport]) -> list[FleetFinding]:
    """What the nodes' own checks found, each rule once with all its hosts."""
    found: dict[tuple[str, Severity], dict[str, list[str]]] = {}
    for host, report in nodes.items():
        for item in report.findings:
            titles = found.setdefault((item.id, item.severity), {}).setdefault(host, [])
            titles.append(item.title)
    made = []
    for (id_, severity), hosts in found.items():
        kinds = Counter(titles[0] for titles in hosts.values())
        title, count = kinds.most_common(1)[0]
        if len(kinds) > 1:
            title = f"{title} ({count} of {len(hosts)} nodes; others differ)"
        ordered = in_order(hosts)
        made.append(
            finding(
                id_,
                severity,
                NODE,
                title,
                hosts,
                evidence=[
                    Fact(what=host, value=text, source=nodes[host].path)
                    for host in ordered[:20]
                    for text in hosts[host][:3]
                ],
                disproof="a later check of the node",
                impact="As the node's own check says.",
            )
        )
    # A verdict without its finding: a file that was cut down by hand, or another version's.
    lone: dict[str, list[str]] = {}
    for host, report in nodes.items():
        if report.verdict != Verdict.HEALTHY and not report.findings:
            lone.setdefault(report.verdict, []).append(host)
    for verdict, hosts_ in lone.items():
        severity = CANNOT_TELL if verdict == Verdict.CANNOT_TELL else Severity(verdict)
        made.append(
            finding(f"node-{severity}", severity, NODE, f"the node calls itself {verdict}", hosts_)
        )
    return made


def _nothing(folder: str, unusable: Collection[Unusable]) -> FleetFinding:
    return finding(
        NOTHING,
        CANNOT_TELL,
        NODE,
        "no node has written here",
        (),
        evidence=[Fact(what="files that are no node's", value=str(len(unusable)), source=folder)],
        impact="Nothing was examined, so nothing is called healthy.",
    )
