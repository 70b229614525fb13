"""Compare the paths, searched graphs, rings and trees of a log with those of a prediction."""

from collections.abc import Iterator
from itertools import pairwise

from ...nccl.prediction import DomainView, Prediction, SearchGraph
from ..report.communicator import Communicator, LoggedGraph
from ..report.places import gpu_ranks
from .agreement import ComparedItem, LogTopic

Mapping = dict[int, int]
"""Rank in the log -> rank in the prediction."""

ROUNDING = 0.0511
GLANCE = 160
"""Characters of what is listed in a line."""
NAMES = {1: "tree", 2: "tree", 3: "tree", 4: "ring", 5: "nvls"}
"""Pattern number -> graph (graph/topo.h)."""


def path_items(
    comm: Communicator, prediction: Prediction, ranks: Mapping
) -> Iterator[ComparedItem]:
    """Every path between GPUs, and from GPUs to NICs, that a System block shows."""
    done: set[tuple[int, str]] = set()
    for system in comm.systems:
        gpus = {name: rank for name, rank in gpu_ranks(comm, system).items() if rank in ranks}
        for name, rank in gpus.items():
            for target, cell in system.paths.get(name, {}).items():
                expected = None
                if target in gpus and target != name:
                    expected = _path(prediction, ranks[rank], ranks[gpus[target]])
                    subject = f"path {rank} to {gpus[target]}"
                elif target.startswith("NET/"):
                    expected = _net(prediction, ranks[rank], target)
                    subject = f"path {rank} to {target}"
                if expected is None or (rank, subject) in done:
                    continue
                done.add((rank, subject))
                yield ComparedItem(
                    topic=LogTopic.NET if target.startswith("NET/") else LogTopic.PATH,
                    subject=subject,
                    logged=_cell(*cell),
                    predicted=_cell(*expected),
                    agrees=cell[0] == expected[0]
                    and cell[2] == expected[2]
                    and abs(cell[1] - expected[1]) <= ROUNDING,
                    line=system.line,
                )


def _path(prediction: Prediction, src: int, dst: int) -> tuple[int, float, str] | None:
    pair = prediction.pair(src, dst)
    if pair is None or pair.hops is None or pair.bandwidth_gbs is None:
        return None
    return pair.hops, pair.bandwidth_gbs, pair.path


def _net(prediction: Prediction, rank: int, target: str) -> tuple[int, float, str] | None:
    try:
        number = int(target.rpartition("-")[2].rpartition("/")[2], 16)
    except ValueError:
        return None
    return next(
        (
            net.to
            for view in prediction.views
            for net in view.nets
            if net.rank == rank and net.net == number
        ),
        None,
    )


def _cell(hops: int, gbs: float, kind: str) -> str:
    return f"{kind}, {gbs:.1f} GB/s, {hops} hops"


def graph_items(
    comm: Communicator, prediction: Prediction, ranks: Mapping
) -> Iterator[ComparedItem]:
    """The searched ring, tree and NVLS graph of each view."""
    for view in prediction.views:
        logged = _graphs_of(comm, view, ranks)
        for name in ("ring", "tree", "nvls"):
            expected: SearchGraph | None = getattr(view.graphs, name)
            seen = logged.get(name)
            if expected is not None and not expected.channels:
                expected = None
            if seen is not None and not seen.channels:
                seen = None
            if not logged or (expected is None and seen is None):
                continue
            where = "" if len(prediction.views) == 1 else f" of ranks {_list(view.ranks)}"
            yield ComparedItem(
                topic=LogTopic.GRAPH,
                subject=name + where,
                logged="none" if seen is None else _graph(seen),
                predicted="none" if expected is None else _graph(expected),
                agrees=seen is not None
                and expected is not None
                and _graph(seen) == _graph(expected),
                line=None if seen is None else seen.line,
            )


def _graphs_of(comm: Communicator, view: DomainView, ranks: Mapping) -> dict[str, LoggedGraph]:
    """The graphs that the ranks of a view printed."""
    members = {rank for rank, predicted in ranks.items() if predicted in view.ranks}
    found: dict[str, LoggedGraph] = {}
    for graph in comm.graphs:
        name = NAMES.get(graph.pattern)
        if name is not None and members & set(graph.ranks):
            found.setdefault(name, graph)
    return found


