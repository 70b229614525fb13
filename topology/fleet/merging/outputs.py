"""Figures of nccl-tests and nvbandwidth, one file a node, beside those of the other nodes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

from ..finding import FleetFinding
from ..foreign import ForeignReport
from ..outliers import outliers, strips
from ..record import FigureKind, NodeReport


def odd_outputs(reports: Iterable[ForeignReport], kinds: Mapping[str, str]) -> list[FleetFinding]:
    """Nodes whose figures stand out; `kinds`: host -> its hardware, where its check tells it.

    Only the same measurement of the same tool, size and number of ranks is compared. Of several
    files of a node the last one counts.
    """
    figures: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    paths: dict[str, str] = {}
    for report in reports:
        if report.host is not None and report.figures:
            paths[report.host] = report.path
            own = figures.setdefault(report.host, {})
            own.update({(one.key, one.unit): (one.value, one.worst) for one in report.figures})
    made = {host: _made(host, paths[host], own) for host, own in figures.items()}
    shapes: dict[str, list[NodeReport]] = {}
    for host, node in made.items():
        shapes.setdefault(kinds.get(host, ""), []).append(node)
    return outliers(strips(shapes), made)


def _made(host: str, path: str, own: Mapping[tuple[str, str], tuple[float, float]]) -> NodeReport:
    return NodeReport(
        host=host,
        path=path,
        verdict="healthy",
        taken_at=0.0,
        written_at=0.0,
        modified_at=0.0,
        kinds=tuple(FigureKind(key=key, kind="node", unit=unit) for key, unit in own),
        values=array("d", [value for both in own.values() for value in both]),
        at=("",) * len(own),
    )
