"""The part of the graph below the sockets, as a tree of the devices that get a box.

Kept are GPUs, NICs, where there is room NVMe drives, and what lies between them and the sockets. A
bridge with one child gets no box: it becomes part of the line to that child, or of the switch below
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import networkx as nx

from ..model.gathered import gathered
from ..model.machine import PciKind
from ..model.severity import OpenWord
from ..wiring.wires import WireKind
from .drawing import Edge


class ItemKind(OpenWord):
    """What a node of the graph is; bridges have the words of `PciKind`."""

    SOCKET = "socket"
    NUMA = "numa"
    ROOT = "root complex"
    GPU = "gpu"
    NIC = "nic"
    DRIVE = "nvme"


SOCKET, NUMA, ROOT, GPU, NIC, DRIVE = ItemKind
LEAVES = (GPU, NIC, DRIVE)
HOSTS = (SOCKET, NUMA)
WHOLE = (*HOSTS, *LEAVES)
"""What has a box of its own whatever hangs below it."""
_RANKS = {SOCKET: 0, NUMA: 1, ROOT: 2}
_BRIDGES = (PciKind.BRIDGE, PciKind.UPSTREAM, PciKind.DOWNSTREAM, PciKind.SWITCH)
_PCI_ORDER = (PciKind.ROOT_PORT, *_BRIDGES, NIC, GPU)


@dataclass(slots=True)
class Item:
    """A future box with what hangs below it."""

    id: str
    members: tuple[str, ...]
    kind: ItemKind
    children: list[Item] = field(default_factory=list)
    edges: frozenset[Edge] = frozenset()
    """Graph edges of the line up to the parent."""
    wire: Any = None
    """The narrowest PCIe wire of that line."""

    @property
    def is_leaf(self) -> bool:
        """A GPU, a NIC or a drive."""
        return self.kind in LEAVES

    def walk(self) -> Iterator[Item]:
        """Itself and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def forest(graph: nx.Graph[str], *, drives: bool = False) -> list[Item]:
    """Trees of items: sockets by number, then what belongs to no socket."""
    parents = _parents(graph, (*_PCI_ORDER, DRIVE) if drives else _PCI_ORDER)
    below = gathered((parent, node) for node, parent in parents.items() if parent is not None)
    roots = [node for node, parent in parents.items() if parent is None]
    items = [item for root in roots for item in _items(graph, below, root, None)]
    items = [_collapse(graph, item, top=True) for item in items]
    return sorted(items, key=_order)


def _rank(graph: nx.Graph[str], node: str) -> int:
    return _RANKS.get(graph.nodes[node].get("kind", ""), 3)


def _hangs(graph: nx.Graph[str], a: str, b: str) -> bool:
    """Whether an edge may hold the tree together."""
    return getattr(graph.edges[a, b].get("wire"), "kind", "pcie") in ("pcie", "socket", "net")


def _parents(graph: nx.Graph[str], order: Sequence[str]) -> dict[str, str | None]:
    """Node -> the node above it, None for a root; only nodes that can be part of the tree."""
    kinds = {node: str(data.get("kind", "")) for node, data in graph.nodes(data=True)}
    wanted = [n for n, k in kinds.items() if k in _RANKS or k in order]
    rank = {node: _rank(graph, node) for node in wanted}
    parents: dict[str, str | None] = {}
    for node in wanted:
        if rank[node] < 3:
            above = [m for m in graph.neighbors(node) if rank.get(m, 9) < rank[node]]
            parents[node] = max(above, key=lambda m: rank[m], default=None)
    for level in (2, 1, 0):
        _spread(graph, rank, parents, sorted(n for n in wanted if rank[n] == level))
    for kind in order:
        for node in sorted(n for n in wanted if kinds[n] == kind and n not in parents):
            if node not in parents:
                parents[node] = None
                _spread(graph, rank, parents, [node])
    return parents


