"""Sweeps: the figures of one quantity over message size, as series of points."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from gputop.measuring.quantities import quantity_of, unit_text
from gputop.screens.probes.groups import LEAST_POINTS, title_of, who_of
from gputop.terminal.clean import clean
from gputop.topology.model.gathered import gathered
from gputop.topology.model.severity import FigureVerdict, Word
from gputop.widgets.meters import edges

if TYPE_CHECKING:
    from gputop.measuring.judged import Judged
    from gputop.topology.expectation.judgement import Judgement
    from gputop.topology.model.snapshot import Measurement

LARGE_BYTES = 64 << 20
"""The size from which an estimate for large messages is drawn."""
MOST_BYTES = 1 << 50
MOST = 1e15
"""Limits of the axes: no message is larger, and no link or GPU is faster."""
APART = 0.05
"""A pair of GPUs that is this far below the median gets its own series."""


class SweepBasis(Word):
    """Where the points of a picture come from."""

    MEASURED = ""
    SIMULATED = "simulated"
    EXPECTED = "expected"


class Series(msgspec.Struct, frozen=True):
    """One curve: ascending sizes in bytes with the figure at each."""

    name: str
    points: tuple[tuple[float, float], ...]


class Sweep(msgspec.Struct, frozen=True):
    """Curves that belong in one picture."""

    title: str
    unit: str
    series: tuple[Series, ...]
    band: tuple[tuple[float, float, float], ...] = ()
    """(size, low end, high end) of the healthy band, for sizes that have one."""
    source: str = ""
    """The source of the band."""
    basis: SweepBasis = SweepBasis.MEASURED


def sweeps(
    figures: Iterable[Measurement],
    judged: Judged,
    names: Mapping[str, str],
    *,
    expected: bool = False,
) -> tuple[Sweep, ...]:
    """The sweep of every quantity with three sizes or more, in order of arrival.

    `expected`: the figures are what a healthy node would give.
    """
    by_quantity = gathered((quantity_of(figure), figure) for figure in figures if _drawable(figure))
    found = []
    for quantity, members in by_quantity.items():
        if len({figure.bytes_per_copy for figure in members}) < LEAST_POINTS:
            continue
        series = _series(members, names)
        if series:
            unit = unit_text(members[0].unit)
            band, source = _band(members, judged)
            basis = (
                SweepBasis.SIMULATED
                if any(figure.simulated for figure in members)
                else SweepBasis.MEASURED
            )
            if expected:
                basis = SweepBasis.EXPECTED
                series = tuple(Series(SweepBasis.EXPECTED, curve.points) for curve in series[:1])
            found.append(Sweep(title_of(quantity, None), unit, series, band, source, basis))
    return tuple(found)


def _drawable(figure: Measurement) -> bool:
    """Whether a figure fits on the axes; a file may hold any number."""
    size, value = figure.bytes_per_copy, figure.value
    if size is None or value is None:
        return False
    return 0 < size <= MOST_BYTES and 0 <= value <= MOST


def _middle(curves: Collection[Mapping[int, float]]) -> dict[int, float]:
    """The median of some curves, for each size that one of them has."""
    return {
        size: statistics.median_high([points[size] for points in curves if size in points])
        for size in {size for points in curves for size in points}
    }


def _series(members: list[Measurement], names: Mapping[str, str]) -> tuple[Series, ...]:
    """A series for each variant; many pairs give their median, and the slowest if it differs."""
    by_variant: dict[str, dict[str, dict[int, float]]] = {}
    for figure in members:
        ends = by_variant.setdefault(clean(figure.variant or "", 40), {})
        points = ends.setdefault(who_of(figure, names), {})
        points[figure.bytes_per_copy or 0] = figure.value or 0.0
    found: list[Series] = []
    for variant, ends in by_variant.items():
        if len(ends) == 1:
            ((who, points),) = ends.items()
            name = ", ".join(filter(None, (variant, who)))
            found.append(_made(name, points))
            continue
        middle = _middle(ends.values())
        name = f"median of {len(ends)}"
        found.append(_made(", ".join(filter(None, (variant, name))), middle))
        largest = max(middle)
        slow = min(ends, key=lambda who: ends[who].get(largest, middle[largest]))
        if ends[slow].get(largest, middle[largest]) < (1 - APART) * middle[largest]:
            found.append(_made(", ".join(filter(None, (variant, slow))), ends[slow]))
    return tuple(curve for curve in found if len(curve.points) >= LEAST_POINTS)


def _made(name: str, points: Mapping[int, float]) -> Series:
    return Series(name, tuple(sorted((float(size), value) for size, value in points.items())))


def _holds(figure: Measurement, judgement: Judgement) -> bool:
    """Whether the band applies to this size; a small message does not fill a link."""
    if judgement.verdict != FigureVerdict.NO_REFERENCE:
        return True
    estimate = judgement.band is not None and judgement.band.is_estimate
    return estimate and (figure.bytes_per_copy or 0) >= LARGE_BYTES


def _band(
    members: list[Measurement], judged: Judged
) -> tuple[tuple[tuple[float, float, float], ...], str]:
    ends: dict[float, tuple[float, float]] = {}
    source = ""
    for figure in members:
        judgement = judged.of(figure)
        if judgement is not None and judgement.band is not None and _holds(figure, judgement):
            ends[float(figure.bytes_per_copy or 0)] = edges(judgement.band)
            source = judgement.band.source
    return tuple((size, *ends[size]) for size in sorted(ends)), clean(source, 120)
