"""WiringDiagram: the drawn node on screen, with a cursor and a mark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import events
from textual.geometry import Size
from textual.message import Message

from gputop.screens.map import live as wiring_live
from gputop.screens.map import marks as wiring_marks
from gputop.screens.map.canvas import Canvas, Cell, Marks, runs
from gputop.screens.map.info import has_one_rate, label
from gputop.screens.map.load import LinkLoad, loads
from gputop.screens.map.measured import MeasuredLines
from gputop.screens.map.rings import way
from gputop.topology.explain.rank_orders import Laid
from gputop.topology.sketch.drawing import Box, BoxKind, Drawing, Edge
from gputop.topology.sketch.layout import fitting, layout
from gputop.widgets.board import Board
from gputop.widgets.spans import Line

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.topology.explain.rank_orders import RankOrder
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report
    from gputop.topology.wiring.paths import Path

INKS = {
    "": "",
    "host": "",
    "host-frame": "muted",
    "bridge": "",
    "bridge-frame": "link-pcie",
    "gpu": "",
    "gpu-frame": "primary",
    "package": "",
    "package-frame": "primary",
    "nic": "link-net",
    "nic-frame": "link-net",
    "nvme": "link-pcie",
    "nvme-frame": "link-pcie",
    "plane": "",
    "plane-frame": "link-nvlink",
    "label": "muted",
    "live": "",
    "bar": "bar",
    "bar-rest": "bar-rest",
    "nvlink": "link-nvlink",
    "xgmi": "link-xgmi",
    "c2c": "link-c2c",
    "pcie": "link-pcie",
    "socket": "link-socket",
    "net": "link-net",
    **{f"{kind}-idle": "muted" for kind in ("nvlink", "xgmi", "pcie")},
    **{f"{kind}-busy": f"link-{kind} bold" for kind in ("nvlink", "xgmi", "pcie")},
    "bad": "bad",
    "warn": "warn",
    "path": "accent",
    "step": "key bold",
    "path-frame": "accent",
    "bottleneck": "bad",
    "first": "accent bold underline",
    "first-frame": "accent",
    "cursor": "cursor",
    "host-chip": "heat-0",
    "bridge-chip": "heat-0 link-pcie",
    "gpu-chip": "heat-1",
    "package-chip": "heat-0 primary",
    "nic-chip": "heat-0 link-net",
    "nvme-chip": "heat-0 link-pcie",
    "plane-chip": "heat-0",
    "short-chip": "heat-0 bad",
    "path-chip": "heat-0 accent",
    "first-chip": "heat-0 accent bold underline",
    "cursor-chip": "pick",
    "bad-chip": "heat-1 bad",
    "warn-chip": "heat-1 warn",
    "live-chip": "heat-1",
    "cursor-frame": "key bold",
}
"""Style of the canvas -> ink of the theme."""

_ASIDE = 2
"""How much a column aside counts against a row ahead when the cursor goes up or down."""
_ACROSS = 4
"""How much a row aside counts against a column ahead when the cursor goes left or right."""


class WiringDiagram(Board):
    """Draws the graph of a report; remembers what is selected and what is marked."""

    @dataclass
    class BoxPicked(Message):
        """Another box was selected or marked, or the selected one was clicked again.

        The screen answers with `show_report`, which draws the change.
        """

        twice: bool = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.drawing = Drawing(0, 0, (), ())
        self.first: str | None = None
        """Node that was marked."""
        self.path: Path | None = None
        """Path between the marked node and the selected one."""
        self.compact: bool | None = None
        """True or False when a person chose how to draw; None draws what fits."""
        self.shown: Shown | None = None
        """The findings, whose devices get a sign."""
        self.overlay: RankOrder | None = None
        """The ring or tree that is laid over the drawing."""
        self._selected: str | None = None
        self._loads: dict[tuple[str, str], LinkLoad] = {}
        self._seen: tuple[NodeSnapshot | None, Drawing | None] = (None, None)
        self._turn = 0
        """How many readings were drawn: the walk along a ring goes one step with each."""
        self._column = 0
        self._canvas: Canvas | None = None
        self._canvas_for: tuple[object, ...] = ()
        self._rows: dict[int, Line] = {}
        """Rows without live figures, by number."""

    @property
    def box(self) -> Box | None:
        """The selected box."""
        return self.drawing.box(self._selected) if self._selected is not None else None

    @property
    def pair(self) -> tuple[str, str] | None:
        """The marked and the selected node, when both are nodes and differ."""
        box = self.box
        if self.first is None or box is None or not box.members or box.id == self.first:
            return None
        return self.first, box.id

    @property
    def loaded(self) -> bool:
        """Whether the load of any line is known."""
        return bool(self._loads)

    def show_report(self, report: Report, rows: int) -> None:
        """Draw a report into so many rows; what did not change is not drawn again."""
        size = Size(self.outer_size.width, rows)
        if not size.width or not size.height:
            return
        self.draw_once(lambda: self._lay_out(report, size), report.graph, size, self.compact)
        box = self.box
        pair = self.pair
        self.path = way(report, *pair) if pair is not None else None
        self._paint(report, box)

    def _lay_out(self, report: Report, size: Size) -> None:
        """Make a drawing for the room there is; scrollbars take a column and a row of it."""
        width, height = size

        def draw(columns: int, rows: int) -> Drawing:
            if self.compact is None:
                return fitting(report.graph, columns, rows)
            return layout(report.graph, columns, rows, self.compact)

        drawing = draw(width, height)
        tall, wide = drawing.height > height, drawing.width > width
        self.drawing = draw(width - tall, height - wide) if tall or wide else drawing
        self._keep_selection()

    def _keep_selection(self) -> None:
        known = {box.id for box in self.drawing.boxes}
        if self.first not in known:
            self.first = None
        if self._selected not in known:
            order = in_order(self.drawing)
            self._selected = order[0].id if order else None
        if self.box is not None:
            self._column = centre(self.box)
            self.call_after_refresh(self._reveal_selected)

    def _paint(self, report: Report, box: Box | None) -> None:
        ascii_only = "utf" not in self.app.console.encoding.lower()
        path, narrow, nodes = _lit(self.path)
        if len(nodes) == 2:
            nodes |= {"mesh"}
        over = self.overlay if self.path is None else None
        self._take_reading(report)
        step: frozenset[Edge] = frozenset()
        if over is not None:
            path, narrow, step = over.edges, over.narrow, over.step(self._turn)
        loads = frozenset(self._loads.items())
        marks = Marks(self._selected, self.first, path, narrow, nodes, step, loads)
        if self._canvas is None or self._canvas_for != (self.drawing, marks, ascii_only):
            self._canvas_for = (self.drawing, marks, ascii_only)
            self._canvas = Canvas(self.drawing, marks, ascii_only=ascii_only)
            self._rows = {y: _line(row) for y, row in enumerate(self._canvas.rows)}
        rows = dict(self._rows)
        touched: dict[int, list[Cell]] = {}
        cursor = box.id if box is not None and box.kind is BoxKind.GPU else None
        readings = report.snapshot.readings
        measured = MeasuredLines(report, cursor)
        for slot, text, style in wiring_live.figures(
            self.drawing, report.graph, readings, cursor, measured
        ):
            row = touched.setdefault(slot.y, list(self._canvas.rows[slot.y]))
            if box is not None and box.contains(slot.x, slot.y):
                style = "cursor" if box.framed else "cursor-chip"
            for i, character in enumerate(self._canvas.plain(text)[: slot.width]):
                row[slot.x + i] = (character, style)
        for marked, sign, ink in wiring_marks.signs(self.drawing, self.shown):
            row = touched.setdefault(marked.y, list(self._canvas.rows[marked.y]))
            x, style = wiring_marks.place(marked, row, ink)
            row[x] = (self._canvas.plain(sign), style)
        for marked, text in () if over is None else self._followers(report, over):
            row = touched.setdefault(marked.y, list(self._canvas.rows[marked.y]))
            end = marked.right - 2  # the corner is for the sign of a finding
            for i, character in enumerate(self._canvas.plain(text)):
                row[end - len(text) + i] = (character, "path")
        for y, cells in touched.items():
            rows[y] = _line(cells)
        self.show([rows[y] for y in range(self.drawing.height)])

    def _take_reading(self, report: Report) -> None:
        """Look at the loads of the lines, once for each reading."""
        snapshot, drawing = self._seen
        if report.snapshot is snapshot and self.drawing is drawing:
            return
        self._turn += snapshot is not None and snapshot is not report.snapshot
        self._seen = (report.snapshot, self.drawing)
        self._loads = loads(self.drawing, report.graph, report.snapshot.readings, self._loads)

    def _followers(self, report: Report, over: RankOrder) -> Iterator[tuple[Box, str]]:
        """Each GPU of a ring with the next one, of a tree with its parent, for its upper edge."""
        for node, other in over.marks():
            box = self.drawing.box(node)
            if box is None or not box.framed:
                continue  # the line that a box without a frame has is full
            name = label(report.graph, other).removeprefix("GPU") if other else "root"
            sign = "→" if over.algorithm is Laid.RING else "↑" if other else ""
            if len(sign + name) < box.width - 4:
                yield box, sign + name

    def select(self, box: Box, *, keep_column: bool = False) -> None:
        """Move the cursor to a box."""
        if not keep_column:
            self._column = centre(box)
        self._selected = box.id
        self.post_message(self.BoxPicked())
        self._reveal_selected()

    def go_to(self, device: str, peer: str | None = None) -> None:
        """Select a node before it is drawn; with a peer, mark it and select the peer."""
        self._selected = device if peer is None else peer
        self.first = None if peer is None else device

    def walk(self, direction: str) -> None:
        """Go to the next box: "up", "down", "left", "right", "next" or "previous"."""
        box = self.box
        if box is None:
            return
        if direction in ("next", "previous"):
            order = in_order(self.drawing)
            step = 1 if direction == "next" else -1
            self.select(order[(order.index(box) + step) % len(order)])
            return
        found = neighbour(self.drawing, box, direction, self._column)
        if found is not None:
            self.select(found, keep_column=direction in ("up", "down"))

    def mark(self) -> None:
        """Mark the selected node as the first of a pair; mark it again to take the mark away."""
        box = self.box
        if box is None or not box.members:
            return
        self.first = None if self.first == box.id else box.id
        self.post_message(self.BoxPicked())

    def unmark(self) -> bool:
        """Take the mark away; False when there is none."""
        if self.first is None:
            return False
        self.first = None
        self.post_message(self.BoxPicked())
        return True

    def _reveal_selected(self) -> None:
        box = self.box
        if box is None:
            return
        width, height = self.size
        x, y = self.scroll_offset
        if box.width <= width:
            x = max(min(x, box.x), box.right - width)
        y = max(min(y, box.y), box.bottom - height)
        if (x, y) != self.scroll_offset:
            self.scroll_to(x, y, animate=False)

    def on_click(self, event: events.Click) -> None:
        """Select what was clicked."""
        box = self.drawing.at(self.column_at(event.x), self.line_at(event.y))
        if box is None:
            return
        if box.id == self._selected:
            self.post_message(self.BoxPicked(twice=event.chain > 1))
        else:
            self.select(box)


def _lit(path: Path | None) -> tuple[frozenset[Edge], frozenset[Edge], frozenset[str]]:
    """Edges of a path, those of its narrowest wire, and its nodes."""
    if path is None:
        return frozenset(), frozenset(), frozenset()
    edges = frozenset(frozenset(edge) for edge in path.edges)
    narrow: frozenset[Edge] = frozenset()
    if path.bottleneck is not None and not has_one_rate(path):
        ends = set(path.nodes[path.bottleneck : path.bottleneck + 2])
        narrow = frozenset(edge for edge in edges if edge <= ends)
    return edges, narrow, frozenset(path.nodes)


def _line(cells: list[Cell]) -> Line:
    return tuple(span for text, style in runs(cells) for span in _spans(text, INKS.get(style, "")))


def _spans(text: str, ink: str) -> Line:
    """A run in its ink; a line stands under its words alone, not under the blanks around them."""
    words = text.strip()
    if "underline" not in ink or words == text:
        return ((text, ink),)
    before, _, after = text.partition(words) if words else (text, "", "")
    bare = ink.replace(" underline", "")
    return tuple(span for span in ((before, bare), (words, ink), (after, bare)) if span[0])


# Moves over a drawing: which box lies in a direction, and which comes next.
def neighbour(drawing: Drawing, box: Box, direction: str, column: int) -> Box | None:
    """The next box; None at the edge.

    `direction`: "up", "down", "left" or "right". `column`: the column of a walk up and down, so
    that it leaves a wide box where it entered.
    """
    others = [other for other in drawing.boxes if other.id != box.id]
    if direction in ("up", "down"):
        ahead = {
            other.id: box.y - other.bottom if direction == "up" else other.y - box.bottom
            for other in others
        }
        aside = {other.id: _ASIDE * _outside(column, other.x, other.right - 1) for other in others}
    else:
        ahead = {
            other.id: box.x - other.right if direction == "left" else other.x - box.right
            for other in others
        }
        aside = {
            other.id: _ACROSS * max(0, other.y - box.bottom + 1, box.y - other.bottom + 1)
            for other in others
        }
    found = [other for other in others if ahead[other.id] >= 0]
    return min(found, key=lambda o: (ahead[o.id] + aside[o.id], o.y, o.x), default=None)


def _outside(value: int, low: int, high: int) -> int:
    return max(low - value, value - high, 0)


def in_order(drawing: Drawing) -> list[Box]:
    """All boxes in the order of the Tab key: GPUs, NICs, then the rest, left to right.

    The parts of a package come row by row, as they were drawn.
    """
    gpus = [box for box in drawing.boxes if box.kind is BoxKind.GPU]
    rest = [box for box in drawing.boxes if box.kind is not BoxKind.GPU]
    return [*gpus, *sorted(rest, key=lambda box: (box.kind is not BoxKind.NIC, box.x, box.y))]


def centre(box: Box) -> int:
    """Its middle column."""
    return box.x + box.width // 2
