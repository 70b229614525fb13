"""Figures of equal nodes, each beside the median of all.

A node is an outlier where both hold: it is LIMIT_Z robust standard deviations from the median
(0.6745 × distance / MAD; Iglewicz and Hoaglin take 3.5 for one sample, and here thousands of nodes
are compared in dozens of figures, so that 6 keeps noise below one false name in a million), and it
is LEAST_SHARE away from it (runs on one healthy node differ by up to 5 %, see the siblings of a
node, where 8 % stand out). With a MAD of 0 the share alone decides. Only the worse side counts: a
fast node harms nobody. How many seconds a program takes to start makes nobody odd: file systems and
caches decide that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from ..expectation.judgement import TIMES
from ..model.page import Fact, Fix
from ..model.severity import SLOW
from .finding import COMPARED, FleetFinding, finding
from .record import FigureKind, NodeReport

LIMIT_Z = 6.0
LEAST_SHARE = 0.08
LEAST_NODES = 5
"""With fewer nodes the median of the others is not known well enough."""
STARTS = "s"
"""The unit of how long something takes to start."""
_NORMAL = 0.6745


class Strip(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of figure over equal nodes."""

    figure: FigureKind
    product: str
    hosts: tuple[str, ...]
    values: tuple[float, ...]
    """The worst of each node, in the order of `hosts`."""
    middles: tuple[float, ...]
    """The middle of each node."""
    median: float
    mad: float
    """The median of the distances from the median."""
    limit: float | None
    """A worst figure beyond this is an outlier; None where too few nodes have it."""
    outliers: tuple[str, ...] = ()

    @property
    def falling(self) -> bool:
        """Whether less is better."""
        return self.figure.unit in TIMES


def strips(shapes: Mapping[str, Sequence[NodeReport]]) -> list[Strip]:
    """A strip for each product and kind of figure."""
    made: list[Strip] = []
    for product, reports in shapes.items():
        columns: dict[tuple[str, str, str], list[tuple[NodeReport, int]]] = {}
        for report in reports:
            for place, kind in enumerate(report.kinds):
                columns.setdefault((kind.key, kind.over, kind.unit), []).append((report, place))
        made += [_strip(product, members) for members in columns.values()]
    return made


def outliers(found: Sequence[Strip], nodes: Mapping[str, NodeReport]) -> list[FleetFinding]:
    """One finding for each kind of figure that has outliers."""
    return [_finding(strip, nodes) for strip in found if strip.outliers]


def _strip(product: str, members: Sequence[tuple[NodeReport, int]]) -> Strip:
    report, place = members[0]
    kind = report.kinds[place]
    values = [report.values[2 * place + 1] for report, place in members]
    middles = [report.values[2 * place] for report, place in members]
    middle, mad, limit = _limit(values, kind.unit in TIMES)
    if kind.unit == STARTS:
        limit = None
    odd: set[str] = set()
    if limit is not None:
        odd = {
            report.host
            for (report, _), value in zip(members, values, strict=True)
            if (value > limit if kind.unit in TIMES else value < limit)
        }
    return Strip(
        figure=kind,
        product=product,
        hosts=tuple(report.host for report, _ in members),
        values=tuple(values),
        middles=tuple(middles),
        median=middle,
        mad=mad,
        limit=limit,
        outliers=tuple(report.host for report, _ in members if report.host in odd),
    )


def _limit(values: Sequence[float], falling: bool) -> tuple[float, float, float | None]:
    """Median, MAD, and how far is too far."""
    middle = median(values)
    mad = median(abs(value - middle) for value in values)
    if len(values) < LEAST_NODES:
        return middle, mad, None
    away = max(LIMIT_Z * mad / _NORMAL, LEAST_SHARE * middle)
    return middle, mad, middle + away if falling else middle - away


def _finding(strip: Strip, nodes: Mapping[str, NodeReport]) -> FleetFinding:
    kind, unit = strip.figure, strip.figure.unit
    values = dict(zip(strip.hosts, strip.values, strict=True))
    pick = max if strip.falling else min
    worst = pick(values[host] for host in strip.outliers)
    range_ = f"{worst:.4g} {unit}" if len(strip.outliers) == 1 else f"down to {worst:.4g} {unit}"
    if strip.falling and len(strip.outliers) > 1:
        range_ = f"up to {worst:.4g} {unit}"
    beside = "" if kind.healthy is None else f"; healthy {kind.healthy:.4g} ({kind.basis})"
    return finding(
        "figure-odd",
        SLOW,
        COMPARED,
        f"{kind.name}: {range_}, where the median of {len(values)} equal nodes is "
        f"{strip.median:.4g}{beside}",
        strip.outliers,
        evidence=[
            Fact(
                what=" ".join(filter(None, (host, _at(nodes[host], kind)))),
                value=f"{values[host]:.4g} {unit}, {_away(values[host], strip)}",
                source=nodes[host].path,
            )
            for host in sorted(strip.outliers, key=values.__getitem__, reverse=strip.falling)
        ],
        disproof="the same figure as on equal nodes in another run",
        impact="A collective over all nodes goes at the pace of the slowest.",
        fix=[Fix(text="Measure the node again, alone", command="gputop check -v")],
    )


def _away(value: float, strip: Strip) -> str:
    share = abs(value - strip.median) / strip.median if strip.median else 0.0
    side = "over" if value > strip.median else "under"
    z = f", z = {_NORMAL * abs(value - strip.median) / strip.mad:.0f}" if strip.mad else ""
    return f"{share:.0%} {side} the median{z}".replace("%", " %")


def _at(report: NodeReport, kind: FigureKind) -> str:
    for place, other in enumerate(report.kinds):
        if (other.key, other.over, other.unit) == (kind.key, kind.over, kind.unit):
            return report.at[place]
    return ""
