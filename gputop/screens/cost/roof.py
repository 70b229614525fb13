"""The roofline of a layout: how fast a GPU could be, where the bound bends it, and what it reaches.

Both axes are logarithmic. Training: TFLOP/s against the tokens of a replica between two reductions;
serving: against the FLOP for each byte that is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gputop.answers.cost_records import CostAnswer, CostLayout
from gputop.topology.cost.rooflines import PRODUCTS
from gputop.topology.cost.serving import Serving
from gputop.topology.model.units import figure
from gputop.widgets.plot_area import PlotArea, PlotAxes
from gputop.widgets.spans import Line, width_of

_LEAST = (30, 5)
"""Fewer columns or rows hold no picture."""
_AXIS_ROWS = 3
"""The axis, its labels and its unit."""
_AROUND = 4.0
"""How many times further than the outermost point the axis of the bound goes."""
_SCALE = 6
"""Cells of the scale at the left."""


class Roof(NamedTuple):
    """What a roofline is drawn from; TFLOP/s of a GPU."""

    unit: str
    here: tuple[float, float]
    """The top, and where it begins."""
    paper: tuple[float, float] | None
    reached: tuple[float, float]
    """Where it stands, and what it reaches."""


def roof_of(found: CostAnswer, one: CostLayout | Serving) -> Roof | None:
    """The roofline of a row; None where nothing bounds it or a rate is not known."""
    if found.tflops is None or one.tflops is None:
        return None
    if isinstance(one, Serving):
        ridge = next((line for line in found.rooflines if line.what == PRODUCTS), None)
        if ridge is None or ridge.here is None or one.flop_per_byte is None:
            return None
        known = found.sheet_tflops is not None and ridge.paper is not None
        paper = (found.sheet_tflops or 0.0, ridge.paper or 0.0) if known else None
        reached = one.flop_per_byte, one.tflops
        return Roof("FLOP for each byte read", (found.tflops, ridge.here), paper, reached)
    if not one.replica_tokens or not one.hides_tokens:
        return None
    reached = one.replica_tokens, one.tflops
    unit = "tokens of a replica between two reductions"
    return Roof(unit, (found.tflops, one.hides_tokens), None, reached)


def roof_lines(roof: Roof, width: int, height: int, *, plain: bool) -> tuple[Line, ...]:
    """Draw it in so many cells, with its legend; nothing where they are too few."""
    legend = _legend(roof, width, plain=plain)
    rows = height - len(legend) - _AXIS_ROWS
    if width < _LEAST[0] or rows < _LEAST[1]:
        return ()
    roofs = [one for one in (roof.paper, roof.here) if one is not None]
    places = [roof.reached[0], *(bend for _, bend in roofs)]
    first, last = min(places) / _AROUND, max(places) * _AROUND
    highest = max(top for top, _ in roofs) * 1.3
    lowest = min(roof.reached[1] / 1.5, *(top * min(first / bend, 1.0) for top, bend in roofs))
    lowest = max(lowest, highest / 1e4)
    axes = PlotAxes(
        columns=min(width - _SCALE - 1, 110),
        rows=rows,
        first=math.log2(first),
        last=math.log2(last),
        top=math.log2(highest / lowest),
    )
    area = PlotArea(axes)
    for (top, bend), ink in zip(roofs, ("muted", "bar")[-len(roofs) :], strict=True):
        points = [(first, top * min(first / bend, 1.0)), (bend, top), (last, top)]
        inside = [(x, math.log2(max(y, lowest) / lowest)) for x, y in points]
        if points[0][1] < lowest:
            inside[0] = (bend * lowest / top, 0.0)
        area.curve(sorted(inside), ink, plain=plain)
    there = roof.reached[0], math.log2(max(roof.reached[1], lowest) / lowest)
    area.put(axes.cell(there), "o" if plain else "●", "accent bold")
    marks = {round(axes.row(math.log2(value / lowest))): value for value in _ticks(lowest, highest)}
    upright, tick = ("|", "+") if plain else ("│", "┤")
    lines = [
        (
            (
                f"{f'{marks[row]:g}' if row in marks else '':>{_SCALE}}"
                f"{tick if row in marks else upright}",
                "muted",
            ),
            *area.line(row),
        )
        for row in range(rows)
    ]
    return (*legend, *lines, *_axis(axes, first, last, roof.unit, plain=plain))


def _legend(roof: Roof, width: int, *, plain: bool) -> tuple[Line, ...]:
    """What is what, on as few lines as hold it."""
    top, bend = roof.here
    line, dot = ("-", "o") if plain else ("—", "●")
    here = f" its roof: {figure(top)} TFLOP/s from {bend:,.0f} on"
    parts: list[Line] = [((line, "bar bold"), (here, ""))]
    if roof.paper is not None:
        said = f" on paper: {figure(roof.paper[0])} from {roof.paper[1]:,.0f} on"
        parts.append(((line, "muted"), (said, "muted")))
    reached = f" reached: {figure(roof.reached[1])} at {roof.reached[0]:,.0f}"
    parts.append(((dot, "accent bold"), (reached, "")))
    return packed(parts, width)


def packed(parts: Iterable[Line], width: int) -> tuple[Line, ...]:
    """Parts side by side, none of them broken, on as few lines as hold them."""
    lines: list[Line] = []
    for part in parts:
        if lines and width_of((*lines[-1], ("   ", ""), *part)) <= width:
            lines[-1] = (*lines[-1], ("   ", ""), *part)
        else:
            lines.append(part)
    return tuple(lines)


def _ticks(low: float, high: float) -> Iterator[float]:
    """1, 2 and 5 times powers of ten; powers alone where they span more than two decades."""
    steps = (1, 2, 5) if high / low < 100 else (1,)
    power = 10.0 ** math.floor(math.log10(low))
    while power <= high:
        yield from (step * power for step in steps if low <= step * power <= high)
        power *= 10


def _axis(axes: PlotAxes, first: float, last: float, unit: str, *, plain: bool) -> Iterator[Line]:
    """The axis of the bound, its labels, and its unit where they leave room."""
    corner, along, tick = ("+", "-", "+") if plain else ("└", "─", "┬")
    axis, labels = [along] * axes.columns, " " * (_SCALE + 1)
    power = 10.0 ** math.ceil(math.log10(first))
    while power <= last:
        column, label = round(axes.column(power)), _short(power)
        begin = _SCALE + 1 + column - len(label) // 2
        if begin > len(labels.rstrip()) and begin + len(label) <= axes.columns + _SCALE + 1:
            axis[column] = tick
            labels = labels[:begin].ljust(begin) + label
        power *= 10
    yield ((" " * _SCALE + corner + "".join(axis), "muted"),)
    yield ((labels, "muted"),)
    yield ((f"{' ' * (_SCALE + 1)}{unit}", "muted"),)


def _short(value: float) -> str:
    for factor, sign in ((1e6, "M"), (1e3, "K")):
        if value >= factor:
            return f"{value / factor:g}{sign}"
    return f"{value:g}"
