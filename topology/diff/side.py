"""Makes one side of a comparison of a snapshot, or of the file of a check."""

from __future__ import annotations

from ..diagnosis.case import Case
from ..diagnosis.engine import diagnose
from ..fleet.facts import facts_of, machine_digest, product_of
from ..fleet.making import figures_of, sizes_of
from ..fleet.record import NodeReport
from ..fleet.section import CATEGORIES, FleetFigure
from ..model.snapshot import NodeSnapshot
from ..node import Node
from .record import DiffSide


def side_of(name: str, snapshot: NodeSnapshot) -> DiffSide:
    """Examine a snapshot, and predict what the library decides on it."""
    return side_of_node(name, Node(snapshot).decide())


def side_of_node(name: str, node: Node) -> DiffSide:
    """Examine a node of which it is known what the library decides."""
    snapshot = node.snapshot
    found = diagnose(Case(node))
    host = snapshot.machine.host
    return DiffSide(
        name=name,
        host=None if host is None else host.hostname,
        taken_at=snapshot.taken_at,
        verdict=found.verdict,
        product=product_of(snapshot.machine) if snapshot.machine.gpus else "",
        machine=machine_digest(snapshot),
        findings=found.findings,
        examined=frozenset(found.examined),
        facts=facts_of(node),
        sizes=sizes_of(snapshot),
        figures=figures_of(snapshot, node.prediction),
        simulated=snapshot.simulated,
        node=node,
    )


def side_of_report(name: str, report: NodeReport, examined: frozenset[str]) -> DiffSide:
    """What the file of a check tells that holds no snapshot."""
    values = report.values
    return DiffSide(
        name=name,
        host=report.host,
        taken_at=report.taken_at,
        verdict=report.verdict,
        product=report.product,
        machine=report.machine,
        findings=report.findings,
        examined=examined,
        facts={category: report.category(category) for category in CATEGORIES},
        sizes=dict(report.sizes),
        simulated=report.simulated,
        figures=tuple(
            FleetFigure(
                key=kind.key,
                over=kind.over,
                unit=kind.unit,
                value=values[2 * place],
                worst=values[2 * place + 1],
                at=report.at[place],
                healthy=kind.healthy,
                low=kind.low,
                basis=kind.basis,
            )
            for place, kind in enumerate(report.kinds)
        ),
    )
