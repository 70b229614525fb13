"""A prediction in words: pairs of ranks, hops of a ring, and what holds without a variable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...model.english import first, plural
from ...model.gathered import gathered
from ...model.page import Section
from ...nccl.decide.summary import duration, ring_hops
from ...nccl.prediction import Prediction
from ...nccl.wording import message_size
from ..catalogue.catalogue import Flag, FlagKind
from .effects import SIZES, Way, choice_of, described, named, ranks_of, way_of

NEAR = ("LOC", "NVL", "XGMI", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET")
"""Path types from near to far."""
LIMIT_PAIRS = 6
"""Most pairs that are named before the rest is counted."""
LIMIT_ORDER = 16
"""Most ranks of a ring that are named singly, and most runs of ranks before the rest is cut."""


def pairs_in_words(pairs: Iterable[tuple[int, int]]) -> str:
    """Name unordered pairs: "0-1 2-3", "0..3 with 4..7", "0..7 among themselves"."""
    edges = {tuple(sorted(pair)) for pair in pairs}
    parts: list[str] = []
    rest: list[tuple[int, ...]] = []
    for part in _components(edges):
        inside = {edge for edge in edges if edge[0] in part}
        sides = _sides(part, inside)
        if len(inside) > 1 and len(inside) == len(part) * (len(part) - 1) // 2:
            parts.append(f"{_ranks(part)} among themselves")
        elif sides and len(inside) > 1 and len(inside) == len(sides[0]) * len(sides[1]):
            parts.append(f"{_ranks(sides[0])} with {_ranks(sides[1])}")
        else:
            rest += sorted(inside)
    named = first([f"{a}-{b}" for a, b in sorted(rest)], LIMIT_PAIRS, " ")
    return "; ".join(filter(None, (named, *parts)))


def _components(edges: set[tuple[int, ...]]) -> list[set[int]]:
    """Find the connected sets of ranks, in order of their lowest rank."""
    found: list[set[int]] = []
    for edge in sorted(edges):
        joined = set(edge)
        apart: list[set[int]] = []
        for part in found:
            if part & joined:
                joined |= part
            else:
                apart.append(part)
        found = [*apart, joined]
    return sorted(found, key=min)


def _sides(part: set[int], edges: set[tuple[int, ...]]) -> tuple[set[int], set[int]] | None:
    """Split ranks into two sets that every edge joins; None where that is not possible."""
    lowest = min(part)
    right = {b if a == lowest else a for a, b in edges if lowest in (a, b)}
    left = part - right
    if any((a in left) == (b in left) for a, b in edges):
        return None
    return left, right


def _ranks(ranks: Iterable[int]) -> str:
    """Ranks, runs of three and more with dots: "0..3", "0,2"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ",".join(
        f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs
    )


def order_in_words(order: Sequence[int]) -> str:
    """Name ranks in the order of a ring: "0-3-2-1"; many ranks as runs: "0..7-16..23-8..15"."""
    if len(order) <= LIMIT_ORDER:
        return "-".join(map(str, order))
    runs: list[list[int]] = []
    for rank in order:
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [_ranks(run).replace(",", "-") for run in runs]
    more = f"-... ({len(order)} ranks)" if len(words) > LIMIT_ORDER else ""
    return "-".join(words[:LIMIT_ORDER]) + more


def ways(prediction: Prediction) -> list[tuple[Way, list[tuple[int, int]]]]:
    """Group the pairs (lower rank first) by path and transport, the nearest path types first."""
    found = gathered(
        (way_of(pair), (pair.src, pair.dst)) for pair in prediction.pairs if pair.src < pair.dst
    )
    return sorted(found.items(), key=lambda item: (distance(item[0].path), item[0]))


def distance(path: str) -> int:
    """Rank of a path type in the order from near to far."""
    return NEAR.index(path) if path in NEAR else len(NEAR)


def p2p_groups(prediction: Prediction) -> list[set[int]]:
    """Find sets of at least three ranks that use only P2P among themselves.

    Empty when all ranks do, and where such sets overlap.
    """
    pairs = {(p.src, p.dst) for p in prediction.pairs if p.p2p and p.src < p.dst}
    groups = [
        part
        for part in _components({tuple(pair) for pair in pairs})
        if len(part) > 2
        and sum(1 for a, b in pairs if a in part) == len(part) * (len(part) - 1) // 2
    ]
    ranks = {p.src for p in prediction.pairs}
    return [] if groups and groups[0] == ranks else groups


def ranks_in_words(ranks: Iterable[int]) -> str:
    """Ranks, runs of three and more with dots: "0..3", "0,2"."""
    return _ranks(ranks)


