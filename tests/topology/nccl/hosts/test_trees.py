"""The double binary tree, against NCCL's own for 2 to 64 nodes."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.hosts.trees import NONE, TreePosition, double_tree

from .recorded import recording


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
