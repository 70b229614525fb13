"""The text about xGMI under the map: for one GPU, for a package and for the whole mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.topology.model.machine import Gpu
from gputop.topology.sketch.names import short
from gputop.topology.wiring.packages import Package, packages
from gputop.topology.wiring.wires import WireKind

if TYPE_CHECKING:
    import networkx as nx

    from gputop.topology.model.machine import XgmiLink
    from gputop.topology.wiring.wires import Wire

Fact = tuple[str, str, str]
"""A muted word, the value, its ink."""
_FAST = ("nvlink", "xgmi")


def package_of(graph: nx.Graph[str], node: str) -> Package | None:
    """The package with this id, or that this GPU is a part of."""
    for package in packages(graph):
        if node == package.id or node in package.members:
            return package
    return None


def mesh(graph: nx.Graph[str]) -> str:
    """What a job on some GPUs of a mesh has: only the wires between these."""
    edges = [
        (a, b, edge["wire"])
        for a, b, edge in graph.edges(data=True)
        if getattr(edge.get("wire"), "kind", "") in _FAST
    ]
    if any(package.shared for package in packages(graph)):
        return "each wire joins two packages, and all their parts share it"
    rates = {wire.payload_gbs for _, _, wire in edges}
    gpus = len({end for a, b, _ in edges for end in (a, b)})
    each = next(iter(rates), None)
    if len(rates) != 1 or each is None or len(edges) != gpus * (gpus - 1) // 2:
        return "each wire is one pair's own"
    sizes = dict.fromkeys(n for n in (2, 4, gpus) if n <= gpus)
    parts = [f"{n} GPUs {short((n - 1) * each)}" for n in sizes]
    return f"each wire is one pair's own; a job has for each GPU on {', on '.join(parts)} GB/s"


def of_gpu(bundles: Sequence[XgmiLink]) -> Fact:
    """How many GPUs are joined, and at which rate: to one of them and to all together."""
    direct = [link for link in bundles if link.hops is None or link.hops < 2]
    up = [link for link in direct if link.active is not False]
    rates = [link.raw_gbs for link in up if link.raw_gbs is not None]
    sick = len(up) < len(direct)
    words = f"to {len(up)} of {len(direct)} GPUs !" if sick else f"to {len(up)} GPUs"
    if rates and len(rates) == len(up):
        low, high = short(min(rates)), short(max(rates))
        words += f", {low if low == high else f'{low} to {high}'} GB/s each"
        words += f", {short(sum(rates))} together" if len(up) > 1 else ""
    return "xGMI", words, "bad" if sick else ""


def of_package(graph: nx.Graph[str], package: Package) -> Fact:
    """How many other packages are joined, and at which rate; all parts share these wires."""
    home: dict[str, str] = {}
    for node, record in graph.nodes(data="record"):
        if isinstance(record, Gpu) and node not in package.members:
            home[node] = record.parent or node
    wires: dict[str, Wire] = {}
    for part in package.members:
        for other, edge in graph[part].items():
            if other in home and edge["wire"].kind is WireKind.XGMI:
                wires.setdefault(home[other], edge["wire"])
    if not wires:
        return "", "", ""
    rates = {wire.payload_gbs for wire in wires.values()}
    words = f"to {len(wires)} package{'s' * (len(wires) != 1)}"
    each = next(iter(rates))
    if len(rates) == 1 and each is not None:
        words += f", {short(each)} GB/s each"
    return "xGMI", f"{words}, for all its parts", ""
