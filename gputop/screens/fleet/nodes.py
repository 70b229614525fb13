"""Tab Nodes: every node by name, the worst first; a filter and other tabs narrow it."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.screens.fleet.tab import FleetFacts, FleetTab, counted, said_drains
from gputop.terminal.clean import clean
from gputop.topology.fleet.finding import HEALTHY
from gputop.topology.fleet.hosts import expand
from gputop.widgets.spans import Line, heads, left, wrapped

MOST_FILTERED = 100_000
"""Hosts that a filter may name."""


class NodesTab(FleetTab):
    """A row for each node."""

    nothing = ((" no node; Esc shows all", "muted"),)

    def __init__(
        self,
        facts: FleetFacts,
        only: tuple[str, ...] = (),
        why: str = "",
        words: str = "",
        ordered: bool = False,
    ) -> None:
        """`only`: nodes that another tab chose, and `why`; `ordered`: in this order.

        `words`: a filter: a list of hosts, or words that a row has.
        """
        super().__init__(facts)
        self._why, self._words = why, words
        states = facts.fleet.states
        hosts = [host for host in (only or facts.fleet.hosts) if host in states]
        if words:
            hosts = self._filtered(hosts)
        if not ordered:
            hosts.sort(key=lambda host: states[host].order)
        self._hosts = tuple(hosts)
        self._longest = min(max(4, *map(len, hosts), 0), 24)

    def _filtered(self, hosts: list[str]) -> list[str]:
        wanted = self._words.lower().split()
        if "[" in self._words:
            try:
                named = frozenset(expand(self._words, MOST_FILTERED))
            except ValueError:
                named = frozenset()
            if named:
                return [host for host in hosts if host in named]
        return [host for host in hosts if all(word in self._text(host) for word in wanted)]

    def _text(self, host: str) -> str:
        report = self.facts.fleet.nodes.get(host)
        found = self.facts.fleet.by_host.get(host, ())
        parts = [host, self.facts.fleet.states[host].word]
        parts += [item.id for item in found]
        if report is not None:
            parts += [report.product, report.job or ""]
        return " ".join(parts).lower()

    @property
    def names(self) -> Sequence[str]:
        """The nodes."""
        return self._hosts

    def caption(self) -> str:
        """How many, and by what they were chosen."""
        total = len(self.facts.fleet.hosts)
        many = counted(len(self._hosts), "node")
        if len(self._hosts) != total:
            many = f"{len(self._hosts):,} of {counted(total, 'node')}"
        if self._words:
            many = f"filter “{clean(self._words, 60)}”: {many}"
        why = [clean(self._why, 60)] * bool(self._why)
        return " · ".join([many, *why, *["Esc shows all"] * bool(why or self._words)])

    def head(self, width: int) -> Line:
        """Node, state, what is found."""
        return heads("   ", left("node", self._longest), f"  {left('state', 11)}  ", "found")

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """One node."""
        fleet = self.facts.fleet
        state = fleet.states[name]
        sign, ink, word = state.shown
        ids = dict.fromkeys(item.id for item in fleet.by_host.get(name, ()))
        report = fleet.nodes.get(name)
        product = "" if report is None else clean(report.product, 80).replace("NVIDIA ", "")
        what = ", ".join(clean(one, 60) for one in ids) or product
        shown = "muted" if state == HEALTHY else ink
        return (
            (f" {sign} ", shown),
            (left(clean(name, 64), self._longest), "strong"),
            (f"  {left(word, 11)}  ", shown),
            (left(what, max(width - self._longest - 18, 4)), "" if ids else "muted"),
        )

    def title(self, name: str) -> str:
        """The node."""
        return clean(name, 64)

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """Its state, its file and its findings."""
        return node_lines(self.facts, name, width)

    def hosts(self, name: str) -> tuple[str, ...]:
        """The node itself."""
        return (name,)

    def copied(self, name: str) -> tuple[str, ...]:
        """The line for Slurm where something is wrong with it, else what chooses it."""
        return self.facts.drains((name,)) or (self.facts.chosen((name,)),)


def node_lines(facts: FleetFacts, host: str, width: int) -> list[Line]:
    """What is known of a node beside the others."""
    fleet = facts.fleet
    sign, ink, word = fleet.states[host].shown
    report = fleet.nodes.get(host)
    lines: list[Line] = [((f"{sign} {word}", ink), (" · Enter opens it", "muted"))]
    if report is None:
        lines += wrapped((("no file of it can be used", "warn"),), width, 2)
    else:
        about = [clean(report.product or "no GPU", 200), f"own check: {report.verdict}"]
        if report.job:
            about.append(f"job {clean(report.job, 80)}")
        lines += wrapped(((" · ".join(about), ""),), width, 2)
        lines += wrapped(
            ((f"{clean(report.path, 200)}, gputop {clean(report.gputop, 40)}", "muted"),), width, 2
        )
    for item in fleet.by_host.get(host, ()):
        sign, ink, _ = item.severity.shown
        lines.append(())
        lines += wrapped(
            ((f"{sign} ", ink), (clean(item.title, 600), ""), (f" {clean(item.id, 60)}", "muted")),
            width, 2,
        )  # fmt: skip
        for proof in item.evidence:
            if proof.what.split(" ")[0] == host:
                lines += wrapped(
                    (("  ", ""), (f"{clean(proof.what, 200)}: ", "muted"),
                     (clean(proof.value, 400), "strong")), width, 4,
                )  # fmt: skip
    return [*lines, *said_drains(facts.drains((host,)), width)]
