"""Draws curves over message size into lines: braille curves, points, the dashed healthy band."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gputop.screens.probes.sweeps import Sweep
from gputop.topology.model.units import figure
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
_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of each dot of a braille cell, by row and column (Unicode, block Braille Patterns)."""
_LEAST = (20, 4)
"""Fewer columns or rows hold no picture."""

Point = tuple[float, float]


class _Axes(NamedTuple):
    """Where sizes and values lie, in cells of the area between the axes."""

    columns: int
    rows: int
    first: float
    """Binary logarithm of the size at the left edge."""
    last: float
    top: float
    """The value at the upper edge; the lower one is 0."""

    def column(self, size: float) -> float:
        """Column of a size."""
        return (self.columns - 1) * (math.log2(size) - self.first) / (self.last - self.first)

    def row(self, value: float) -> float:
        """Row of a value, counted from the upper edge."""
        return (self.rows - 1) * (1 - value / self.top)

    def cell(self, point: Point) -> tuple[int, int]:
        """The cell of a point."""
        return round(self.row(point[1])), round(self.column(point[0]))


class _Area:
    """The cells between the axes; what is drawn later covers what was drawn before."""

    def __init__(self, axes: _Axes) -> None:
        self.axes = axes
        self._cells: dict[tuple[int, int], tuple[str, str]] = {}
        self._dots: dict[tuple[int, int], int] = {}

    def put(self, cell: tuple[int, int], char: str, ink: str) -> None:
        """Write one character, unless the cell lies outside."""
        row, column = cell
        if 0 <= row < self.axes.rows and 0 <= column < self.axes.columns:
            self._cells[cell] = (char, ink)
            self._dots.pop(cell, None)

    def dot(self, across: int, down: int, ink: str) -> None:
        """Set one of the eight dots of a cell; the whole cell takes this ink."""
        cell = down // 4, across // 2
        before = self._dots.get(cell, 0)
        self.put(cell, chr(_BRAILLE | (bits := before | _BITS[down % 4][across % 2])), ink)
        self._dots[cell] = bits

    def line(self, row: int) -> Line:
        """One row as spans."""
        cells = (self._cells.get((row, column)) for column in range(self.axes.columns))
        return tuple(_joined(cell or (" ", "") for cell in cells))


def _joined(cells: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    text, last = "", ""
    for char, ink in cells:
        if ink != last and text:
            yield text, last
            text = ""
        text, last = text + char, ink
    if text:
        yield text, last


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
    axes = _Axes(
        columns=width - left - 1,
        rows=rows,
        first=math.log2(min(sizes)) - _MARGIN,
        last=math.log2(max(sizes)) + _MARGIN,
        top=top,
    )
    area = _Area(axes)
    _draw_band(area, sweep.band, "-" if plain else "╌")
    for number, series in reversed(list(enumerate(sweep.series[: len(DOTS)]))):
        _draw_curve(area, series.points, INKS[number], plain=plain)
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


def _draw_band(area: _Area, band: Sequence[tuple[float, float, float]], char: str) -> None:
    if not band:
        return
    if len(band) == 1:
        band = ((band[0][0] / _ALONE, *band[0][1:]), *band)
    for edge in (1, 2):
        points = [(size, ends[edge - 1]) for size, *ends in band]
        for row, column in _steps([(area.axes.row(v), area.axes.column(s)) for s, v in points]):
            area.put((row, column), char, "good")


def _draw_curve(area: _Area, points: Sequence[Point], ink: str, *, plain: bool) -> None:
    axes = area.axes
    if plain:
        for cell in _steps([(axes.row(value), axes.column(size)) for size, value in points]):
            area.put(cell, ".", ink)
        return
    # A curve runs through the middle of the cells of its points.
    fine = [(4 * axes.row(value) + 1.5, 2 * axes.column(size) + 0.5) for size, value in points]
    for down, across in _steps(fine):
        area.dot(across, down, ink)


def _steps(points: Sequence[tuple[float, float]]) -> Iterator[tuple[int, int]]:
    """The places on straight lines from each (row, column) to the next, without a hole."""
    for (row, column), (next_row, next_column) in pairwise(points):
        count = max(math.ceil(abs(next_column - column)), math.ceil(abs(next_row - row)), 1)
        for number in range(count + 1):
            share = number / count
            yield (
                round(row + share * (next_row - row)),
                round(column + share * (next_column - column)),
            )


def _size_axis(axes: _Axes, sizes: Sequence[float], left: int, *, plain: bool) -> Iterator[Line]:
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
