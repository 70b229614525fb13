"""NVLS, the rings and the trees of a prediction as orders of ranks, and where each is narrowest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ..expectation.cost.all_reduce import LARGE_BYTES
from ..expectation.cost.costs import costs_of
from ..expectation.modelled import modelled
from ..flags.what_if.effects import choice_of
from ..model.gathered import gathered
from ..model.severity import Word
from ..nccl.decide.summary import library_name
from ..nccl.wording import gbs
from .naming import name
from .pair_summary import ways_of

if TYPE_CHECKING:
    from ..nccl.prediction import SearchGraph
    from ..node import Node

Edge = frozenset[str]
"""The two ends of an edge of the graph."""


class Laid(Word):
    """What is laid over the drawing, in the words of the library's choices of algorithms."""

    NVLS = "NVLS"
    RING = "RING"
    TREE = "TREE"

    @property
    def in_words(self) -> str:
        """Its name in a sentence."""
        return self if self is Laid.NVLS else self.lower()


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

    def marks(self) -> Iterator[tuple[str, str]]:
        """What stands on each GPU: whom it sends to, or its parent."""
        if self.algorithm is Laid.RING:
            yield from self.steps
        elif self.algorithm is Laid.TREE:
            yield self.order[0], ""
            for parent, child in self.steps:
                yield child, parent


def rank_orders(node: Node) -> list[RankOrder]:
    """The different orders of each algorithm in the view of rank 0, the chosen algorithm first."""
    prediction = node.prediction
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
            if len(order) > 1 and all(nodes.get(rank, "") in node.graph for rank in order):
                places = tuple(nodes[rank] for rank in order)
                bare = RankOrder(algorithm, places, tuple(numbers), graph, chosen)
                found.append(_with_ways(bare, node))
    return sorted(found, key=lambda laid: laid.chosen != _CHOSEN[True])


_CHOSEN = {True: "used for 1 GiB", False: "not used for 1 GiB"}


def _orders(
    algorithm: Laid, graph: SearchGraph, nodes: Mapping[int, str]
) -> dict[tuple[int, ...], list[int]]:
    """Each order of ranks with the channels that have it."""
    channels = range(1, graph.channels + 1)
    if algorithm is Laid.NVLS:
        return {tuple(sorted(nodes)): [*channels]} if channels else {}
    return gathered((order, number) for number, order in enumerate(graph.orders, start=1))


def _with_ways(laid: RankOrder, node: Node) -> RankOrder:
    paths = [ways_of(node, *step) for step in laid.steps]
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


NEAR = 0.9
"""A figure within so much of another comes from it."""
MOST_NAMED = 3
"""Of equally narrow hops, so many are named."""


def bottleneck(node: Node) -> str:
    """What bounds an all-reduce of 1 GiB; "" where nothing is known.

    That is where the order that it takes is narrowest, or the speed that the library's search gives
    its channels. Rates are payload, one way, of the links that its decisions take.
    """
    used = [laid for laid in rank_orders(node) if laid.chosen == _CHOSEN[True]]
    rates = [laid.narrow_gbs for laid in used if laid.narrow_gbs is not None]
    if not rates or len(rates) < len(used):
        return ""
    said, least = f"Bottleneck ({used[0].algorithm.in_words}):", min(rates)
    if len(set(rates)) == 1 and not any(laid.narrow for laid in used):
        return f"{said} {_bound(node, used[0], least)}every hop carries {gbs(least)} GB/s one way"
    narrow = (laid.narrow or laid.edges for laid in used if laid.narrow_gbs == least)
    hops = sorted({_hop(node, edge) for edge in frozenset().union(*narrow)})
    more = len(hops) - MOST_NAMED
    named = ", ".join(hops[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{said} {named}, {gbs(least)} GB/s one way"


def _bound(node: Node, laid: RankOrder, hop: float) -> str:
    """What bounds the predicted figure where all hops are equally wide."""
    prediction, graph = node.prediction, laid.graph
    figure = None if prediction is None else modelled(prediction, LARGE_BYTES)
    counted = graph.channels * graph.bw_intra
    if prediction is None or (laid.algorithm is Laid.NVLS and (figure or counted) >= NEAR * hop):
        return "none, "
    # Its model can be blind to a loss of rings, which what is said of the node is not.
    cost = costs_of(node).all_reduce
    lost = cost is not None and cost.lost and bool(cost.missing)
    if figure is not None and not lost and not NEAR <= counted / figure <= 1 / NEAR:
        return "what bounds the predicted figure is not known; "
    kind = f"{graph.channels} × {gbs(graph.bw_intra)} GB/s {graph.type_intra}"
    left = (
        f", the {laid.algorithm.in_words}s that are left: {' and '.join(cost.missing)}"
        if cost and lost
        else ""
    )
    return f"{library_name(prediction)} counts {kind}{left}; "


def _hop(node: Node, edge: Edge) -> str:
    """Both ends of an edge, the device first; all NVSwitches are one."""
    kinds = {end: str(node.graph.nodes[end].get("kind")) for end in edge}
    ends = sorted(edge, key=lambda end: (kinds[end] == "nvswitch", end))
    return " – ".join("NVSwitch" if kinds[end] == "nvswitch" else name(node, end) for end in ends)
