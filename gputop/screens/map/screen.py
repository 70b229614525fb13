"""The screen Map: the drawn node, and what is selected in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import is_not
from typing import TYPE_CHECKING

from textual.widget import Widget

from gputop.screens.map import marks as wiring_marks
from gputop.screens.map import xgmi as wiring_xgmi
from gputop.screens.map.diagram import WiringDiagram
from gputop.screens.map.facts import DOT, fact_lines
from gputop.screens.map.info import about, ends_text, shortened
from gputop.screens.map.links import links
from gputop.screens.map.measured import MeasuredLines
from gputop.screens.map.narrowest import head_lines, table
from gputop.screens.map.rings import order_line
from gputop.screens.view import View
from gputop.topology.explain import why as reasons
from gputop.topology.explain.rank_orders import rank_orders
from gputop.topology.sketch.drawing import BoxKind
from gputop.widgets.board import Board
from gputop.widgets.key import Key, note
from gputop.widgets.spans import Line, cut, text_of, width_of, wrapped

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.live.selection import PickedDevices
    from gputop.screens.map.links import MapLink
    from gputop.topology.explain.rank_orders import RankOrder
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report
    from gputop.topology.sketch.drawing import Drawing
    from gputop.topology.wiring.graph import Graph


# The last line under the map: what the words and figures on its lines mean.
HINT: Line = (
    DOT,
    ("Space", "key bold @screen.mark"),
    (" marks a device, select another to see the way", "muted"),
)
_BUNDLE = re.compile(r"\b(NV|xGMI )(\d+)\b")
_LINKS = {"NV": "NVLink", "xGMI ": "link"}


LOADS = ("grey = idle", "thick = 60 % or more")


def legend(drawing: Drawing, width: int, *, loaded: bool) -> Line:
    """What the words and figures on the lines mean, each by an example that is drawn here."""
    labels = [label.text for line in drawing.lines for label in line.labels]
    most: dict[str, int] = {}
    for found in filter(None, map(_BUNDLE.search, labels)):
        most[found[1]] = max(most.get(found[1], 0), int(found[2]))
    words = ["  lines: GB/s payload, one way"]
    words += [
        f"{kind}{count} = {count} {_LINKS[kind]}{'s' * (count != 1)}"
        for kind, count in sorted(most.items(), reverse=True)
    ]
    words.append("! = fewer than possible")
    if loaded and len(" · ".join((*words, *LOADS))) <= width:
        words += LOADS
    spans: list[tuple[str, str]] = []
    for word in words:
        spans += [DOT] if spans else []
        spans.append((word, "muted"))
    return tuple(spans)


class MapScreen(View):
    """The drawing of the node above the lines about the selection."""

    TITLE = "Map"
    CSS = """
    #map-head { height: 2; }
    #wiring { height: 1fr; width: 1fr; }
    #narrow { height: auto; width: 1fr; padding: 0 0 1 0; overflow: hidden; }
    #chosen { height: 3; width: 1fr; overflow: hidden; }
    MapScreen.-narrow #chosen { height: 4; }
    MapScreen.-narrow.-tight #chosen { height: 3; }
    """
    KEYS = (
        Key("up,k", "walk('up')", help="move from device to device", written="↑ ↓ ← →"),
        Key("down,j", "walk('down')"),
        Key("left,h", "walk('left')"),
        Key("right,l", "walk('right')"),
        Key("tab", "walk('next')", help="next GPU or NIC, previous one", written="Tab Shift+Tab"),
        Key("shift+tab", "walk('previous')"),
        Key(
            "space",
            "mark",
            "mark",
            "mark a device; select another to see the path",
        ),
        Key(
            "r",
            "lay_over",
            "rings",
            "lay {library}'s NVLS, rings and trees over the map",
            command="Rings and trees",
            about="Laid over the map",
        ),
        Key("z", "zoom", "zoom", "draw larger or smaller; again: as it fits"),
        Key(
            "pageup",
            "scroll_map(0, -10)",
            help="scroll a drawing that does not fit",
            written="PgUp PgDn Home End",
        ),
        Key("pagedown", "scroll_map(0, 10)"),
        Key("home", "scroll_map(-20, 0)"),
        Key("end", "scroll_map(20, 0)"),
        note("on the devices", "✗ broken, ▼ slow, ? cannot tell: a finding is about it"),
        note("numbers in a box", "parts of one package, such as CPX: they share its links"),
        note("on the lines", "↑ traffic out of the GPU, ↓ into it; ▲ the bottleneck"),
    )
    LINE = ("w", "Space", "r", "z", "p")

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)
        self._place = 0
        """Which overlay is shown, from 1; 0 for none."""
        self._known: tuple[Graph, list[MapLink]] | None = None
        self._laid: tuple[tuple[object, object], list[RankOrder]] | None = None
        """A graph and its links."""
        self._drawn_for: tuple[object, ...] = ()
        """What the room of the table was worked out for."""
        self._left = 0
        """Rows that the drawing leaves, where it has all rows to itself."""
        self._table_rows = 0

    def body(self) -> Iterable[Widget]:
        """The answer, the drawing, the narrowest links, and lines about what is selected."""
        yield Board(id="map-head")
        yield WiringDiagram(id="wiring")
        yield Board(id="narrow")
        yield Board(id="chosen")

    @property
    def wiring(self) -> WiringDiagram:
        """The drawing."""
        return self.query_one("#wiring", WiringDiagram)

    def draw(self, report: Report) -> None:
        """Update the drawing and the lines below it."""
        wiring = self.wiring
        wiring.shown = self.shown
        laid = self._overlays(report) if self._place else []
        self._place = self._place if self._place <= len(laid) else 0
        wiring.overlay = laid[self._place - 1] if self._place else None
        narrow = self.query_one("#narrow", Board)
        size = wiring.outer_size
        rows = size.height + narrow.outer_size.height * narrow.display
        # The table takes what the drawing leaves, and the drawing is set in what the table leaves:
        # the first of the two is worked out once, or each would go on asking for the other.
        key = (report.graph, size.width, rows, wiring.compact)
        if key != self._drawn_for:
            self._drawn_for, self._table_rows = key, 0
            wiring.show_report(report, rows)
            self._left = rows - wiring.drawing.height
            self._give_a_row()
        wiring.show_report(report, rows - self._table_rows)
        self._draw_head(report)
        self._draw_narrow(report, narrow)
        if self._table_rows != (len(narrow.lines) + 1) * narrow.display:
            self._table_rows = (len(narrow.lines) + 1) * narrow.display
            wiring.show_report(report, rows - self._table_rows)
        self._draw_chosen(report)

    def _give_a_row(self) -> None:
        """Let the drawing have a row of the lines below it, where it lacks just that one."""
        narrow = self.has_class("-narrow")
        tight = narrow and self._left - self.has_class("-tight") == -1
        if tight != self.has_class("-tight"):
            self.set_class(tight, "-tight")
            self.call_after_refresh(self.redraw)

    def _draw_head(self, report: Report) -> None:
        head, over = self.query_one("#map-head", Board), self.wiring.overlay
        width = max(self.app.size.width - 1, 20)

        def draw() -> None:
            lines = head_lines(report, self._links(report), width)
            if over is not None:
                lines = (cut(order_line(over, report.graph), width), lines[0])
            head.show(lines)

        head.draw_once(draw, report.graph, over, width)

    def _draw_narrow(self, report: Report, board: Board) -> None:
        """The table stands where the drawing leaves room."""
        box = self.wiring.box
        measured = MeasuredLines(report, None if box is None else box.id)
        found = self._links(report)
        lines = table(report, found, measured, max(self.app.size.width - 2, 20), self._left - 2)
        board.display = bool(lines)
        board.show(lines)

    def _links(self, report: Report) -> list[MapLink]:
        """The links of the node, looked for once for a graph."""
        if self._known is None or self._known[0] is not report.graph:
            self._known = (report.graph, links(report))
        return self._known[1]

    def _overlays(self, report: Report) -> list[RankOrder]:
        """What can be laid over the drawing, looked for once for a prediction."""
        key = (report.graph, report.prediction)
        if self._laid is None or any(map(is_not, self._laid[0], key)):
            self._laid = (key, rank_orders(report.node))
        return self._laid[1]

    def _draw_chosen(self, report: Report) -> None:
        box, pair, board = self.wiring.box, self.wiring.pair, self.query_one("#chosen", Board)
        width = max(self.app.size.width - 1, 20)
        if pair is not None:
            lines = ends_text(report, self.wiring.drawing, self.wiring.path, *pair)
        elif box is not None:
            lines = about(report, box)
            lines = ((*lines[0], *wiring_marks.about(self.wiring.shown, *box.members)), *lines[1:])
        else:
            board.show(((("  nothing to draw yet", "muted"),),))
            return
        last_row = legend(self.wiring.drawing, width, loaded=self.wiring.loaded)
        last_row = (*last_row, *HINT) if width_of((*last_row, *HINT)) <= width else last_row
        if report.snapshot.measurements:
            box_id = box.id if box is not None and box.kind is BoxKind.GPU else None
            last_row = MeasuredLines(report, box_id).legend or last_row
        room = board.size.height or 3
        rows = _rows(lines, width, room - 1)
        # A fact that does not fit is left out as a whole, because half a figure is wrong.
        while len(rows) > room - 1 and (last := shortened(lines[-1])) != lines[-1]:
            lines = (*lines[:-1], last)
            rows = _rows(lines, width, room - 1)
        board.show((*rows[: room - 1], last_row))

    def on_wiring_diagram_box_picked(self, message: WiringDiagram.BoxPicked) -> None:
        """Follow the cursor."""
        box, pair = self.wiring.box, self.wiring.pair
        if pair is not None:
            self.gputop.selected.pick(*pair)
        elif box is not None and box.members:
            self.gputop.selected.pick(box.id)
        self.redraw()
        if message.twice:
            self.gputop.action_why()

    def take_selection(self, selected: PickedDevices) -> None:
        """Select what was picked elsewhere; of a pair the first is marked."""
        if selected.device is not None:
            self.wiring.go_to(selected.device, selected.peer)

    def action_walk(self, direction: str) -> None:
        """Move the cursor."""
        self.wiring.walk(direction)

    def action_mark(self) -> None:
        """Mark the selected device, or take its mark away."""
        self.wiring.mark()

    def action_lay_over(self) -> None:
        """Lay the next ring or tree over the drawing; behind the last one there is none."""
        report = self.report
        found = [] if report is None else self._overlays(report)
        if not found:
            self.gputop.say("no ring or tree is predicted for this node")
        self._place = (self._place + 1) % (len(found) + 1)
        self.redraw()

    def action_zoom(self) -> None:
        """Switch between framed boxes and boxes of one line; the second time choose what fits."""
        wiring = self.wiring
        framed = any(box.framed for box in wiring.drawing.boxes)
        wiring.compact = framed if wiring.compact is None else None
        self.redraw()

    def action_scroll_map(self, columns: int, lines: int) -> None:
        """Scroll the drawing."""
        self.wiring.scroll_relative(columns, lines, animate=False)

    def back(self) -> bool:
        """Take the mark away, else the ring or tree."""
        if self.wiring.unmark():
            return True
        was, self._place = self._place, 0
        self.redraw()
        return was > 0

    def selected_text(self) -> str:
        """The lines about what is selected, without the legend."""
        board = self.query_one("#chosen", Board)
        return "\n".join(text_of(line).strip() for line in board.lines[:-1])

    def why(self) -> Page | None:
        """Explain the selected device, the pair, or what joins the parts of a package."""
        report, box = self.report, self.wiring.box
        if report is None or box is None:
            return None
        package = wiring_xgmi.package_of(report.graph, box.id) if not box.members else None
        if package is not None and len(package.members) > 1:
            parts = package.members
            return self.with_findings(reasons.why_pair(report.node, *parts[:2]), *parts)
        if not box.members:
            return None
        pair = self.wiring.pair
        if pair:
            return self.with_findings(reasons.why_pair(report.node, *pair), *pair)
        return self.with_findings(reasons.why_device(report.node, box.id), *box.members)

    def probe_targets(self) -> tuple[str, ...]:
        """The GPUs of a pair; else () for all, as one GPU alone has nothing to measure."""
        pair, report = self.wiring.pair, self.report
        if pair is None or report is None:
            return ()
        found = [report.snapshot.machine.gpu(node) for node in pair]
        return tuple(gpu.address for gpu in found if gpu is not None) if all(found) else ()


def _rows(lines: Iterable[Line], width: int, room: int) -> list[Line]:
    """Lines that break between facts, or at any blank where so many rows take no more."""
    rows = [row for line in lines for row in fact_lines(line, width)]
    if len(rows) > room:
        rows = [row for line in lines for row in wrapped(line, width, 2)]
    return rows


SCREEN = MapScreen
