"""Rings and trees between nodes, from what each node found inside (graph/connect.cc)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..prediction import SearchGraph
from ..versions import Version
from .node import JobNode
from .records import Head, HostRing, HostTree, NvlsTree, NvlsTrees, RingStop, TreePlace

PAIRS = 2
"""The cross_nic of a ring whose channels come in pairs, each leaving by the NIC of the other."""

NONE = -1


class TreePosition(NamedTuple):
    """Where a node stands in one tree: node numbers, -1 for none."""

    parent: int
    children: tuple[int, int]
    """The one below it in number, then the one above; a root has only the second."""
    second: bool
    """Whether it is its parent's second child."""


def binary_tree(count: int, node: int) -> TreePosition:
    """The place of a node among `count` of them: odd numbers are leaves, 0 is the root."""
    low = node & -node
    if node == 0:
        only = 1 << ((count - 1).bit_length() - 1) if count > 1 else NONE
        return TreePosition(NONE, (NONE, only), False)
    parent = (node ^ low) | (low << 1)
    if parent >= count:
        parent = node ^ low
    step = low >> 1
    if not step:
        return TreePosition(parent, (NONE, NONE), node > parent)
    second = step
    while second and node + second >= count:
        second >>= 1
    return TreePosition(parent, (node - step, node + second if second else NONE), node > parent)


def double_tree(count: int) -> tuple[tuple[TreePosition, ...], tuple[TreePosition, ...]]:
    """Both trees over `count` nodes, each a place for every node.

    The second tree is the first one mirrored, for an even count, or shifted by one node, so that
    who is a leaf in one has children in the other.
    """
    first = [binary_tree(count, node) for node in range(count)]
    if count % 2:
        moved = [_renamed(first[node - 1], lambda of: (of + 1) % count) for node in range(count)]
    else:
        moved = [_renamed(place, lambda of: count - 1 - of) for place in reversed(first)]
    return tuple(first), tuple(moved)


def _renamed(place: TreePosition, name: Callable[[int], int]) -> TreePosition:
    below, above = (NONE if child == NONE else name(child) for child in place.children)
    parent = NONE if place.parent == NONE else name(place.parent)
    return TreePosition(parent, (below, above), place.second)


def exchanged(nodes: Sequence[JobNode], version: Version, channels: int) -> frozenset[int]:
    """Nodes that take the other channel of each pair, so that rings stay on their rails."""
    rule = version.ring_exchange
    crossing = [ring.cross_nic for node in nodes if (ring := node.kind.graph("ring")) is not None]
    worst = max(crossing, default=0)
    if rule == "never" or channels % 2 or (rule == "even" and len(nodes) % 2):
        return frozenset()
    if rule in ("even", "crossing") and not worst:
        return frozenset()
    if rule == "pairs" and worst != PAIRS:
        return frozenset()
    return frozenset(
        place
        for place, node in enumerate(nodes)
        if place % 2 and (rule != "own" or _graph(node, "ring").cross_nic == PAIRS)
    )


def rings(
    nodes: Sequence[JobNode], version: Version, spread: Sequence[tuple[int, ...]]
) -> list[HostRing]:
    """One ring for each searched channel; `spread`: the channels that run on each of them."""
    others = exchanged(nodes, version, len(spread))
    found = []
    for channel, channels in enumerate(spread):
        stops = []
        for place, node in enumerate(nodes):
            ring = _graph(node, "ring")
            order = ring.orders[channel ^ 1 if place in others else channel]
            stops.append(
                RingStop(
                    node=place,
                    receives=node.port(ring, channel, order[0], sends=False),
                    sends=node.port(ring, channel, order[-1], sends=True),
                    ranks=tuple([node.rank(rank) for rank in order]),
                )
            )
        if channels:
            found.append(HostRing(channels=channels, stops=tuple(stops)))
    return found


def trees(
    nodes: Sequence[JobNode], spreads: tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]
) -> list[HostTree]:
    """Two trees for each searched channel; `spreads`: the channels of each, tree by tree."""
    found = []
    for both, spread in zip(double_tree(len(nodes)), spreads, strict=True):
        for channel, channels in enumerate(spread):
            if channels:
                places = tuple(
                    _tree_place(nodes, place, both[place], channel) for place in range(len(nodes))
                )
                found.append(HostTree(channels=channels, places=places))
    return found


def _tree_place(
    nodes: Sequence[JobNode], number: int, place: TreePosition, channel: int
) -> TreePlace:
    node = nodes[number]
    tree = _graph(node, "tree")
    down = [
        (child, node.down_rank(tree, channel, second=bool(which)))
        for which, child in enumerate(place.children)
        if child != NONE
    ]
    # A connection carries both ways; what is sent over it is what may take a relay.
    return TreePlace(
        node=number,
        parent=None if place.parent == NONE else place.parent,
        children=tuple(child for child, _ in down),
        up=None
        if place.parent == NONE
        else node.port(tree, channel, node.up_rank(tree, channel), sends=True),
        down=tuple(node.port(tree, channel, rank, sends=True) for _, rank in down),
    )


def nvls_trees(nodes: Sequence[JobNode], channels: int) -> NvlsTrees | None:
    """The trees between the heads; None where a node has no NVLS graph."""
    graphs = [node.kind.graph("nvls") for node in nodes]
    if not channels or any(graph is None or not graph.channels for graph in graphs):
        return None
    heads = [_heads(node, _graph(node, "nvls")) for node in nodes]
    fewest = min(map(len, heads))
    return NvlsTrees(
        trees=tuple(
            NvlsTree(
                channels=tuple(range(which, channels, 2)),
                parents=tuple(None if place.parent == NONE else place.parent for place in tree),
            )
            for which, tree in enumerate(double_tree(len(nodes)))
        ),
        heads=tuple(own[:fewest] for own in heads),
    )


def _heads(node: JobNode, nvls: SearchGraph) -> tuple[Head, ...]:
    """Each head once, with the NICs of all channels that it leads."""
    nics: dict[int, list[str]] = {}
    for channel, order in enumerate(nvls.orders[: nvls.channels]):
        port = node.port(nvls, channel, order[0], sends=False)
        nics.setdefault(order[0], []).append(port.nic)
    return tuple(Head(rank=node.rank(rank), nics=tuple(names)) for rank, names in nics.items())


def _graph(node: JobNode, name: str) -> SearchGraph:
    graph = node.kind.graph(name)
    if graph is None:
        raise ValueError(f"a node without a graph for a {name}")
    return graph
