"""Draws points and lines into cells: where they lie, and the dots of braille cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gputop.widgets.spans import Line

_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of each dot of a braille cell, by row and column (Unicode, block Braille Patterns)."""

Point = tuple[float, float]


class PlotAxes(NamedTuple):
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


class PlotArea:
    """The cells between the axes; what is drawn later covers what was drawn before."""

    def __init__(self, axes: PlotAxes) -> None:
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

    def curve(self, points: Sequence[Point], ink: str, *, plain: bool) -> None:
        """Straight lines from point to point, of dots; `plain`: of full stops."""
        axes = self.axes
        if plain:
            for cell in straight([(axes.row(value), axes.column(size)) for size, value in points]):
                self.put(cell, ".", ink)
            return
        # A curve runs through the middle of the cells of its points.
        fine = [(4 * axes.row(value) + 1.5, 2 * axes.column(size) + 0.5) for size, value in points]
        for down, across in straight(fine):
            self.dot(across, down, ink)

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


def straight(points: Sequence[tuple[float, float]]) -> Iterator[tuple[int, int]]:
    """The places on straight lines from each (row, column) to the next, without a hole."""
    for (row, column), (next_row, next_column) in pairwise(points):
        count = max(math.ceil(abs(next_column - column)), math.ceil(abs(next_row - row)), 1)
        for number in range(count + 1):
            share = number / count
            yield (
                round(row + share * (next_row - row)),
                round(column + share * (next_column - column)),
            )
