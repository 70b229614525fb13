"""What joins the GPUs below: a plane of switches, a mesh that is drawn, or one too dense to draw.

A sparse mesh is drawn as lanes: every link one horizontal line below the GPUs, two links in the
same row when they do not overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any

import networkx as nx

from ..wiring.wires import WireKind
from .drawing import Box, Edge, Label, Line
from .names import is_weak, short

LINKS = (WireKind.NVLINK, WireKind.XGMI)
_Link = tuple[str, str, Any]
"""Two GPUs and the wire between them."""
KNOT, MISSING = "●", "×"
_DRAWN_EDGES = 20
"""More links than this are described in words: nobody follows 28 lines."""


@dataclass(slots=True)
class Spoke:
    """All links of one GPU to the plane."""

    gpu: str
    edges: frozenset[Edge]
    kind: WireKind
    count: int | None
    count_max: int | None
    payload_gbs: float | None

    @property
    def weak(self) -> bool:
        """Fewer links than there could be."""
        return self.count is not None and self.count_max is not None and self.count < self.count_max


@dataclass(slots=True)
class Plane:
    """NVSwitches, seen or hidden, or a mesh described in words."""

    id: str
    members: tuple[str, ...]
    spokes: list[Spoke]
    texts: tuple[str, ...]
    """What to write on it, longest first."""
    more: tuple[str, ...] = ()
    """Further remarks, a row each."""


@dataclass(slots=True)
class FabricLane:
    """One link between two GPUs and where it runs."""

    a: str
    b: str
    wire: Any
    row: int = 0
    a_x: int = 0
    b_x: int = 0


@dataclass(slots=True)
class Interconnect:
    """All that joins GPUs besides PCIe."""

    planes: list[Plane] = field(default_factory=list)
    lanes: list[FabricLane] = field(default_factory=list)
    dense: list[FabricLane] = field(default_factory=list)
    """Links of a mesh that is described in words or drawn as a grid."""

    def ports(self, gpu: str) -> int:
        """Number of lanes that end at a GPU."""
        return sum(gpu in (lane.a, lane.b) for lane in self.lanes)


def fabric(graph: nx.Graph[str], gpus: list[str], ports: int) -> Interconnect:
    """Find what joins the GPUs of a graph, listed from left to right.

    `ports`: lanes that have room at one GPU; a mesh that needs more is described in words.
    """
    found = Interconnect()
    planes, links, mesh = _joined(graph, tuple(gpus))
    found.planes += planes
    lanes = [FabricLane(*link) for link in links]
    found.lanes = lanes
    if len(lanes) > _DRAWN_EDGES or any(found.ports(gpu) > ports for gpu in gpus):
        found.lanes, found.dense = [], lanes
        found.planes += mesh
    return found


@lru_cache(maxsize=1)
def _joined(
    graph: nx.Graph[str], gpus: tuple[str, ...]
) -> tuple[tuple[Plane, ...], tuple[_Link, ...], tuple[Plane, ...]]:
    """The plane of switches, the links, and these in words; a node is drawn in several tries."""
    switches = [n for n, kind in graph.nodes(data="kind") if str(kind).startswith("nvswitch")]
    wires = (
        (a, b, graph.edges[a, b].get("wire"))
        for a, b in combinations(gpus, 2)
        if graph.has_edge(a, b)
    )
    links = tuple(link for link in wires if getattr(link[2], "kind", "") in LINKS)
    return (
        (_switch_plane(graph, gpus, sorted(switches)),) if switches else (),
        links,
        (_mesh(graph, gpus, links),) if links else (),
    )


def _switch_plane(graph: nx.Graph[str], gpus: Sequence[str], switches: list[str]) -> Plane:
    spokes = []
    for gpu in gpus:
        ends = [s for s in switches if graph.has_edge(gpu, s)]
        wires = [graph.edges[gpu, s].get("wire") for s in ends]
        wires = [wire for wire in wires if wire is not None and wire.kind in LINKS]
        if wires:
            edges = frozenset(frozenset((gpu, s)) for s in ends)
            spoke = _spoke(gpu, edges, wires)
            links = getattr(graph.nodes[gpu].get("record"), "nvlinks", ())
            # The switch behind a link that is down is not known; the GPU still counts the link.
            spoke.count_max = spoke.count_max or len(links) or None
            spokes.append(spoke)
    seen = f"{len(switches)} NVSwitches" if len(switches) > 1 else "NVSwitch fabric"
    kinds = Counter((s.count, s.payload_gbs) for s in spokes)
    if not kinds:
        return Plane(switches[0], tuple(switches), spokes, (f"{seen}: no link read", seen))
    ((count, payload), _), *_ = kinds.most_common(1)
    odd = [s for s in spokes if (s.count, s.payload_gbs) != (count, payload)]
    text = f"{seen}: {_word(count)} NVLinks per GPU"
    rate = f", {short(payload)} GB/s one way" if payload is not None else ""
    named = ", ".join(f"{graph.nodes[s.gpu].get('label') or s.gpu}: {_of(s)}" for s in odd[:2])
    more = f" and {len(odd) - 2} more" if len(odd) > 2 else ""
    less = f"; {named}{more} !" if odd else ""
    return Plane(
        switches[0],
        tuple(switches),
        spokes,
        (text + rate + less, text + rate, text, seen, "NVSwitch"),
    )


def _of(spoke: Spoke) -> str:
    return f"{_word(spoke.count)} of {spoke.count_max}" if spoke.weak else _word(spoke.count)


def edges_between(
    graph: nx.Graph[str], here: Sequence[str], there: Iterable[Sequence[str]]
) -> set[Edge]:
    """The edges from some nodes to others."""
    ends = ((a, b) for a in here for group in there for b in group)
    return {frozenset(end) for end in ends if graph.has_edge(*end)}


def _spoke(gpu: str, edges: frozenset[Edge], wires: list[Any]) -> Spoke:
    return Spoke(
        gpu,
        edges,
        wires[0].kind,
        _sum([wire.count for wire in wires]),
        _sum([wire.count_max for wire in wires]),
        _sum([wire.payload_gbs for wire in wires]),
    )


def _mesh(graph: nx.Graph[str], gpus: Sequence[str], links: Sequence[_Link]) -> Plane:
    joined = {frozenset((a, b)): wire for a, b, wire in links}
    own: dict[str, list[Edge]] = {gpu: [] for gpu in gpus}
    for edge in joined:
        for gpu in edge:
            own[gpu].append(edge)
    spokes = [
        _spoke(gpu, frozenset(edges), [joined[edge] for edge in edges])
        for gpu, edges in own.items()
        if edges
    ]
    name = "xGMI" if links[0][2].kind is WireKind.XGMI else "NVLink"
    # A card of another vendor is no part of the mesh; one of the same without a link is missed.
    vendors = {_vendor(graph, gpu) for gpu, edges in own.items() if edges}
    gpus = [gpu for gpu in gpus if _vendor(graph, gpu) in vendors]
    pairs = len(gpus) * (len(gpus) - 1) // 2
    # All parts of two packages share the wires between them.
    parted = any(graph.nodes[gpu].get("package") is not None for gpu in gpus)
    kinds = Counter((wire.count, wire.payload_gbs) for _, _, wire in links)
    (count, payload), usual = kinds.most_common(1)[0]
    links_word = "1 link" if count == 1 else f"{_word(count)} links"
    rate = f", {short(payload)} GB/s" if payload is not None else ""
    rest = ""
    if len(links) < pairs:
        missing = next(
            f"{graph.nodes[a].get('label', a)}-{graph.nodes[b].get('label', b)}"
            for a, b in combinations(gpus, 2)
            if frozenset((a, b)) not in joined
        )
        more = pairs - len(links) - 1
        rest = f"; no link {missing}" + (f" and {more} more" if more else "") + " !"
    every = "every pair" if len(links) == pairs else f"{len(links)} of {pairs} pairs"
    if parted:
        every += " of packages"
        rest = f"; their parts share it{rest}"
    odd = f", {len(links) - usual} other !" if usual < len(links) else ""
    head = f"{name} mesh: {every} {links_word}"
    one_way = f"{rate} one way" if rate else ""
    return Plane(
        "mesh",
        (),
        spokes,
        (head + one_way + odd + rest, head + rate + rest, head + rest, f"{name} mesh"),
        _shares(len(gpus), payload) if len(links) == pairs and not odd and not parted else (),
    )


def _vendor(graph: nx.Graph[str], gpu: str) -> str | None:
    return getattr(graph.nodes[gpu].get("record"), "vendor", None)


def _shares(gpus: int, each: float | None) -> tuple[str, ...]:
    """The remark that a job on some of the GPUs uses only the wires between them."""
    if each is None or gpus < 5:
        return ()
    whole = f"{short((gpus - 1) * each)} to all {gpus - 1}"
    two, four = short(each), short(3 * each)
    return (f"{whole}; a job on 2 GPUs has {two}, on 4 GPUs {four}",)


def _sum(values: list[Any]) -> Any:
    """The sum; None when one of them is unknown."""
    return None if any(value is None for value in values) else sum(values)


def _word(count: int | None) -> str:
    return "–" if count is None else str(count)


def place_lanes(lanes: list[FabricLane], ports: dict[str, list[int]]) -> int:
    """Give every lane its two ports and its row; returns the number of rows.

    `ports`: GPU -> columns of its ports, left to right, one for each of its lanes. A GPU's outer
    ports take its nearest neighbours, so that near lanes run above far ones and cross few.
    """
    order = {gpu: i for i, gpu in enumerate(ports)}
    for gpu, columns in ports.items():
        own = [lane for lane in lanes if gpu in (lane.a, lane.b)]
        reach = {id(lane): order[lane.b if lane.a == gpu else lane.a] - order[gpu] for lane in own}
        own.sort(key=lambda lane: -reach[id(lane)])
        left = [lane for lane in own if reach[id(lane)] < 0]
        right = [lane for lane in own if reach[id(lane)] > 0]
        for column, lane in zip(columns, [*left, *right], strict=True):
            if lane.a == gpu:
                lane.a_x = column
            else:
                lane.b_x = column
    taken: list[list[tuple[int, int]]] = []
    for lane in sorted(lanes, key=lambda lane: (abs(lane.b_x - lane.a_x), min(lane.a_x, lane.b_x))):
        low, high = sorted((lane.a_x, lane.b_x))
        for lane.row, spans in enumerate(taken):
            if all(high < start or end < low for start, end in spans):
                spans.append((low, high))
                break
        else:
            lane.row = len(taken)
            taken.append([(low, high)])
    return len(taken)


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
