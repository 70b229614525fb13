"""One node as its file tells, where the file holds no snapshot for the screens of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.live.fleet_node import WholeNode
from gputop.printing.render import finding_lines
from gputop.screens.fleet.nodes import node_lines
from gputop.screens.fleet.tab import FleetFacts
from gputop.terminal.clean import clean
from gputop.topology.fleet.section import CATEGORIES
from gputop.widgets.panels import Panel
from gputop.widgets.spans import Line, left, right, wrapped

if TYPE_CHECKING:
    from gputop.live.host import AppHost

HOW = "`gputop check --json --snapshot -o DIR/%n.json.gz` would give all screens of the node."


class NodePanel(Panel):
    """Findings with their proof, facts and figures of one node."""

    HINT = "y copies · Esc goes back to the fleet"

    def __init__(self, host: str, facts: FleetFacts, whole: WholeNode, app: AppHost) -> None:
        super().__init__(clean(f"{host}: {whole.why}", 90), app)
        self._node = host
        self._facts = facts
        self._whole = whole

    def lines(self, width: int) -> Sequence[Line]:
        """All that is known."""
        lines = node_lines(self._facts, self._node, width)
        lines[0] = lines[0][:1]  # it is open
        if self._node in self._facts.fleet.nodes:
            why = clean(self._whole.why, 200)
            lines += [(), *wrapped(((f"{why}. {HOW}", "muted"),), width)]
        if self._whole.findings:
            lines += [(), (("What its own check found", "key bold"),)]
        for finding in self._whole.findings:
            lines += [(), *finding_lines(finding, width)]
        return [*lines, *self._figures(width), *self._known(width)]

    def _figures(self, width: int) -> list[Line]:
        strips = [strip for strip in self._facts.fleet.strips if self._node in strip.hosts]
        if not strips:
            return []
        name = max(min(max(len(strip.figure.name) for strip in strips), width - 40), 10)
        head = f"{left('Figure, the worst here', name)}{right('here', 9)}{right('median', 9)}"
        lines: list[Line] = [
            (),
            ((head, "key bold"), (f"  of {len(strips[0].hosts):,} nodes", "muted")),
        ]
        for strip in strips:
            value = strip.values[strip.hosts.index(self._node)]
            odd = self._node in strip.outliers
            unit = clean(strip.figure.unit, 12)
            lines.append(
                (
                    (left(clean(strip.figure.name, 120), name), ""),
                    (right(f"{value:.4g}", 9), "bad" if odd else "strong"),
                    (right(f"{strip.median:.4g}", 9), ""),
                    (f"  {unit}{' ▼' if odd else ''}", "bad" if odd else "muted"),
                )
            )
        return lines

    def _known(self, width: int) -> list[Line]:
        report = self._facts.fleet.nodes.get(self._node)
        lines: list[Line] = []
        for category in CATEGORIES if report is not None else ():
            facts = {} if report is None else report.category(category)
            if facts:
                lines += [(), ((category.capitalize(), "key bold"),)]
            for what, value in facts.items():
                lines += wrapped(
                    ((f"{clean(what, 80)}: ", "muted"), (clean(value, 600), "")), width, 2
                )
        return lines
