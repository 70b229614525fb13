"""The lower part of the drawing: what joins the GPUs besides PCIe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import networkx as nx

from ..sketch import names as text
from ..wiring.wires import WireKind
from .drawing import TRAFFIC_CELLS, Box, Edge, Label, Line, Slot
from .fabric import FabricLane, Plane, Spoke, fabric, place_lanes
from .metrics import Metrics
from .names import is_weak

KNOT, MISSING = "●", "×"


class Below:
    """Boxes and lines below a row of GPUs."""

    def __init__(
        self, graph: nx.Graph[str], gpus: Sequence[Box], metrics: Metrics, width: int, *, grid: int
    ) -> None:
        """`grid`: a mesh too dense for lanes is drawn as a grid of so many rows at most.

        One that needs more of them is described in words.
        """
        self.graph, self.metrics, self.width, self.grid = graph, metrics, width, grid
        self.gpus = {box.id: box for box in gpus}
        self.has_grid = False
        """Whether a mesh was drawn as a grid."""
        self.boxes: list[Box] = []
        self.lines: list[Line] = []
        self.y = max((box.base for box in gpus), default=0)

    def draw(self) -> None:
        """Fill `boxes` and `lines`."""
        room = min((box.width for box in self.gpus.values()), default=2)
        found = fabric(self.graph, list(self.gpus), room - 2 if self.metrics.framed else room)
        if found.lanes:
            ports = {g: self._ports(g, found.ports(g)) for g in self.gpus if found.ports(g)}
            rows = place_lanes(found.lanes, ports)
            self.lines += [self._lane(lane, found.lanes) for lane in found.lanes]
            self.y += rows
        for plane in found.planes:
            ends = set[str]() if plane.members else {x for d in found.dense for x in (d.a, d.b)}
            if ends and len(ends) - 1 <= self.grid:
                self._grid(plane, found.dense, ends)
            elif self.gpus:
                self._plane(plane)

    def _ports(self, gpu: str, count: int) -> list[int]:
        box = self.gpus[gpu]
        inset = 1 if self.metrics.framed else 0
        room = box.width - 2 * inset
        return [box.x + inset + (2 * i + 1) * room // (2 * count) for i in range(count)]

    def _lane(self, lane: FabricLane, lanes: Sequence[FabricLane]) -> Line:
        a, b, y = self.gpus[lane.a], self.gpus[lane.b], self.y + lane.row
        points = ((lane.a_x, a.base - 1), (lane.a_x, y), (lane.b_x, y), (lane.b_x, b.base - 1))
        wire = lane.wire
        low, high = sorted((lane.a_x, lane.b_x))
        crossed = {x for other in lanes if other.row > lane.row for x in (other.a_x, other.b_x)}
        ways = text.link_labels(wire.kind, wire.count, wire.count_max, wire.payload_gbs)
        words = [f" {way[0]} " for way in ways if len(way) == 1]
        words += [word.strip() for word in words[1:]]
        weak = text.is_weak(wire)
        labels: tuple[Label, ...] = ()
        for word in words:
            x = _free(low + 1, high, crossed, len(word))
            if x is not None:
                labels = (Label(x, y, word, weak),)
                break
        edges = frozenset([frozenset((lane.a, lane.b))])
        return Line((lane.a, lane.b), points, wire.kind, edges, labels, None, weak)

    def _grid(self, plane: Plane, lanes: list[FabricLane], ends: set[str]) -> None:
        """Draw a knot for every pair, the sum of each GPU beside its trunk, and the words below."""
        m = self.metrics
        self.has_grid = True
        boxes = {gpu: box for gpu, box in self.gpus.items() if gpu in ends}
        trunks = {gpu: box.x + m.port for gpu, box in boxes.items()}
        for spoke in plane.spokes:
            box, x = boxes[spoke.gpu], trunks[spoke.gpu]
            labels, live = self._beside(spoke, x, box.base, box.right - x - 2)
            end = (x, box.base - 1)
            self.lines.append(
                Line((spoke.gpu, spoke.gpu), (end, end), spoke.kind, spoke.edges, labels, live)
            )
        top = self.y + m.wire_rows
        self.lines += grid_lines(lanes, boxes, trunks, top)
        last = top + len(boxes) - 2
        y, width, more = self._corner(plane, boxes, list(trunks.values()), top)
        x = min(box.x for box in boxes.values())
        text_width = width - (4 if m.framed else 2)
        words = (text.fit(plane.texts, text_width), *(plane.more[:more] if more else ()))
        words = tuple(word for word in words if len(word) <= text_width)
        height = m.box_height + len(words) - 1
        self.boxes.append(Box(plane.id, (), "mesh", x, y, width, height, words))
        self.y = max(last + 1, y + height)

    def _corner(
        self, plane: Plane, boxes: dict[str, Box], columns: list[int], top: int
    ) -> tuple[int, int, int]:
        """Row and width of the box, and the rows of further words in it.

        In the free corner below the first rows of the grid where that is wide enough, else below.
        """
        m = self.metrics
        edge = 4 if m.framed else 2
        x, right = min(box.x for box in boxes.values()), max(box.right for box in boxes.values())
        last = top + len(boxes) - 2
        for more in range(m.framed, -1, -1):
            y = last + 1 - m.box_height - more
            width = columns[y - top] - 2 - x if y > top else 0
            if len(plane.texts[0]) <= width - edge:
                return y, width, more
        return last + 1, max(right - x, 14), 0

    def _beside(
        self, spoke: Spoke, x: int, top: int, room: int
    ) -> tuple[tuple[Label, ...], Slot | None]:
        """Labels beside a GPU's line down from a row, and the slot for its traffic."""
        rows_free = self.metrics.wire_rows
        ways = text.link_labels(spoke.kind, spoke.count, spoke.count_max, spoke.payload_gbs)
        rows = text.fit_rows(ways, room, rows_free)
        labels = tuple(Label(x + 2, top + i, row, spoke.weak) for i, row in enumerate(rows))
        free = len(rows) < rows_free and room >= TRAFFIC_CELLS
        return labels, Slot(x + 2, top + len(rows), room) if free else None

    def _plane(self, plane: Plane) -> None:
        m = self.metrics
        boxes = list(self.gpus.values())
        x, right = min(box.x for box in boxes), max(box.right for box in boxes)
        wanted = len(plane.texts[0]) + (4 if m.framed else 2)
        width = max(right - x, min(wanted, self.width - x), 14 if m.framed else 8)
        y = self.y + m.wire_rows * bool(plane.spokes)
        kind = "plane" if plane.members else "mesh"
        line = text.fit(plane.texts, width - (4 if m.framed else 2))
        box = Box(plane.id, plane.members, kind, x, y, width, m.box_height, (line,))
        for spoke in plane.spokes:
            gpu = self.gpus[spoke.gpu]
            port = gpu.x + m.port
            # The gap to the next GPU is free too; behind the last one there is none.
            room = gpu.right - port - 2 + (gpu.right < right and not m.framed)
            labels, live = self._beside(spoke, port, y - m.wire_rows, room)
            points = ((port, gpu.base - 1), (port, y))
            ends = (spoke.gpu, plane.id)
            self.lines.append(Line(ends, points, spoke.kind, spoke.edges, labels, live, spoke.weak))
        self.boxes.append(box)
        self.y = box.bottom


