"""Drawing -> rows of cells: characters with the name of a style.

Lines that meet become the proper junction, because every cell remembers which of its four arms
are drawn and how thick. Two lines that merely cross make a cross; a line that ends makes a corner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from rich.cells import cell_len

from gputop.screens.map.load import LinkLoad
from gputop.terminal.clean import clean
from gputop.topology.sketch.drawing import Box, BoxKind, Drawing, Edge, Line, Point

Cell: TypeAlias = tuple[str, str]
"""Character and style name."""
Run: TypeAlias = tuple[str, str]
"""Text and style name."""

_UP, _RIGHT, _DOWN, _LEFT = range(4)
# Index: arms up, right, down, left as digits of base 3; 0 none, 1 thin, 2 thick.
_JUNCTIONS = " ╴╸╷┐┑╻┒┓╶─╾┌┬┭┎┰┱╺╼━┍┮┯┏┲┳╵┘┙│┤┥╽┧┪└┴┵├┼┽┟╁╅┕┶┷┝┾┿┢╆╈╹┚┛╿┦┩┃┨┫┖┸┹┞╀╃┠╂╉┗┺┻┡╄╇┣╊╋"
_ROUND = {"┌": "╭", "┐": "╮", "└": "╰", "┘": "╯"}
_PLAIN = str.maketrans(
    {
        "·": "-",
        "–": "-",
        "…": "~",
        "×": "x",
        "▲": "^",
        "▼": "v",
        "→": ">",
        "↑": "^",
        "↓": "v",
        "●": "o",
    }
)


@dataclass(frozen=True, slots=True)
class Marks:
    """What is picked out in a drawing; ids of boxes and edges of the graph."""

    cursor: str | None = None
    first: str | None = None
    """The box that was marked first."""
    path: frozenset[Edge] = frozenset()
    bottleneck: frozenset[Edge] = frozenset()
    nodes: frozenset[str] = frozenset()
    """Graph nodes on the path."""
    step: frozenset[Edge] = frozenset()
    """The part of the path where the walk along it is."""
    loads: frozenset[tuple[tuple[str, str], LinkLoad]] = frozenset()
    """The ends of lines whose load is known."""


@dataclass(slots=True)
class _Pen:
    """What is drawn in one cell."""

    arms: list[int]
    style: str
    rank: int
    round: bool


class Canvas:
    """Rows of cells, made once for a drawing and its marks."""

    def __init__(self, drawing: Drawing, marks: Marks, *, ascii_only: bool = False) -> None:
        self.width, self.height = drawing.width, drawing.height
        self._ascii = ascii_only
        self._loads = dict(marks.loads)
        self._pens: dict[Point, _Pen] = {}
        self.rows: list[list[Cell]] = [[(" ", "")] * drawing.width for _ in range(drawing.height)]
        for box in drawing.boxes:
            if box.framed:
                self._frame(box, marks)
        for line in drawing.lines:
            self._line(line, marks)
        for (x, y), pen in self._pens.items():
            self._set(x, y, self._character(pen), pen.style)
        for line in drawing.lines:
            self._labels(line, marks)
        for box in drawing.boxes:
            self._texts(box, marks)

    def _labels(self, line: Line, marks: Marks) -> None:
        style = line_style(line, marks)
        for label in line.labels:
            name = "bad" if label.weak else "label"
            self.write(label.x, label.y, label.text, style if style in LIT else name)
        if style == "bottleneck" and line.labels:
            # A sign beside the colour, in the free cell between the line and its label.
            first = line.labels[0]
            self.write(first.x - (not first.text.startswith(" ")), first.y, "▲", style)

    def write(self, x: int, y: int, text: str, style: str) -> None:
        """Put a text into a row; what does not fit is left out."""
        for i, character in enumerate(self.plain(text)):
            self._set(x + i, y, character, style)

    def plain(self, text: str) -> str:
        """The text as the terminal can show it, one cell a character."""
        if not text.isascii():
            text = "".join(c if cell_len(c) == 1 else "?" for c in clean(text))
        elif not text.isprintable():
            text = clean(text)
        if not self._ascii:
            return text
        return text.translate(_PLAIN).encode("ascii", "replace").decode()

    def text(self) -> str:
        """The characters alone."""
        return "\n".join("".join(c for c, _ in row).rstrip() for row in self.rows)

    def _set(self, x: int, y: int, character: str, style: str) -> None:
        if 0 <= y < self.height and 0 <= x < self.width:
            self.rows[y][x] = (character, style)

    def _frame(self, box: Box, marks: Marks) -> None:
        style = box_style(box, marks) + "-frame"
        heavy = 2 if box.id in (marks.cursor, marks.first) else 1
        corners = (
            (box.x, box.y), (box.right - 1, box.y), (box.right - 1, box.base - 1),
            (box.x, box.base - 1), (box.x, box.y),
        )  # fmt: skip
        self._stroke(corners, style, heavy, 4 if heavy == 2 else 0)

    def _line(self, line: Line, marks: Marks) -> None:
        style, load = line_style(line, marks), self._loads.get(line.ends)
        lit = style in LIT
        thick = lit or load is LinkLoad.FULL
        if load is not None and style == line.kind:
            style += _LOADED[load]
        self._stroke(line.points, style, 2 if thick else 1, 3 if lit else 1)

    def _stroke(self, points: Iterable[Point], style: str, weight: int, rank: int) -> None:
        """Draw a polyline; where strokes meet, the one of the highest rank gives the colour."""
        corners = list(points)
        for (x0, y0), (x1, y1) in pairwise(corners):
            dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
            out = _RIGHT if dx > 0 else _LEFT if dx < 0 else _DOWN if dy > 0 else _UP
            x, y = x0, y0
            while (x, y) != (x1, y1):
                self._arm(x, y, out, style, weight, rank)
                x, y = x + dx, y + dy
                self._arm(x, y, (out + 2) % 4, style, weight, rank)

    def _arm(self, x: int, y: int, arm: int, style: str, weight: int, rank: int) -> None:
        pen = self._pens.get((x, y))
        if pen is None:
            pen = self._pens[x, y] = _Pen([0, 0, 0, 0], style, rank, True)
        elif rank > pen.rank:
            pen.style, pen.rank = style, rank
        pen.arms[arm] = max(pen.arms[arm], weight)

    def _character(self, pen: _Pen) -> str:
        up, right, down, left = pen.arms
        if self._ascii:
            if (up or down) and (left or right):
                return "+"
            if up or down:
                return "#" if max(up, down) == 2 else "|"
            return "=" if max(left, right) == 2 else "-"
        character = _JUNCTIONS[((up * 3 + right) * 3 + down) * 3 + left]
        return _ROUND.get(character, character)

    def _texts(self, box: Box, marks: Marks) -> None:
        style = box_style(box, marks)
        inset = 0
        if box.framed:
            inset = 2 if box.width > 9 else 1
            for y in range(box.y + 1, box.base - 1):
                self.write(box.x + 1, y, " " * (box.width - 2), style)
        else:
            style += "-chip"
            for y in range(box.y, box.base):
                self.write(box.x, y, " " * box.width, style)
            inset = (
                1
                if box.kind not in (BoxKind.GPU, BoxKind.NIC, BoxKind.DRIVE) and box.width > 3
                else 0
            )
        for i, line in enumerate(box.lines):
            name = style if i == 0 or style == "cursor" else "label"
            row = box.y + (1 if box.framed else 0) + i
            self.write(box.x + inset, row, line, name)
            usual, odd, less = line.partition("; ")
            if less.endswith("!") and style.startswith("plane"):
                short = "bad" if box.framed else "short-chip"
                self.write(box.x + inset + len(usual + odd), row, less, short)


LIT = ("path", "step", "bottleneck")
"""Styles of lines that are picked out."""
_LOADED = {
    LinkLoad.IDLE: "-idle",
    LinkLoad.SOME: "",
    LinkLoad.HALF: "-busy",
    LinkLoad.FULL: "-busy",
}
"""What the style of a line ends in for its load."""


def box_style(box: Box, marks: Marks) -> str:
    """Style name of a box."""
    if box.id == marks.cursor:
        return "cursor"
    if box.id == marks.first:
        return "first"
    if box.id in marks.nodes or any(member in marks.nodes for member in box.members):
        return "path"
    return "plane" if box.kind is BoxKind.MESH else box.kind


def line_style(line: Line, marks: Marks) -> str:
    """Style name of a line."""
    if line.edges & marks.bottleneck:
        return "bottleneck"
    if line.edges & marks.step:
        return "step"
    if line.edges & marks.path:
        return "path"
    return "bad" if line.weak else line.kind


def runs(cells: Collection[Cell]) -> list[Run]:
    """Neighbouring cells of one style joined to texts."""
    found: list[Run] = []
    text, style = "", ""
    for character, name in cells:
        if name != style and text:
            found.append((text, style))
            text = ""
        text, style = text + character, name
    if text:
        found.append((text, style))
    return found