def _graph(graph: LoggedGraph | SearchGraph) -> str:
    """Put a graph into words; two graphs agree when their words do."""
    intra, inter = f"{graph.bw_intra:.2f}", f"{graph.bw_inter:.2f}"
    text = f"{graph.channels} channels x {intra.rstrip('0').rstrip('.')}"
    if intra != inter:
        text += f"/{inter.rstrip('0').rstrip('.')}"
    text += f" GB/s, {graph.type_intra}/{graph.type_inter}"
    return text + ("" if graph.same_channels else ", channels differ")


def ring_items(
    comm: Communicator, prediction: Prediction, ranks: Mapping
) -> Iterator[ComparedItem]:
    """The orders of the final rings, inside one view; each must be one that was predicted."""
    ring = prediction.graphs.ring
    if ring is None or len(prediction.views) > 1 or prediction.nodes > 1 or not ring.orders:
        return
    expected = {_turned(order) for order in ring.orders}
    if comm.rings and all(rank in ranks for ring in comm.rings for rank in ring.order):
        seen = {_turned(tuple(ranks[rank] for rank in ring.order)) for ring in comm.rings}
        yield ComparedItem(
            topic=LogTopic.RINGS,
            subject="orders of the rings",
            logged=_orders(seen),
            predicted=_orders(expected),
            agrees=seen == expected,
            line=comm.rings[0].line,
        )
        return
    edges = {(a, b) for order in expected for a, b in _around(order)}
    shown = {
        (ranks[rank.rank], ranks[rank.after])
        for rank in comm.neighbours
        if rank.rank in ranks and rank.after in ranks
    }
    if shown:
        yield ComparedItem(
            topic=LogTopic.RINGS,
            subject="neighbours in the rings",
            logged=_cut([f"{a} to {b}" for a, b in sorted(shown)], ", "),
            predicted=_orders(expected),
            agrees=shown <= edges,
        )


def _turned(order: tuple[int, ...]) -> tuple[int, ...]:
    """Turn a ring so that it starts at its lowest rank."""
    start = order.index(min(order)) if order else 0
    return order[start:] + order[:start]


def _around(order: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(zip(order, order[1:] + order[:1], strict=True))


def _orders(orders: set[tuple[int, ...]]) -> str:
    return _cut([" ".join(map(str, order)) for order in sorted(orders)], "; ")


def _cut(texts: list[str], between: str) -> str:
    """As many as are read at a glance, and how many more there are."""
    shown = next((n for n in range(len(texts), 1, -1) if len(between.join(texts[:n])) <= GLANCE), 1)
    more = len(texts) - shown
    first = between.join(texts[:shown])
    first = first if len(first) <= GLANCE else f"{first[:GLANCE]}…"
    return f"{first} and {more} more" if more > 0 else first


def tree_items(
    comm: Communicator, prediction: Prediction, ranks: Mapping
) -> Iterator[ComparedItem]:
    """The edges of the trees inside one view: a chain along the searched order."""
    tree = prediction.graphs.tree
    if tree is None or len(prediction.views) > 1 or prediction.nodes > 1 or not tree.orders:
        return
    expected = {(b, a) for order in tree.orders for a, b in pairwise(order)}
    shown = {
        (ranks[node.rank], ranks[node.parent])
        for node in comm.trees
        if node.rank in ranks and node.parent in ranks
    }
    shown |= {
        (ranks[child], ranks[node.rank])
        for node in comm.trees
        for child in node.children
        if node.rank in ranks and child in ranks
    }
    if shown:
        yield ComparedItem(
            topic=LogTopic.TREES,
            subject="parents in the trees",
            logged=_cut([f"{child} below {parent}" for child, parent in sorted(shown)], ", "),
            predicted=_cut([f"{child} below {parent}" for child, parent in sorted(expected)], ", "),
            agrees=shown <= expected,
        )


def _list(ranks: tuple[int, ...]) -> str:
    return _cut([str(rank) for rank in ranks], ", ")