def hops_in_words(prediction: Prediction) -> str:
    """Word the hops of the ring: `4 PIX by P2P, 2 PHB by SHM`; "" without a ring."""
    hops = sorted(ring_hops(prediction).items(), key=lambda item: distance(item[0][0]))
    words = [f"{count} {path} by {transport}" for (path, transport), count in hops]
    return ", ".join(words).replace(" ", " hops " if hops and hops[0][1] != 1 else " hop ", 1)


def change(share: float | None) -> str:
    """Word the change of a time: "same", "12 % longer", "1.8 x shorter"."""
    if share is None:
        return "not known"
    if abs(share - 1) < 0.005:
        return "same"
    longer = share > 1
    factor = share if longer else 1 / share
    if factor >= 1.5:
        return f"{factor:.1f} x {'longer' if longer else 'shorter'}"
    percent = (share - 1) * 100 if longer else (1 - share) * 100
    return f"{percent:.0f} % {'longer' if longer else 'shorter'}"


def as_predicted(flag: Flag, without: Prediction) -> Section:
    """What the library decides without a variable, as far as the variable has a say in it."""
    library = f"{without.library.name.upper()} {without.library.version}"
    title = f"This node without it: {plural(len(ranks_of(without)), 'GPU')}, rules of {library}"
    if not flag.modelled:
        return Section(title=title)
    if flag.kind.of_pairs:
        return Section(title=title, table=_ways_table(without), paragraphs=_pace(without))
    if flag.kind.of_networks:
        return Section(title=title, table=_nets_table(without), paragraphs=_net_words(without))
    if flag.kind is FlagKind.TUNING:
        return Section(title=title, table=_choices_table(without))
    return Section(title=title, table=_graphs_table(without))


def _ways_table(prediction: Prediction) -> tuple[tuple[str, ...], ...]:
    rows = [("pairs", "path", "via", "which (ranks)")]
    for way, pairs in ways(prediction):
        rows.append((str(len(pairs)), way.path, way.label, pairs_in_words(pairs)))
    return tuple(rows)


def _pace(prediction: Prediction) -> tuple[str, ...]:
    ring = prediction.graphs.ring
    hops = hops_in_words(prediction)
    if ring is None or not hops:
        return ()
    order = order_in_words(ring.orders[0])
    return (
        f"The ring {order} takes {hops}. The search gives it {described(ring)} (channels x GB/s "
        f"each){_log(prediction)}.",
    )


def _log(prediction: Prediction) -> str:
    count = prediction.coll_channels
    ring = prediction.graphs.ring
    if count is None or ring is None:
        return ""
    twice = " (each is used twice)" if count == 2 * ring.channels else ""
    return f"; the log will say {count} coll channels{twice}"


def _nets_table(prediction: Prediction) -> tuple[tuple[str, ...], ...]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for view in prediction.views:
        for net in view.nets:
            relay = "another GPU" if net.pxn_rank >= 0 else "itself"
            gdr = "yes" if net.receives_direct else "no"
            found.setdefault((net.to[2], gdr, relay), []).append(f"{net.rank}>{net.net}")
    rows = [("count", "path", "GPUDirect", "through", "GPU (rank) > NIC (device)")]
    for (path, gdr, relay), pairs in sorted(found.items()):
        rows.append((str(len(pairs)), path, gdr, relay, first(pairs, 6, " ")))
    return tuple(rows) if len(rows) > 1 else ()


def _net_words(prediction: Prediction) -> tuple[str, ...]:
    net = sum(1 for p in prediction.pairs if p.src < p.dst and p.by_net)
    if net:
        return (f"{net} pairs of this node go through the network.",)
    return ("No pair inside this node goes through the network.",)


def _choices_table(prediction: Prediction) -> tuple[tuple[str, ...], ...]:
    if not prediction.choices:
        return ()
    rows = [("all-reduce", "chosen", "predicted")]
    for bytes_ in SIZES:
        choice = choice_of(prediction, bytes_)
        rows.append(
            (message_size(bytes_), named(choice), duration(choice.expected_us if choice else None))
        )
    return tuple(rows)


def _graphs_table(prediction: Prediction) -> tuple[tuple[str, ...], ...]:
    rows = [("graph", "channels x GB/s, path type")]
    graphs = prediction.graphs
    rows += [("ring", described(graphs.ring)), ("tree", described(graphs.tree))]
    rows.append(("nvls", described(graphs.nvls)))
    count = prediction.coll_channels
    rows.append(("coll channels", "not modelled" if count is None else str(count)))
    return tuple(rows)
