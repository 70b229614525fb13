"""The wiring for paths alone: networkx takes a fifth of a second to import, which checks save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from .graph import wire_up

if TYPE_CHECKING:
    from ..model.machine import Machine
    from .graph import Graph


def light_graph(machine: Machine) -> Graph:
    """The graph of a machine, for whoever only looks for paths in it and keeps it to himself."""
    graph = cast("Graph", _Light())  # it has what the builder and the paths use of a graph
    wire_up(machine, graph)
    return graph


class _Light:
    """Nodes and edges with attributes, named as those of networkx are."""

    def __init__(self) -> None:
        self.graph: dict[str, Any] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.edges: dict[tuple[str, str], dict[str, Any]] = {}
        """Each edge by both orders of its ends."""
        self._beside: dict[str, dict[str, dict[str, Any]]] = {}

    def __contains__(self, node: str) -> bool:
        return node in self.nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __getitem__(self, node: str) -> dict[str, dict[str, Any]]:
        return self._beside[node]

    def add_node(self, node: str, **attributes: object) -> None:
        self.nodes.setdefault(node, {}).update(attributes)
        self._beside.setdefault(node, {})

    def add_edge(self, a: str, b: str, **attributes: object) -> None:
        edge = self.edges.setdefault((a, b), {})
        edge.update(attributes)
        self.edges[b, a] = edge
        for end, other in ((a, b), (b, a)):
            self.add_node(end)
            self._beside[end][other] = edge

    def add_edges_from(self, pairs: Iterable[tuple[str, str]], **attributes: object) -> None:
        for a, b in pairs:
            self.add_edge(a, b, **attributes)

    def has_edge(self, a: str, b: str) -> bool:
        return (a, b) in self.edges

    def get_edge_data(self, a: str, b: str, default: object = None) -> object:
        return self.edges.get((a, b), default)
