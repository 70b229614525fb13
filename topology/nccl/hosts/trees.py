"""NCCL's double binary tree over nodes (graph/trees.cc:ncclGetDtree), node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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
