"""The rings and trees of NCCL or RCCL over the map, one order of ranks at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from gputop.screens.map.info import label
from gputop.topology.sketch.drawing import Edge
from gputop.topology.sketch.names import short
from gputop.topology.wiring.paths import Path, over_relays, path_between

if TYPE_CHECKING:
    from gputop.topology.nccl.prediction import Prediction, SearchGraph
    from gputop.topology.report import Report
    from gputop.topology.wiring.graph import Graph
    from gputop.widgets.spans import Line


class RankOrder(NamedTuple):
    """One order of ranks, which one or several channels share."""

    is_ring: bool
    """Else it is a tree."""
    order: tuple[str, ...]
    """Nodes of the graph in the order of the ranks; a ring leads back to the first."""
    channels: tuple[int, ...]
    """Numbers of the channels of the search that have this order, from 1."""
    graph: SearchGraph
    edges: frozenset[Edge]
    """Edges that carry it, relays included."""

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """Who sends to whom; in a tree the parent comes first."""
        closed = (*self.order, self.order[0]) if self.is_ring else self.order
        return tuple(pairwise(closed))

    def head(self, graph: Graph) -> Line:
        """What is laid over the drawing, in one line."""
        names = [label(graph, node) for node in self.order]
        brief = [names[0], *(name.removeprefix("GPU") for name in names[1:])]
        way = "→".join((*brief, brief[0].removeprefix("GPU")) if self.is_ring else brief)
        of = f"of {self.graph.channels} channels" if self.graph.channels > 1 else "channel"
        rate = f"{short(self.graph.bw_intra)} GB/s each, {self.graph.type_intra}"
        return (
            (" RING " if self.is_ring else " TREE ", "key bold"),
            (way, "accent bold"),
            (f"  {len(self.channels)} {of}, {rate}", ""),
            ("  r", "key bold @screen.lay_over"),
            (" next ", "muted"),
            ("Esc", "key bold"),
            (" off", "muted"),
        )

    def marks(self) -> Iterator[tuple[str, str]]:
        """What stands on each GPU: whom it sends to, or its parent."""
        if self.is_ring:
            yield from self.steps
            return
        yield self.order[0], ""
        for parent, child in self.steps:
            yield child, parent


def overlays(report: Report) -> list[RankOrder]:
    """The different orders of the rings, then those of the trees, of the view of rank 0."""
    prediction = report.prediction
    if prediction is None or prediction.failure is not None:
        return []
    nodes = {pair.src: pair.src_bus_id for pair in prediction.pairs}
    found: list[RankOrder] = []
    for is_ring, graph in ((True, prediction.graphs.ring), (False, prediction.graphs.tree)):
        if graph is None:
            continue
        channels: dict[tuple[int, ...], list[int]] = {}
        for number, order in enumerate(graph.orders, start=1):
            channels.setdefault(order, []).append(number)
        for order, numbers in channels.items():
            if len(order) < 2 or not all(nodes.get(rank, "") in report.graph for rank in order):
                continue
            places = tuple(nodes[rank] for rank in order)
            bare = RankOrder(is_ring, places, tuple(numbers), graph, frozenset())
            edges = frozenset(
                frozenset(edge)
                for step in bare.steps
                if (path := way(report, *step)) is not None
                for edge in path.edges
            )
            found.append(bare._replace(edges=edges))
    return found


def way(report: Report, a: str, b: str) -> Path | None:
    """The way of the data between two devices: over the GPU that the library relays by, if any."""
    over = relay(report.prediction, a, b)
    if over is not None and over in report.graph:
        found = over_relays(report.graph, (a, over, b))
        if found is not None:
            return found
    return path_between(report.graph, a, b)


def relay(prediction: Prediction | None, a: str, b: str) -> str | None:
    """The GPU by which the library relays from one GPU to another; None where it does not."""
    if prediction is None:
        return None
    nodes = {pair.src: pair.src_bus_id for pair in prediction.pairs}
    for pair in prediction.pairs:
        if (pair.src_bus_id, pair.dst_bus_id) == (a, b):
            return None if pair.via is None else nodes.get(pair.via)
    return None
