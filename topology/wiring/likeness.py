"""The pairs of GPUs of a machine: their paths, and which are alike, so that figures compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, cast

from ..model.machine import Gpu, Machine
from .codes import UNKNOWN, Relations
from .devices import devices_of
from .ends import switch_links
from .graph import Graph, wire_up
from .paths import Path, Trees, path_between

XGMI = "XGMI"


class PairIndex:
    """Paths and kinds of pairs, each found once. Get it with `pairs_of`."""

    def __init__(self, machine: Machine) -> None:
        self._devices = devices_of(machine)
        self._relations = Relations(machine)
        self._paths: dict[tuple[str, str], Path | None] = {}
        self._trees: Trees = {}
        self._kinds: dict[tuple[str, str], str] = {}

    @cached_property
    def _graph(self) -> Graph:
        return light_graph(self._devices.machine)

    def path(self, one: str, other: str) -> Path | None:
        """The best path between two GPUs, by their addresses."""
        if (one, other) not in self._paths:
            self._paths[one, other] = path_between(self._graph, one, other, trees=self._trees)
        return self._paths[one, other]

    def kind(self, src: str | None, dst: str | None) -> str:
        """The letters of a pair's relation, and of xGMI what joins it; see `likeness`.

        All NVSwitch pairs are "NVSwitch", and all of a full mesh are "XGMI": a GPU with fewer links
        than its siblings is to be compared with them, not set apart.
        """
        one, other = self._devices.gpu(src), self._devices.gpu(dst)
        if one is None or other is None:
            return UNKNOWN
        ends = (one.address, other.address)
        if ends not in self._kinds:
            letters = self._relations.between(*ends).code
            sku = self._devices.sku(one)
            if letters.startswith("NV") and switch_links(one) and switch_links(other):
                letters = "NVSwitch"
            elif sku is None or not sku.full_mesh:
                letters = likeness(letters, one, other)
            self._kinds[ends] = letters
        return self._kinds[ends]


def pairs_of(machine: Machine) -> PairIndex:
    """The pairs of a machine, which are kept with it."""
    kept = vars(machine)
    if "pair_index" not in kept:
        kept["pair_index"] = PairIndex(machine)
    pairs: PairIndex = kept["pair_index"]
    return pairs


def likeness(letters: str, one: Gpu, other: Gpu) -> str:
    """A word that like pairs share: the letters of their relation, and of xGMI what joins them.

    The letters do not count xGMI links: in an uneven mesh (MI250X) a pair has four of them, two,
    one or none of its own, and the parts of one package are closer than all others.
    """
    if letters != XGMI:
        return letters
    if one.parent is not None and one.parent == other.parent:
        return f"{XGMI} in one package"
    mine = [link for link in one.xgmi if link.remote_address == other.address]
    up = [link.links for link in mine if link.active is not False]
    if up:
        return XGMI if up[0] is None else f"{XGMI} {up[0]}"
    return f"{XGMI} over other GPUs" if one.xgmi else XGMI


# The wiring for paths alone: networkx takes a fifth of a second to import, which checks save.
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
