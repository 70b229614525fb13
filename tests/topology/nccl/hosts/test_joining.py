"""Rings and trees between hosts, against what NCCL's own code connects (graph/connect.cc)."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.nccl.hosts.joining import (
    NONE,
    TreePosition,
    double_tree,
    nvls_trees,
    rings,
    trees,
)
from gputop.topology.nccl.hosts.records import HostTree, NvlsTrees
from gputop.topology.nccl.hosts.spread import Spread
from gputop.topology.nccl.versions import version_for

from .recorded import nodes_of, recording

CASES = range(49)


def spread_of(case: dict[str, Any]) -> Spread:
    kinds = {kind: case["kinds"][kind] for kind in case["nodes"]}.values()
    searched = min(min(len(kind["ring"]), len(kind["tree"])) for kind in kinds)
    total = case["expected"]["coll"]
    return Spread(searched, total, total)


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = recording("connections")
    assert len(found) == len(CASES)
    return found


def test_rings(cases: list[dict[str, Any]]) -> None:
    for number, case in enumerate(cases):
        version, _ = version_for(case["version"])
        made = rings(nodes_of(case), version, spread_of(case).of_rings())
        found = {}
        for ring in made:
            order = [rank for stop in ring.stops for rank in stop.ranks]
            start = order.index(0)
            for channel in ring.channels:
                found[channel] = order[start:] + order[:start]
            for stop in ring.stops:
                ends = stop.receives.rank, stop.sends.rank
                assert ends == (stop.ranks[0], stop.ranks[-1])
        assert [found[channel] for channel in sorted(found)] == case["expected"]["ring"], number


def test_trees(cases: list[dict[str, Any]]) -> None:
    for number, case in enumerate(cases):
        nodes, spread = nodes_of(case), spread_of(case)
        made = trees(nodes, (spread.of_trees(0), spread.of_trees(1)))
        wanted = case["expected"]["tree"]
        seen: list[int] = []
        for tree in made:
            for channel in tree.channels:
                seen.append(channel)
                assert rows(case, tree, channel) == wanted[channel], (number, channel)
        assert sorted(seen) == list(range(len(wanted)))


def rows(case: dict[str, Any], tree: HostTree, channel: int) -> list[list[int]]:
    """Parent and children of every rank, those inside its host included, as NCCL keeps them."""
    found: list[list[int]] = []
    for node in nodes_of(case):
        graph = node.kind.view.graphs.tree
        assert graph is not None
        place = tree.places[len(found) // len(node.kind.view.ranks)]
        order = [node.rank(rank) for rank in graph.orders[channel % spread_of(case).searched]]
        here: dict[int, list[int]] = {}
        for at, rank in enumerate(order):
            up = order[at - 1] if at else -1
            if place.parent is not None and place.up is not None and place.up.rank == rank:
                above = tree.places[place.parent]
                up = above.down[above.children.index(place.node)].rank
            down = order[at + 1 : at + 2]
            for child, port in zip(place.children, place.down, strict=True):
                end = tree.places[child].up
                if port.rank == rank and end is not None:
                    down = [*down, end.rank]
            here[rank] = [up, *down, *[-1] * (3 - len(down))]
        found += [here[rank] for rank in sorted(here)]
    return found


def test_nvls_trees(cases: list[dict[str, Any]]) -> None:
    seen = 0
    for number, case in enumerate(cases):
        made = nvls_trees(nodes_of(case), 16)
        wanted = case["expected"]["nvls"]
        assert (made is None) is (not wanted), number
        if made is not None:
            seen += 1
            assert [heads(made, which, case) for which in (0, 1)] == wanted, number
    assert seen > 10


def heads(made: NvlsTrees, which: int, case: dict[str, Any]) -> list[list[int]]:
    """Number of the head and its parent for every rank, -1 for none."""
    each = len(case["kinds"][0]["ring"][0])
    found = [[-1, -1] for _ in range(each * len(case["nodes"]))]
    for node, own in enumerate(made.heads):
        parent = made.trees[which].parents[node]
        for number, head in enumerate(own):
            above = -1 if parent is None else made.heads[parent][number].rank
            found[head.rank] = [number, above]
    return found


def test_the_first_gpu_of_a_ring_has_the_first_nic_of_its_channel() -> None:
    (node, *_) = nodes_of({"kinds": [KIND], "nodes": [0, 0]})
    ring = node.kind.view.graphs.ring
    assert ring is not None
    assert node.kind.net_of(ring, 1, 2) == 2
    assert node.kind.net_of(ring, 1, 0) == 3
    assert node.kind.net_of(ring, 7, 0) is None


KIND = {
    "ring": [[0, 1, 2], [2, 1, 0]],
    "cross_nic": 0,
    "bw_intra": 24.0,
    "pattern": 1,
    "tree": [[0, 1, 2], [1, 2, 0]],
    "heads": [],
}


def test_channels_are_doubled_then_copied() -> None:
    assert Spread(2, 8, 8).of_rings() == [(0, 2, 4, 6), (1, 3, 5, 7)]
    assert Spread(2, 8, 8).of_trees(0) == [(0, 4), (1, 5)]
    assert Spread(2, 8, 8).of_trees(1) == [(2, 6), (3, 7)]
    # NCCL_MAX_NCHANNELS=3 and NCCL_MIN_NCHANNELS=5: the first three are copied.
    assert Spread(2, 5, 3).of_rings() == [(0, 2, 3), (1, 4)]
    assert Spread(2, 5, 3).of_trees(1) == [(2,), ()]


# The double binary tree, against NCCL's own for 2 to 64 nodes.
def test_both_trees_are_nccls_own() -> None:
    every = recording("double-trees")
    assert sorted(map(int, every)) == list(range(2, 65))
    for count, rows in every.items():
        trees = double_tree(int(count))
        for node, row in enumerate(rows):
            for place, (parent, below, above, second) in zip(
                (tree[node] for tree in trees), (row[:4], row[4:]), strict=True
            ):
                assert (place.parent, place.children) == (parent, (below, above)), (count, node)
                # NCCL leaves the last one unset for a root.
                assert parent == NONE or place.second is bool(second), (count, node)


def inner(tree: tuple[TreePosition, ...]) -> set[int]:
    """Nodes with two children; a root has one and no parent, so that its load is a leaf's."""
    return {node for node, place in enumerate(tree) if NONE not in place.children}


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 1000, 1023])
def test_each_node_hangs_on_one_parent_and_has_children_in_one_tree(count: int) -> None:
    trees = double_tree(count)
    for tree in trees:
        roots = [node for node, place in enumerate(tree) if place.parent == NONE]
        assert len(roots) == 1
        reached, edge = set(roots), roots
        while edge:
            edge = [child for node in edge for child in tree[node].children if child != NONE]
            assert reached.isdisjoint(edge)
            reached.update(edge)
        assert reached == set(range(count))
        for node, place in enumerate(tree):
            for child in place.children:
                assert child == NONE or tree[child].parent == node
    assert inner(trees[0]).isdisjoint(inner(trees[1]))
