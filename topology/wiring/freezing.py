"""Attributes of a graph that nobody can change."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx


def freeze_attributes(graph: nx.Graph[str]) -> None:
    """Freeze the attributes of nodes and edges, which `networkx.freeze` leaves open."""
    inner: Any = graph  # networkx documents `_node` and `_adj` for subclasses; the stubs lack them
    for node, attributes in inner._node.items():
        inner._node[node] = MappingProxyType(attributes)
    for neighbours in inner._adj.values():
        for other, attributes in neighbours.items():
            neighbours[other] = MappingProxyType(attributes)
