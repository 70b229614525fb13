"""Graph -> Drawing: what a person would sketch on a whiteboard.

Sockets side by side, below them NUMA nodes and PCIe switches as wide as what hangs from them,
so that every line runs straight down; GPUs in one row; below them what joins the GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import networkx as nx

from ..sketch import names as text
from ..wiring.packages import PREFIX, Package
from ..wiring.wires import WireKind
from .drawing import NIC_CELLS, TRAFFIC_CELLS, Box, BoxKind, Drawing, Edge, Label, Line, Slot
from .fabric import FabricLane, Plane, Spoke, edges_between, fabric, grid_lines, place_lanes
from .metrics import Block, Metrics, arrange, with_rows
from .packages import (
    Merged,
    PartGrid,
    cells,
    headings,
    merged,
    package_facts,
    package_names,
    part_boxes,
    plain_names,
    side_by_side,
)
from .tree import DRIVE, GPU, HOSTS, Item, forest

_FULL_ROWS = ((3, 3), (2, 3), (2, 2))
"""Rows of a wire to a device and texts in a GPU, roomiest first."""
_COMPACT_ROWS = ((2, 1), (1, 1))
_ROOMY = (BoxKind.GPU, BoxKind.PACKAGE)
_LINKS = (WireKind.NVLINK, WireKind.XGMI, WireKind.C2C)
_UPPER_ROWS = 2
"""Most rows of a wire between boxes that are no devices."""


def fitting(graph: nx.Graph[str], width: int, height: int) -> Drawing:
    """The full drawing where it fits, else the compact one.

    The compact one also where it can draw the grid of a mesh that the full one only describes.
    """
    full = layout(graph, width, height, compact=False)
    fits = full.width <= width and full.height <= height
    in_words = any(line.ends[1] == "mesh" for line in full.lines)
    if fits and not in_words:
        return full
    compact = layout(graph, width, height, compact=True)
    return full if fits and any(line.ends[1] == "mesh" for line in compact.lines) else compact


def layout(graph: nx.Graph[str], width: int, height: int, compact: bool) -> Drawing:
    """Draw a graph for a screen of this size; the drawing is larger when it cannot be smaller.

    `compact`: one line a box, no frames. Drives are left out where they would cost room that
    something else needs.
    """
    bare = _laid_out(graph, width, height, compact=compact, drives=False)
    if not any(data.get("kind") == DRIVE for _, data in graph.nodes(data=True)):
        return bare
    more = _laid_out(graph, width, height, compact=compact, drives=True)
    fits = more.width <= max(width, bare.width) and more.height <= max(height, bare.height)
    links = [{line.ends for line in one.lines if line.kind in _LINKS} for one in (bare, more)]
    sizes = [
        {(box.id, box.width, box.height) for box in one.boxes if box.kind in _ROOMY}
        for one in (bare, more)
    ]
    return more if fits and links[0] <= links[1] and sizes[0] == sizes[1] else bare


def _laid_out(
    graph: nx.Graph[str], width: int, height: int, *, compact: bool, drives: bool
) -> Drawing:
    whole = merged(graph)
    items = forest(whole.graph, drives=drives)
    block, metrics = arrange(items, width, framed=not compact)
    leaves = [leaf.id for item in items for leaf in item.walk() if leaf.kind == GPU]
    has_gpu = any(not leaf.startswith(PREFIX) for leaf in leaves)
    drawing = Drawing(0, 0, (), ())
    # Labels of narrow columns and of links that lack lanes need two rows, live figures a third.
    cramped = metrics.gpu_width < 16 or any(
        text.is_weak(edge.get("wire")) for edge in graph.edges.values()
    )
    full = _FULL_ROWS[0 if cramped else 1 :]
    rows = _COMPACT_ROWS if compact else full
    room = metrics.gpu_width - (2 * metrics.inset(metrics.gpu_width) if metrics.framed else 1)
    places = [cells(whole.parts, room, roomy=roomy) for roomy in (not compact, False)]
    heading = (2 if metrics.framed else 1) if whole.dies else 0
    tries = list(product(places if whole.parts else places[:1], rows))
    for grid in (height, 0):
        for place, (wire_rows, gpu_lines) in tries:
            lines = gpu_lines if has_gpu else min(gpu_lines, 2)
            sized = with_rows(metrics, wire_rows, lines, place.rows * bool(whole.parts), heading)
            made = _Layout(graph, whole, block, sized, place)
            drawing = made.draw(width, grid=grid)
            if drawing.height <= height:
                break
        if drawing.height <= height or not made.has_grid:
            break
    drawing = whole.expanded(drawing)
    return drawing.moved(max(0, width - drawing.width) // 2, max(0, height - drawing.height) // 3)


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
        self.boxes.append(Box(plane.id, (), BoxKind.MESH, x, y, width, height, words))
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
        kind = BoxKind.PLANE if plane.members else BoxKind.MESH
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


class _Layout:
    def __init__(
        self, graph: nx.Graph[str], whole: Merged, block: Block, metrics: Metrics, place: PartGrid
    ) -> None:
        """`graph`: as it was read; `whole`: with packages in place of parts, as it is drawn."""
        self.real, self.whole, self.graph = graph, whole, whole.graph
        self.block, self.metrics, self.place = block, metrics, place
        self.leaves: list[Box] = []
        """GPUs, packages of parts, and NICs in columns."""
        columns = [(b.item.id if b.item else "") for b, _, _ in block.walk() if b.is_column]
        self.dies = side_by_side(whole.dies, columns) if metrics.heading else ()
        self.headed = {node for package in self.dies for node in package.members}
        self.boxes: list[Box] = []
        self.lines: list[Line] = []
        self.box_of: dict[int, Box] = {}
        """id() of a block -> its box."""
        self.has_grid = False

    def draw(self, width: int, *, grid: int) -> Drawing:
        levels, leaf_y = self._rows()
        for block, parent, depth in self.block.walk():
            above = self.box_of.get(id(parent))
            if block.item is not None and block.is_device:
                self._device(block, block.item, above, leaf_y)
            elif block.item is not None:
                self._inner(block, block.item, above, levels[depth])
            for i, nic in enumerate(block.rail):
                self._railed(block, nic, above, (above.bottom if above else 0) + i)
        self._between_sockets()
        self.boxes += headings(self.real, self.dies, self.leaves, self.metrics.heading)
        gpus = [box for box in self.leaves if box.kind is not BoxKind.NIC]
        gpus.sort(key=lambda box: box.x)
        below = Below(self.graph, gpus, self.metrics, max(width, self.block.width), grid=grid)
        below.draw()
        self.has_grid = below.has_grid
        boxes, lines = (*self.boxes, *below.boxes), (*self.lines, *below.lines)
        points = [point for line in lines for point in line.points]
        right = max([*(box.right for box in boxes), *(x + 1 for x, _ in points)], default=0)
        bottom = max([*(box.base for box in boxes), *(y + 1 for _, y in points)], default=0)
        return Drawing(right, bottom, boxes, lines)

    def _rows(self) -> tuple[list[int], int]:
        """First row of every level of boxes, and of the GPUs."""
        m = self.metrics
        walk = [(b, p, d) for b, p, d in self.block.walk() if d >= 0]
        depth = max((d for b, _, d in walk if not b.is_column), default=-1)
        levels, y = [], 0
        for level in range(depth + 1):
            levels.append(y)
            below = [b for b, _, d in walk if d == level + 1 and not b.is_column]
            kinds = {getattr(b.item.wire, "kind", "") for b in below if b.item}
            bare = below and "pcie" not in kinds
            rail = max((len(b.rail) for b in below), default=0)
            y += m.box_height + rail + (1 if bare else min(m.wire_rows, _UPPER_ROWS))
        leaf_y = y
        for block, _, d in walk:
            if block.is_column:
                top = levels[d - 1] + m.box_height if d else 0
                rail = len(block.rail) + (m.wire_rows if block.is_device else 0)
                leaf_y = max(leaf_y, top + rail if block.rail else top + m.wire_rows * bool(d))
        return levels, leaf_y + m.heading

    def _inner(self, block: Block, item: Item, above: Box | None, y: int) -> None:
        m = self.metrics
        room = block.width - (4 if m.framed else 2)
        if item.kind in HOSTS:
            kind, names = BoxKind.HOST, text.host_names(self.graph, item.members)
        else:
            kind, names = BoxKind.BRIDGE, text.bridge_names(item.kind, item.id)
        line = text.fit(names, max(room, 2))
        box = Box(item.id, item.members, kind, block.x, y, block.width, m.box_height, (line,))
        self.boxes.append(box)
        self.box_of[id(block)] = box
        if above is not None:
            self._drop(above, box, item)

    def _device(self, block: Block, item: Item, above: Box | None, y: int) -> None:
        package = self.graph.nodes[item.id].get("package")
        box = self._leaf(block, item, y) if package is None else self._package(block, package, y)
        self.leaves.append(box)
        self.boxes.append(box)
        if package is not None:
            inset = self.metrics.inset(box.width)
            self.boxes += part_boxes(self.real, package, self.place, box.x + inset, box.bottom)
        if above is not None:
            self._drop(above, box, item)

    def _package(self, block: Block, package: Package, y: int) -> Box:
        """The box of a package; its parts stand in the rows that it takes in."""
        m = self.metrics
        if m.framed:
            texts = [plain_names(self.real, package), package_facts(self.real, package)]
        else:
            texts = [package_names(self.real, package)]
        room = block.width - 2 * m.inset(block.width)
        lines = tuple(text.fit(words, room) for words in texts)
        height = len(lines) + m.framed
        return Box(
            package.id, (), BoxKind.PACKAGE, block.x, y, block.width, height, lines,
            frame=m.gpu_height - height,
        )  # fmt: skip

    def _leaf(self, block: Block, item: Item, y: int) -> Box:
        m = self.metrics
        data = self.graph.nodes[item.id]
        label, record = str(data.get("label") or item.id), data.get("record")
        room = block.width - (4 if m.framed and block.width > 9 else 2 if m.framed else 0)
        if item.kind == GPU:
            where = text.short_address(item.id)
            if label == item.id:  # No driver gives it a number.
                names_of: tuple[str, ...] = (where,)
            else:
                names_of = (f"{label}  {where}", label, where) if m.framed else (label,)
            first = text.fit(names_of, room)
            lines: tuple[str, ...] = (first,)
            if m.gpu_lines > 2:
                # Two dies have the model over them, in the heading of their package.
                headed = item.id in self.headed and where not in first
                lines = (first, text.fit((where,) if headed else text.gpu_model(record), room))
        else:
            names = text.nic_names(label)  # a drive is on a line, never here
            first = text.fit_tail(names[0], room)
            lines = (first, text.fit(text.nic_rate(record), room))
            if m.gpu_lines > 2 and names[1:]:
                lines = (first, text.fit_tail(names[1], room), lines[1])
        height = m.gpu_height if m.framed else 1
        box = Box(item.id, item.members, BoxKind(item.kind), block.x, y, block.width, height, lines)
        if item.kind != GPU:
            return box
        inset = (block.width - room) // 2
        if m.framed:
            live = Slot(box.x + inset, y + m.gpu_lines, room)
        else:
            live = Slot(box.x + len(lines[0]) + 1, y, block.width - len(lines[0]) - 1)
        return replace(box, live=live)

    def _railed(self, block: Block, nic: Item, above: Box | None, y: int) -> None:
        m = self.metrics
        data = self.graph.nodes[nic.id]
        rail = block.x + m.port
        x = rail + 2
        end = block.x + block.width
        # A name may reach over the gap to the line of the next column; behind the last is none.
        room, wide = end - x, end - x + m.port * (end < self.block.x + self.block.width)
        kind = BoxKind(nic.kind)
        if kind is BoxKind.DRIVE:
            labels_of = [str(self.graph.nodes[one].get("label")) for one in nic.members]
            name = text.fit(text.drive_names(labels_of), wide)
        else:
            name = text.fit_tail(text.nic_names(str(data.get("label") or nic.id))[0], wide)
        self.boxes.append(Box(nic.id, nic.members, kind, x, y, len(name), 1, (name,)))
        if above is None:
            return
        ways = [row for way in text.pcie_labels(nic.wire) if len(way) == 1 for row in way]
        left = room - len(name) - 1
        label = next((way for way in ways if len(way) <= left), "")
        weak = text.is_weak(nic.wire)
        label = ("!" if left > 0 else "") if weak and "!" not in label else label
        labels = (Label(x + len(name) + 1, y, label, weak),) if label else ()
        free = wide - len(name) - 1
        moves = kind is BoxKind.NIC and free >= NIC_CELLS
        live = Slot(x + len(name) + 1, y, free) if moves else None
        points = ((rail, above.bottom - 1), (rail, y), (x, y))
        self.lines.append(
            Line((above.id, nic.id), points, WireKind.PCIE, nic.edges, labels, live, weak)
        )

    def _drop(self, above: Box, box: Box, item: Item) -> None:
        """The line from a box straight down to another, or to the heading over that."""
        m = self.metrics
        x, foot = box.x + m.port, box.y - (m.heading if box.id in self.headed else 0)
        coherent = self._coherent(above, item)
        kind = getattr(item.wire, "kind", None)
        labels: tuple[Label, ...] = ()
        live = None
        weak = text.is_weak(item.wire)
        if kind is WireKind.PCIE:
            height = m.wire_rows if item.is_leaf else min(m.wire_rows, _UPPER_ROWS)
            top, room = foot - height, box.right - x - 2 - 2 * bool(coherent)
            rows = text.fit_rows(text.pcie_labels(item.wire), room, height)
            labels = tuple(Label(x + 2, top + i, row, weak) for i, row in enumerate(rows))
            # The gap to the next box is free; behind the last there is none.
            wide = room + (box.right < self.block.x + self.block.width)
            if item.kind in (GPU, BoxKind.NIC) and len(rows) < height and wide >= TRAFFIC_CELLS:
                live = None if coherent else Slot(x + 2, top + len(rows), wide)
        points = ((x, above.bottom - 1), (x, foot))
        ends = (above.id, box.id)
        self.lines.append(
            Line(ends, points, kind or WireKind.SOCKET, item.edges, labels, live, weak)
        )
        if coherent:
            self._second(above, box, coherent)

    def _coherent(self, above: Box, item: Item) -> dict[frozenset[str], Any]:
        """C2C edges from a GPU to the box above it."""
        wires = {
            frozenset((item.id, m)): self.graph.edges[item.id, m].get("wire")
            for m in above.members
            if self.graph.has_edge(item.id, m)
        }
        return {
            edge: wire for edge, wire in wires.items() if getattr(wire, "kind", "") == WireKind.C2C
        }

    def _second(self, above: Box, box: Box, coherent: dict[frozenset[str], Any]) -> None:
        x = box.right - (3 if self.metrics.framed else 2)
        rate = next(iter(coherent.values())).payload_gbs
        words = "C2C" if rate is None else f"C2C {text.short(rate)}"
        labels: tuple[Label, ...] = ()
        if self.metrics.wire_rows > 2 and box.width >= len(words) + 8:
            labels = (Label(x - 1 - len(words), box.y - 1, words),)
        points = ((x, above.bottom - 1), (x, box.y))
        self.lines.append(
            Line((above.id, box.id), points, WireKind.C2C, frozenset(coherent), labels)
        )

    def _between_sockets(self) -> None:
        """A line from each host box to its neighbour, for all edges that cross the gap."""
        tops = [self.box_of[id(b)] for b in self.block.blocks if id(b) in self.box_of]
        hosts = [box for box in tops if box.kind is BoxKind.HOST]
        members = [host.members for host in hosts]
        edges: frozenset[Edge] = frozenset()
        for i, (left, right) in enumerate(pairwise(hosts)):
            edges -= edges_between(self.graph, left.members, members[:i])
            edges |= edges_between(self.graph, left.members, members[i + 1 :])
            if edges and tops.index(right) == tops.index(left) + 1:
                y = left.y + left.height // 2
                points = ((left.right - 1, y), (right.x, y))
                self.lines.append(Line((left.id, right.id), points, WireKind.SOCKET, edges))
