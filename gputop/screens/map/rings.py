"""NVLS, the rings and the trees of NCCL or RCCL over the map, one order of ranks at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from gputop.screens.map.info import label
from gputop.topology.expectation.cost.all_reduce import LARGE_BYTES
from gputop.topology.explain.pair_summary import ways_of
from gputop.topology.flags.what_if.effects import choice_of
from gputop.topology.model.english import plural
from gputop.topology.model.severity import Word
from gputop.topology.sketch.drawing import Edge
from gputop.topology.sketch.names import short
from gputop.topology.wiring.paths import Path, over_relays, path_between

if TYPE_CHECKING:
    from gputop.topology.nccl.prediction import SearchGraph
    from gputop.topology.report import Report
    from gputop.topology.wiring.graph import Graph
    from gputop.widgets.spans import Line


class Laid(Word):
    """What is laid over the drawing, in the words of the library's choices of algorithms."""

    NVLS = "NVLS"
    RING = "RING"
    TREE = "TREE"


class RankOrder(NamedTuple):
    """One order of ranks, which one or several channels share; NVLS has none."""

    algorithm: Laid
    order: tuple[str, ...]
    """Nodes of the graph in the order of the ranks; a ring leads back to the first."""
    channels: tuple[int, ...]
    """Numbers of the channels of the search that have this order, from 1."""
    graph: SearchGraph
    chosen: str = ""
    """Whether an all-reduce of 1 GiB takes it, in words; "" where that is not known."""
    ways: tuple[frozenset[Edge], ...] = ()
    """For each step the edges that carry it, relays included."""
    narrow: frozenset[Edge] = frozenset()
    """Edges of the narrowest steps; empty where all are equal or one is not known."""
    narrow_gbs: float | None = None
    """Payload of these one way, or of every step where all are equal; else None."""

    @property
    def edges(self) -> frozenset[Edge]:
        """All edges that carry it."""
        return frozenset().union(*self.ways)

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """Who sends to whom; in a tree the parent comes first."""
        closed = self.order if self.algorithm is Laid.TREE else (*self.order, self.order[0])
        return tuple(pairwise(closed))

    def step(self, turn: int) -> frozenset[Edge]:
        """The edges of one step of the walk along it; NVLS takes all its links at once."""
        walks = self.ways and self.algorithm is not Laid.NVLS
        return self.ways[turn % len(self.ways)] if walks else frozenset()

    def head(self, graph: Graph) -> Line:
        """What is laid over the drawing, in one line."""
        names = [label(graph, node) for node in self.order]
        brief = [names[0], *(name.removeprefix("GPU") for name in names[1:])]
        back = (brief[0].removeprefix("GPU"),) * (self.algorithm is Laid.RING)
        way = "→".join((*brief, *back))
        if self.algorithm is Laid.NVLS:
            way = f"all {len(names)} GPUs through NVSwitch"
        part, channels = len(self.channels), plural(self.graph.channels, "channel")
        many = channels if part == self.graph.channels else f"{part} of {channels}"
        each = " each" * (self.graph.channels > 1)
        rate = f"{short(self.graph.bw_intra)} GB/s{each}, {self.graph.type_intra}"
        narrow, ink = "", "bad"
        if self.narrow_gbs is not None and self.narrow:
            narrow = f", ▲ narrowest {short(self.narrow_gbs)}"
        elif self.narrow_gbs is not None:
            narrow, ink = f", every hop {short(self.narrow_gbs)}", "muted"
        return (
            (f" {self.algorithm} ", "key bold"),
            (way, "accent bold"),
            (f"  {many}, {rate}", ""),
            (narrow, ink),
            (f" · {self.chosen}" if self.chosen else "", "muted"),
            ("  r", "key bold @screen.lay_over"),
            (" next ", "muted"),
            ("Esc", "key bold"),
            (" off", "muted"),
        )

    def marks(self) -> Iterator[tuple[str, str]]:
        """What stands on each GPU: whom it sends to, or its parent."""
        if self.algorithm is Laid.RING:
            yield from self.steps
        elif self.algorithm is Laid.TREE:
            yield self.order[0], ""
            for parent, child in self.steps:
                yield child, parent


def overlays(report: Report) -> list[RankOrder]:
    """The different orders of each algorithm in the view of rank 0, the chosen algorithm first."""
    prediction = report.prediction
    if prediction is None or prediction.failure is not None:
        return []
    nodes = {pair.src: pair.src_bus_id for pair in prediction.pairs}
    graphs = prediction.graphs
    choice = choice_of(prediction, LARGE_BYTES)
    found: list[RankOrder] = []
    for algorithm, graph in (
        (Laid.NVLS, graphs.nvls),
        (Laid.RING, graphs.ring),
        (Laid.TREE, graphs.tree),
    ):
        if graph is None:
            continue
        chosen = "" if choice is None else _CHOSEN[choice.algorithm == algorithm]
        for order, numbers in _orders(algorithm, graph, nodes).items():
            if len(order) > 1 and all(nodes.get(rank, "") in report.graph for rank in order):
                places = tuple(nodes[rank] for rank in order)
                bare = RankOrder(algorithm, places, tuple(numbers), graph, chosen)
                found.append(_with_ways(bare, report))
    return sorted(found, key=lambda laid: laid.chosen != _CHOSEN[True])


_CHOSEN = {True: "used for 1 GiB", False: "not used for 1 GiB"}


def _orders(
    algorithm: Laid, graph: SearchGraph, nodes: Mapping[int, str]
) -> dict[tuple[int, ...], list[int]]:
    """Each order of ranks with the channels that have it."""
    channels = range(1, graph.channels + 1)
    if algorithm is Laid.NVLS:
        return {tuple(sorted(nodes)): [*channels]} if channels else {}
    found: dict[tuple[int, ...], list[int]] = {}
    for number, order in enumerate(graph.orders, start=1):
        found.setdefault(order, []).append(number)
    return found


def _with_ways(laid: RankOrder, report: Report) -> RankOrder:
    paths = [ways_of(report.node, *step) for step in laid.steps]
    ways = tuple(
        frozenset(frozenset(edge) for path in filter(None, found) for edge in path.edges)
        for found in paths
    )
    flat = [path for found in paths for path in found]
    rates = {None if path is None else path.payload_gbs for path in flat}
    known = sorted(rate for rate in rates if rate is not None)
    if len(known) < 2 or len(known) < len(rates):
        alike = known[0] if len(rates) == len(known) == 1 else None
        return laid._replace(ways=ways, narrow_gbs=alike)
    narrow = frozenset(
        edge
        for path in flat
        if path is not None and path.payload_gbs == known[0] and path.bottleneck is not None
        for edge in map(frozenset, path.edges)
        if edge <= set(path.nodes[path.bottleneck : path.bottleneck + 2])
    )
    return laid._replace(ways=ways, narrow=narrow, narrow_gbs=known[0])


def way(report: Report, a: str, b: str) -> Path | None:
    """The way of the data between two devices; where that is not known, the best one."""
    found = ways_of(report.node, a, b)
    if len(found) > 1:
        over = (a, *(path.nodes[0] for path in found[1:] if path is not None), b)
        return over_relays(report.graph, over) or path_between(report.graph, a, b)
    return found[0] or path_between(report.graph, a, b)
