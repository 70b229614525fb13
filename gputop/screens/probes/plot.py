"""Draws curves over message size into lines: braille curves, points, the dashed healthy band."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gputop.screens.probes.sweeps import Sweep
from gputop.topology.model.units import figure
from gputop.widgets.plot_area import PlotArea, PlotAxes, straight
from gputop.widgets.spans import Line, width_of

INKS = ("bar", "accent", "link-net", "link-c2c")
DOTS = ("●", "○", "◆", "◇")
"""Marker of the measured points of each series, so that colour is not the only difference."""
PLAIN_DOTS = ("o", "x", "+", "*")
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
TICKS = (
    (4 * _KIB, "4K"),
    (64 * _KIB, "64K"),
    (_MIB, "1M"),
    (16 * _MIB, "16M"),
    (256 * _MIB, "256M"),
    (_GIB, "1G"),
    (4 * _GIB, "4G"),
)
_AXIS_ROWS = 2
"""The axis of sizes and its labels."""
_MARGIN = 0.2
"""Room for the markers of the first and the last point, in doublings of the size."""
_ALONE = 8.0
"""A band that is known at a single size is drawn from an eighth of that size on."""
_LEAST = (20, 4)
"""Fewer columns or rows hold no picture."""


def legend(sweep: Sweep, width: int, *, plain: bool) -> Line:
    """The legend: the marker of each series and the meaning of the dashes."""
    dots = PLAIN_DOTS if plain else DOTS
    spans: list[tuple[str, str]] = []
    for number, series in enumerate(sweep.series[: len(DOTS)]):
        spans += [(f" {dots[number]} ", f"{INKS[number]} bold"), (f"{series.name}  ", "")]
    if sweep.band:
        _, low, high = sweep.band[-1]
        spans += [(" - " if plain else " ╌ ", "good")]
        spans += [(f"healthy {figure(low)}–{figure(high)} ", "")]
        # Half a name says nothing; the explanation has it whole.
        if width_of(spans) + len(sweep.source) < width:
            spans.append((sweep.source, "muted"))
    return tuple(spans)


def plot(sweep: Sweep, width: int, height: int, *, plain: bool = False) -> tuple[Line, ...]:
    """Draw a sweep in so many cells; nothing where they are too few. `plain`: ASCII only."""
    points = [point for series in sweep.series for point in series.points]
    if width < _LEAST[0] or height < _LEAST[1] or not points:
        return ()
    sizes = [size for size, _ in points]
    highest = max(*(value for _, value in points), *(high for _, _, high in sweep.band), 0.0)
    top, rows = 1.08 * highest or 1.0, height - _AXIS_ROWS
    step = _step(top, max(height // 3, 2))
    marks = {f"{step * number:g}": step * number for number in range(int(top / step) + 1)}
    left = max(map(len, marks))
    axes = PlotAxes(
        columns=width - left - 1,
        rows=rows,
        first=math.log2(min(sizes)) - _MARGIN,
        last=math.log2(max(sizes)) + _MARGIN,
        top=top,
    )
    area = PlotArea(axes)
    _draw_band(area, sweep.band, "-" if plain else "╌")
    for number, series in reversed(list(enumerate(sweep.series[: len(DOTS)]))):
        area.curve(series.points, INKS[number], plain=plain)
    for number, series in reversed(list(enumerate(sweep.series[: len(DOTS)]))):
        for point in series.points:
            area.put(axes.cell(point), (PLAIN_DOTS if plain else DOTS)[number], INKS[number])
    ticks = {round(axes.row(value)): name for name, value in marks.items()}
    upright, tick = ("|", "+") if plain else ("│", "┤")
    lines = [
        (
            (f"{ticks.get(row, ''):>{left}}{tick if row in ticks else upright}", "muted"),
            *area.line(row),
        )
        for row in range(rows)
    ]
    return (*lines, *_size_axis(axes, sizes, left, plain=plain))


def _draw_band(area: PlotArea, band: Sequence[tuple[float, float, float]], char: str) -> None:
    if not band:
        return
    if len(band) == 1:
        band = ((band[0][0] / _ALONE, *band[0][1:]), *band)
    for edge in (1, 2):
        points = [(size, ends[edge - 1]) for size, *ends in band]
        for row, column in straight([(area.axes.row(v), area.axes.column(s)) for s, v in points]):
            area.put((row, column), char, "good")


def _size_axis(axes: PlotAxes, sizes: Sequence[float], left: int, *, plain: bool) -> Iterator[Line]:
    """The axis of sizes and its labels; a label that would touch the one before is left out."""
    corner, along, tick = ("+", "-", "+") if plain else ("└", "─", "┬")
    axis, labels = [along] * axes.columns, " " * (left + 1)
    for size, label in TICKS:
        if min(sizes) <= size <= max(sizes):
            column = round(axes.column(size))
            axis[column] = tick
            begin = min(left + 1 + column - len(label) // 2, left + 1 + axes.columns - len(label))
            if begin > len(labels) or not labels.strip():
                labels = labels[:begin].ljust(begin) + label
    yield ((" " * left + corner + "".join(axis), "muted"),)
    yield ((labels.ljust(left + 1 + axes.columns), "muted"),)


def _step(top: float, marks: int) -> float:
    """The distance between ticks: 1, 2 or 5 times a power of ten, at most the top."""
    rough = top / max(marks, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = [step * power for step in (1, 2, 5, 10)]
    fitting = [step for step in steps if step <= top]
    return next((step for step in fitting if step >= rough), fitting[-1])