def _spread(
    graph: nx.Graph[str], rank: dict[str, int], parents: dict[str, str | None], start: list[str]
) -> None:
    queue = deque(start)
    while queue:
        node = queue.popleft()
        for other in sorted(graph.neighbors(node)):
            if rank.get(other) == 3 and other not in parents and _hangs(graph, node, other):
                parents[other] = node
                queue.append(other)


def _items(
    graph: nx.Graph[str], below: dict[str, list[str]], node: str, parent: str | None
) -> list[Item]:
    """The item of a node; nothing when no device hangs from it, several when a device has some."""
    kind = ItemKind(graph.nodes[node]["kind"])
    children = [item for child in below.get(node, ()) for item in _items(graph, below, child, node)]
    edges = frozenset([frozenset((node, parent))]) if parent is not None else frozenset()
    wire = graph.edges[node, parent].get("wire") if parent is not None else None
    item = Item(node, (node,), kind, children, edges, wire)
    if kind in LEAVES:
        # Devices seldom hang from a device; those that do are drawn beside it.
        item.children = []
        return [item, *(_lengthen(child, item) for child in children)]
    # Memory of a GPU or an expander hangs from no socket, and no device from it.
    lone = getattr(graph.nodes[node].get("record"), "without_cpus", False)
    return [item] if children or (kind in HOSTS and not lone) else []


def _lengthen(child: Item, above: Item) -> Item:
    """The child, with the line above its parent joined to its own."""
    return replace(child, edges=child.edges | above.edges, wire=narrowest((child.wire, above.wire)))


def _collapse(graph: nx.Graph[str], item: Item, *, top: bool = False) -> Item:
    children = _one_of_drives([_collapse(graph, child) for child in item.children])
    if item.kind == SOCKET and len(children) == 1 and children[0].kind == NUMA:
        numa = children[0]
        return replace(item, members=(item.id, *numa.members), children=numa.children)
    if item.kind == SOCKET:
        children = _one_box_for_empty(children)
    if not top and len(children) == 1 and item.kind not in WHOLE:
        only = _lengthen(children[0], item)
        return only if only.is_leaf else replace(only, members=(*only.members, *item.members))
    return replace(item, children=sorted(children, key=_order))


def _one_box_for_empty(children: list[Item]) -> list[Item]:
    """NUMA nodes of one socket without any device share a box."""
    empty = [child for child in children if child.kind == NUMA and not child.children]
    if len(empty) < 2:
        return children
    empty.sort(key=lambda item: _number(item.id))
    members = tuple(member for item in empty for member in item.members)
    edges = frozenset(edge for item in empty for edge in item.edges)
    shared = replace(empty[0], members=members, edges=edges)
    return [*(child for child in children if child not in empty), shared]


def _one_of_drives(children: list[Item]) -> list[Item]:
    """The children with all drives among them as one item."""
    drives = [item for item in children if item.kind == DRIVE]
    if len(drives) < 2:
        return children
    members = tuple(member for item in drives for member in item.members)
    edges = frozenset(edge for item in drives for edge in item.edges)
    wire = narrowest(item.wire for item in drives)
    shared = replace(drives[0], members=members, edges=edges, wire=wire)
    return [*(item for item in children if item.kind != DRIVE), shared]


def _number(node: str) -> int:
    tail = node.rpartition(":")[2]
    return int(tail) if tail.isdigit() else 0


def _order(item: Item) -> tuple[int, int, str]:
    """Sockets by number, the rest by the address of their first GPU, else of their first NIC."""
    if item.kind == SOCKET:
        return (0, _number(item.id), item.id)
    for place, kind in enumerate(LEAVES, start=1):
        addresses = [leaf.id for leaf in item.walk() if leaf.kind == kind]
        if addresses:
            return (place, 0, min(addresses))
    return (1 + len(LEAVES), _number(item.id), item.id)


def narrowest(wires: Iterable[Any]) -> Any:
    """The PCIe wire with the least payload; one of unknown payload only when all are unknown."""
    known = [wire for wire in wires if wire is not None and wire.kind is WireKind.PCIE]
    return min(
        known,
        key=lambda wire: float("inf") if wire.payload_gbs is None else wire.payload_gbs,
        default=None,
    )
