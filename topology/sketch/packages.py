"""Packages in the drawing: parts that share all wires become one box, two dies get one heading.

Partitions have nothing of their own to draw: their package is drawn in place of them, with its
PCIe link and its wires to other packages, and the parts are small boxes inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import networkx as nx

from ..hardware.specs import sku_for
from ..wiring.packages import Package, packages
from .drawing import Box, BoxKind, Drawing, Edge, Slot
from .names import fit, gpu_model, is_weak, short_address

_ROOMY = 6
"""Place of a part with its number, its utilisation and a gap: "0 100 "."""
_MOST_ROWS = 4


@dataclass(frozen=True, slots=True)
class Merged:
    """A graph with packages in place of their parts."""

    graph: nx.Graph[str]
    """A node of a package has kind "gpu" and its Package as `package`."""
    real: dict[Edge, frozenset[Edge]]
    """Edge to a package -> the edges that it stands for."""
    dies: tuple[Package, ...]
    """Packages whose two dies stay GPUs of their own."""
    parts: int
    """How many parts the largest package has; 0 where nothing is drawn as parts."""

    def expanded(self, drawing: Drawing) -> Drawing:
        """The drawing with the real graph's edges on its lines."""
        if not self.real:
            return drawing
        lines = (
            replace(
                line, edges=frozenset(e for edge in line.edges for e in self.real.get(edge, {edge}))
            )
            for line in drawing.lines
        )
        return replace(drawing, lines=tuple(lines))


def merged(graph: nx.Graph[str]) -> Merged:
    """Replace the parts of each package that shares all wires by the package."""
    found = packages(graph)
    shared = [package for package in found if package.shared]
    dies = tuple(package for package in found if not package.shared)
    most = max((len(package.members) for package in shared), default=0)
    if not shared:
        return Merged(graph, {}, dies, 0)
    home = {node: package.id for package in shared for node in package.members}
    small: nx.Graph[str] = nx.Graph()
    small.add_nodes_from((n, data) for n, data in graph.nodes(data=True) if n not in home)
    for package in shared:
        record = graph.nodes[package.members[0]].get("record")
        name = short_address(package.address)
        small.add_node(package.id, kind="gpu", label=name, record=record, package=package)
    real: dict[Edge, set[Edge]] = {}
    for a, b, data in graph.edges(data=True):
        one, other = home.get(a, a), home.get(b, b)
        if one == other:
            continue
        if not small.has_edge(one, other) or is_weak(data.get("wire")):
            small.add_edge(one, other, **data)
        if (one, other) != (a, b):
            real.setdefault(frozenset((one, other)), set()).add(frozenset((a, b)))
    return Merged(small, {edge: frozenset(edges) for edge, edges in real.items()}, dies, most)


def package_names(graph: nx.Graph[str], package: Package) -> tuple[str, ...]:
    """Names of a package, longest first; the longest with the mode that it is parted in."""
    record = graph.nodes[package.members[0]].get("record")
    mode = getattr(record, "compute_partition", None)
    names = plain_names(graph, package)
    return (f"{names[0]} · {mode}", *names) if mode and package.shared else names


def plain_names(graph: nx.Graph[str], package: Package) -> tuple[str, ...]:
    """Names of a package without its mode, longest first."""
    record = graph.nodes[package.members[0]].get("record")
    sku = sku_for(record) if record is not None else None
    model = gpu_model(record)[0] or ("" if sku is None else sku.name)
    if not package.shared:
        model = model or "GPU"
        return f"{model} package, 2 GCDs", f"{model} package", f"{model}, 2 GCDs", model
    where = short_address(package.address)
    bus = where.rpartition(":")[0]
    return tuple(name.strip() for name in (f"{model} {where}", f"{model} {bus}", where, bus))


def package_facts(graph: nx.Graph[str], package: Package) -> tuple[str, ...]:
    """How a package is parted, longest first: "CPX NPS4, 8 parts", "CPX, 8 parts", "8 parts"."""
    record = graph.nodes[package.members[0]].get("record")
    modes = [getattr(record, f"{kind}_partition", None) for kind in ("compute", "memory")]
    count = len(package.members)
    parts = f"{count} part{'s' * (count != 1)}"
    heads = (" ".join(filter(None, modes)), modes[0] or "")
    facts = tuple(f"{head}, {parts}" if head else parts for head in heads)
    return *facts, parts, modes[0] or parts


def part_name(record: object, node: str) -> str:
    """Name of a part inside its package: the number that it has there."""
    return str(getattr(record, "partition", None) or node.rpartition(".")[2])


@dataclass(frozen=True, slots=True)
class PartGrid:
    """How the parts of a package stand inside it."""

    columns: int
    rows: int
    width: int
    """Place of a part, with the gap behind it."""


def cells(count: int, room: int, *, roomy: bool) -> PartGrid:
    """Arrange parts in a room of so many cells; `roomy`: with utilisation where that fits."""
    count = max(count, 1)
    for least in (_ROOMY, 2) if roomy else (2,):
        for rows in range(1, _MOST_ROWS + 1 if least > 2 else count + 1):
            columns = -(-count // rows)
            width = (room + 1) // columns
            if width >= least:
                return PartGrid(columns, rows, min(width, _ROOMY))
    return PartGrid(1, count, 2)


def part_boxes(
    graph: nx.Graph[str], package: Package, place: PartGrid, x: int, y: int
) -> Iterable[Box]:
    """A box of one line for every part, from the left, row by row."""
    for i, node in enumerate(package.members):
        record = graph.nodes[node].get("record")
        row, column = divmod(i, place.columns)
        width = max(place.width - 1, 1)
        name = fit((part_name(record, node),), width)
        left = x + column * place.width
        free = width - len(name) - 1
        live = Slot(left + len(name) + 1, y + row, free) if free > 2 else None
        yield Box(node, (node,), BoxKind.GPU, left, y + row, width, 1, (name,), live)


def side_by_side(dies: Iterable[Package], columns: Sequence[str]) -> tuple[Package, ...]:
    """Packages whose two dies stand next to each other; `columns`: devices from left to right."""
    at = {node: i for i, node in enumerate(columns)}
    found = []
    for package in dies:
        places = sorted(at.get(node, -2) for node in package.members)
        if places[0] >= 0 and places[1] == places[0] + 1:
            found.append(package)
    return tuple(found)


def headings(
    graph: nx.Graph[str], dies: Iterable[Package], leaves: Sequence[Box], height: int
) -> Iterable[Box]:
    """A box over the two dies of each package, which stand side by side."""
    by_id = {box.id: box for box in leaves}
    for package in dies:
        first, last = sorted((by_id[node] for node in package.members), key=lambda box: box.x)
        width = last.right - first.x
        name = fit(package_names(graph, package), width - (4 if height > 1 else 2))
        yield Box(
            package.id, (), BoxKind.PACKAGE, first.x, first.y - height, width, height, (name,),
            frame=int(height > 1),
        )  # fmt: skip
