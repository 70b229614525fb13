"""The lower part of the drawing: what joins the GPUs besides PCIe."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx

from gputop.widgets import wiring_text as text
from gputop.widgets.wiring_drawing import TRAFFIC_CELLS, Box, Label, Line, Slot
from gputop.widgets.wiring_fabric import Lane, Plane, fabric, place_lanes
from gputop.widgets.wiring_metrics import Metrics


class Below:
    """Boxes and lines below a row of GPUs."""

    def __init__(
        self, graph: nx.Graph[str], gpus: Sequence[Box], metrics: Metrics, width: int
    ) -> None:
        self.graph, self.metrics, self.width = graph, metrics, width
        self.gpus = {box.id: box for box in gpus}
        self.boxes: list[Box] = []
        self.lines: list[Line] = []
        self.y = max((box.bottom for box in gpus), default=0)

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
            if self.gpus:
                self._plane(plane)

    def _ports(self, gpu: str, count: int) -> list[int]:
        box = self.gpus[gpu]
        inset = 1 if self.metrics.framed else 0
        room = box.width - 2 * inset
        return [box.x + inset + (2 * i + 1) * room // (2 * count) for i in range(count)]

    def _lane(self, lane: Lane, lanes: Sequence[Lane]) -> Line:
        a, b, y = self.gpus[lane.a], self.gpus[lane.b], self.y + lane.row
        points = ((lane.a_x, a.bottom - 1), (lane.a_x, y), (lane.b_x, y), (lane.b_x, b.bottom - 1))
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
            ways = text.link_labels(spoke.kind, spoke.count, spoke.count_max, spoke.payload_gbs)
            rows = text.fit_rows(ways, room, m.wire_rows)
            top = y - m.wire_rows
            labels = tuple(Label(port + 2, top + i, row, spoke.weak) for i, row in enumerate(rows))
            free = len(rows) < m.wire_rows and room >= TRAFFIC_CELLS
            live = Slot(port + 2, top + len(rows), room) if free else None
            points = ((port, gpu.bottom - 1), (port, y))
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
