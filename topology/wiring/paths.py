"""The best path between two devices, and its narrowest wire.

GPUs joined by NVLink, an NVSwitch plane or xGMI use that; everything else goes up the PCI tree
and down again. NVIDIA's GPUs pass nothing on by themselves: relays are NCCL's business. AMD's do
inside an xGMI hive, where the driver maps the memory of every GPU over xGMI, however many hops lie
between (amdgpu amdgpu_xgmi_same_hive).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from .graph import UNKNOWN_NUMA, Graph
from .links import FAR
from .wires import Wire, WireKind


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """How data gets from one device to another."""

    nodes: tuple[str, ...]
    """Node ids from end to end; a plane of several NVSwitches is one step, its first switch."""
    wires: tuple[Wire, ...]
    """The wire of each step; through a plane, all links of the GPU to all switches together."""
    edges: tuple[tuple[str, str], ...]
    """Every edge of the graph that carries the traffic, to light up."""
    bottleneck: int | None = None
    """Index of the narrowest wire; None when no rate on the path is known."""
    payload_gbs: float | None = None
    """What the narrowest known wire carries, GB/s one way."""
    kind: WireKind = WireKind.PCIE
    complete: bool = True
    """False when a part of the way is unknown, so that it could be narrower."""

    @property
    def relayed(self) -> bool:
        """Whether it goes over other GPUs by xGMI.

        No source names these GPUs, so that the best of the shortest paths is taken.
        """
        return self.kind is WireKind.XGMI and len(self.wires) > 1

    @property
    def narrowest(self) -> Wire | None:
        """Return the bottleneck's wire."""
        return None if self.bottleneck is None else self.wires[self.bottleneck]


Trees = dict[str, dict[str, str]]
"""By node: over PCIe and the host, each node that it reaches, and the one before it."""


def path_between(graph: Graph, a: str, b: str, *, trees: Trees | None = None) -> Path | None:
    """Find the best path between two nodes; None when a node is unknown or nothing joins them.

    `trees`: what was found before of the same graph, for those who ask for many paths.
    """
    if a == b or a not in graph or b not in graph:
        return None
    wire = graph.get_edge_data(a, b, {}).get("wire")
    if wire is not None and wire.kind in (WireKind.NVLINK, WireKind.XGMI):
        return _path((a, b), (wire,), ((a, b),), wire.kind)
    return (
        _through_switches(graph, a, b)
        or _over_gpus(graph, a, b)
        or _through_tree(graph, a, b, trees)
    )


def through_host(graph: Graph, a: str, b: str) -> Path | None:
    """Find the path over PCIe and the host alone, which two GPUs take without P2P."""
    known = a != b and a in graph and b in graph
    return _through_tree(graph, a, b, None) if known else None


def _over_gpus(graph: Graph, a: str, b: str) -> Path | None:
    """Go by xGMI from GPU to GPU where the driver says that the hops of a pair are several."""
    if frozenset((a, b)) not in graph.graph.get(FAR, ()):
        return None
    ways, seen = [[a]], {a}
    while ways:
        arrived = [way for way in ways if way[-1] == b]
        if arrived:
            found = [_relayed(graph, tuple(way)) for way in arrived]
            return max(found, key=_worth)
        ways = [
            [*way, other]
            for way in ways
            for other, edge in graph[way[-1]].items()
            if edge["wire"].kind is WireKind.XGMI and other not in seen
        ][:_MOST_WAYS]
        seen |= {way[-1] for way in ways}
    return None


def _worth(path: Path) -> tuple[float, tuple[str, ...]]:
    return path.payload_gbs or 0.0, min(path.nodes, path.nodes[::-1])  # the same both ways


def over_relays(graph: Graph, nodes: tuple[str, ...]) -> Path | None:
    """The path over GPUs that pass data on, such as NCCL's relays; None where no link joins two."""
    edges = tuple(pairwise(nodes))
    if not all(edge in graph.edges for edge in edges):
        return None
    wires = tuple(graph.edges[edge]["wire"] for edge in edges)
    if not all(wire.kind in (WireKind.NVLINK, WireKind.XGMI) for wire in wires):
        return None
    return _path(nodes, wires, edges, wires[0].kind)


def _relayed(graph: Graph, nodes: tuple[str, ...]) -> Path:
    edges = tuple(pairwise(nodes))
    wires = tuple(graph.edges[edge]["wire"] for edge in edges)
    return msgspec.structs.replace(_path(nodes, wires, edges, WireKind.XGMI), complete=False)


