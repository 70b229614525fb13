"""Which GPUs are parts of one package: partitions of an Instinct GPU, or its two dies.

Partitions (DPX, CPX) share the package's PCIe link and its xGMI links. The dies of an MI250 or
MI250X have links of their own; no interface that is read here says which two belong together, but
only they are joined by as many xGMI links as AMD's documents give the inside of a package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..hardware.specs import Sku, sku_for, table
from ..hardware.vendors import AMD
from ..model.machine import Gpu
from .wires import WireKind

if TYPE_CHECKING:
    import networkx as nx

PREFIX = "package "


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """Several GPUs that are one piece of hardware, or the one part of it that is seen."""

    id: str
    """"package " and the address of the package or of its first die; no node of the graph."""
    members: tuple[str, ...]
    """Nodes of the graph, ordered by part or address."""
    shared: bool
    """Whether the parts share one PCIe link and the xGMI links to other packages."""
    links: int | None = None
    """xGMI links between its two dies; None for partitions, which need none."""

    @property
    def address(self) -> str:
        """PCI address of the package, or of its first die."""
        return self.id.removeprefix(PREFIX)


def packages(graph: nx.Graph[str]) -> tuple[Package, ...]:
    """Find the packages that show as several GPUs, by address; whole GPUs are in none."""
    gpus = {
        node: record
        for node, record in graph.nodes(data="record")
        if isinstance(record, Gpu) and record.vendor == AMD.id
    }
    parts: dict[str, list[str]] = {}
    for node, gpu in gpus.items():
        if gpu.partition is not None and gpu.parent is not None:
            parts.setdefault(gpu.parent, []).append(node)
    found = [
        Package(id=PREFIX + parent, members=tuple(sorted(nodes)), shared=True)
        for parent, nodes in parts.items()
    ]
    taken = {node for package in found for node in package.members}
    found += _dies(graph, {node: gpu for node, gpu in gpus.items() if node not in taken})
    return tuple(sorted(found, key=lambda package: package.members))


def _dies(graph: nx.Graph[str], gpus: dict[str, Gpu]) -> list[Package]:
    """Pairs of dies, each joined to one other GPU alone by the links of a package's inside."""
    partners: dict[str, set[str]] = {}
    inside: dict[str, int] = {}
    for node, gpu in gpus.items():
        sku = sku_for(gpu)
        count = None if sku is None or sku.devices != 2 else links_inside(sku)
        if count is None:
            continue
        inside[node] = count
        for other in graph[node]:
            wire = graph.edges[node, other].get("wire")
            if other not in gpus or wire is None:
                continue
            if wire.kind is WireKind.XGMI and wire.count == count:
                partners.setdefault(node, set()).add(other)
    return [
        Package(
            id=PREFIX + min(node, other),
            members=(node, other),
            shared=False,
            links=inside[node],
        )
        for node, others in partners.items()
        if len(others) == 1
        for other in others
        if node < other and partners.get(other) == {node}
    ]


def links_inside(sku: Sku) -> int | None:
    """Count the xGMI links between the two dies of a package of this model (links.toml)."""
    for facts in table("links")["xgmi"].values():
        if sku.name in facts.get("gpu", ()):
            count: int | None = facts.get("in_package_links")
            return count
    return None