def _free(low: int, high: int, crossed: set[int], width: int) -> int | None:
    """Where a text of a width fits on a lane, nearest to its middle, clear of crossing lines."""
    starts = [
        x for x in range(low, high - width + 1) if not any(x <= c < x + width for c in crossed)
    ]
    middle = (low + high - width) / 2
    return min(starts, key=lambda x: abs(x - middle), default=None)


# A mesh too dense for lanes, drawn as a grid with a knot for every pair of GPUs.
#
# A trunk runs down from each GPU, and a row to the right from each trunk; where the row of one GPU
# meets the trunk of another there is a knot if a wire joins the two, and a cross if none does.
def grid_lines(
    lanes: Sequence[FabricLane], gpus: Mapping[str, Box], trunks: Mapping[str, int], y: int
) -> list[Line]:
    """A line for every wire of the mesh.

    `gpus`: boxes from left to right; `trunks`: the column of each GPU's trunk; `y`: the first row.
    """
    rows = {gpu: y + place for place, gpu in enumerate(gpus)}
    usual = Counter(lane.wire.count for lane in lanes).most_common(1)[0][0]
    lines = []
    joined: set[Edge] = set()
    for lane in lanes:
        row = rows[lane.a]
        a_x, b_x = trunks[lane.a], trunks[lane.b]
        edge = frozenset((lane.a, lane.b))
        joined.add(edge)
        count = lane.wire.count
        # A bundle of another size shows its number of links.
        knot = KNOT if count == usual or count is None or count > 9 else str(count)
        weak = is_weak(lane.wire)
        lines.append(
            Line(
                (lane.a, lane.b),
                (
                    (a_x, gpus[lane.a].base - 1),
                    (a_x, row),
                    (b_x, row),
                    (b_x, gpus[lane.b].base - 1),
                ),
                lane.wire.kind,
                frozenset([edge]),
                (Label(b_x, row, knot, weak),),
                None,
                weak,
            )
        )
    return [*lines, *_crosses(lanes[0].wire.kind, gpus, trunks, joined, y)]


def _crosses(
    kind: WireKind, gpus: Mapping[str, Box], trunks: Mapping[str, int], joined: set[Edge], y: int
) -> list[Line]:
    """Signs where no wire joins two GPUs of the mesh; such a line has no length."""
    order = list(gpus)
    found = []
    for i, a in enumerate(order):
        signs = tuple(
            Label(trunks[b], y + i, MISSING, True)
            for b in order[i + 1 :]
            if frozenset((a, b)) not in joined
        )
        if signs:
            end = (trunks[a], gpus[a].base - 1)
            found.append(Line((a, a), (end, end), kind, frozenset(), signs))
    return found