def _through_switches(graph: Graph, a: str, b: str) -> Path | None:
    one, other = graph.nodes[a], graph.nodes[b]
    if {one["kind"], other["kind"]} != {"gpu"}:
        return None
    mine, theirs = _switches(graph, a), _switches(graph, b)
    if not mine or not theirs:
        return None
    middle = next((switch for switch in mine if switch in theirs), mine[0])
    up = bundle([graph.edges[a, switch]["wire"] for switch in mine])
    down = bundle([graph.edges[b, switch]["wire"] for switch in theirs])
    edges = (*((a, switch) for switch in mine), *((switch, b) for switch in theirs))
    return _path((a, middle, b), (up, down), edges, WireKind.NVSWITCH)


def _switches(graph: Graph, gpu: str) -> list[str]:
    return [
        other
        for other in graph[gpu]
        if graph.nodes[other]["kind"] == "nvswitch"
        and graph.edges[gpu, other]["wire"].kind is WireKind.NVLINK
    ]


def bundle(wires: Sequence[Wire]) -> Wire:
    """Add up parallel wires of one kind; a sum with an unknown part is unknown."""
    if len(wires) == 1:
        return wires[0]
    first = wires[0]
    count = _sum(wires, lambda wire: wire.count)
    payload = _sum(wires, lambda wire: wire.payload_gbs)
    raw = _sum(wires, lambda wire: wire.raw_gbs)
    most = _sum(wires, lambda wire: wire.count_max)
    return Wire(
        kind=first.kind,
        raw_gbs=None if raw is None else round(raw, 3),
        payload_gbs=payload,
        count=None if count is None else int(count),
        count_max=None if most is None else int(most),
        generation=first.generation,
        source=f"{len(wires)} bundles to as many switches; the first: {first.source}",
        assumed=any(wire.assumed for wire in wires),
    )


def _sum(wires: Sequence[Wire], value: Callable[[Wire], float | None]) -> float | None:
    known = [number for wire in wires if (number := value(wire)) is not None]
    return sum(known) if len(known) == len(wires) else None


def _through_tree(graph: Graph, a: str, b: str, trees: Trees | None) -> Path | None:
    """The shortest way over PCIe and the host; devices are its ends, never in between."""
    if trees is None:
        before = _tree(graph, a, b)
    else:
        before = trees[a] = trees.get(a) or _tree(graph, a)
    nodes = _shortest(before, a, b)
    if nodes is None:
        return None
    edges = tuple(pairwise(nodes))
    wires = tuple(graph.edges[edge]["wire"] for edge in edges)
    net = any(wire.kind is WireKind.NET for wire in wires)
    kind = WireKind.NET if net else WireKind.PCIE
    return _path(tuple(nodes), wires, edges, kind)


_MOST_WAYS = 4096
_ENDS = ("gpu", "nic", "nvswitch", "nvme")


def _tree(graph: Graph, a: str, until: str = "") -> dict[str, str]:
    """What comes before each node on the way from `a`; no farther than `until`."""
    before: dict[str, str] = {a: a}
    queue = [a]
    for node in queue:
        if until in before:
            break
        if node != a and graph.nodes[node]["kind"] in _ENDS:
            continue
        for other, edge in graph[node].items():
            if other not in before and edge["wire"].kind not in (WireKind.NVLINK, WireKind.XGMI):
                before[other] = node
                queue.append(other)
    return before


def _shortest(before: dict[str, str], a: str, b: str) -> list[str] | None:
    if b not in before:
        return None
    nodes = [b]
    while nodes[-1] != a:
        nodes.append(before[nodes[-1]])
    return nodes[::-1]


def _path(
    nodes: tuple[str, ...],
    wires: tuple[Wire, ...],
    edges: tuple[tuple[str, str], ...],
    kind: WireKind,
) -> Path:
    rates = [(wire.payload_gbs, i) for i, wire in enumerate(wires) if wire.payload_gbs is not None]
    narrowest = min(rates) if rates else None
    return Path(
        nodes=nodes,
        wires=wires,
        edges=edges,
        bottleneck=narrowest[1] if narrowest else None,
        payload_gbs=narrowest[0] if narrowest else None,
        kind=kind,
        complete=UNKNOWN_NUMA not in nodes and not any(map(_unsure, wires)),
    )


def _unsure(wire: Wire) -> bool:
    """Whether a wire may be narrower than its rate: it has none, or only PCIe's maximum."""
    unknown = wire.payload_gbs is None and not wire.inside
    return unknown or (wire.kind is WireKind.PCIE and wire.assumed)
