"""All that a search reads, as one value: equal inputs give equal graphs."""

from __future__ import annotations

from collections.abc import Hashable

from ..nodes import Kind, System, SystemLink, SystemNode, SystemPath
from ..settings import Settings
from ..versions import Version

VARIABLES = (
    "NCCL_CROSS_NIC",
    "NCCL_NETDEVS_POLICY",
    "NCCL_MNNVL_SCATTER_NETS_ENABLE",
    "NCCL_MNNVL_RAIL_PER_HOST",
)
"""The variables that the search itself reads; others act through paths."""

WAYS: tuple[tuple[Kind, Kind], ...] = (
    ("GPU", "GPU"),
    ("GPU", "NET"),
    ("NET", "GPU"),
    ("GPU", "NVS"),
    ("NVS", "GPU"),
)


def search_inputs(
    system: System, version: Version, settings: Settings, *, nvls: bool
) -> tuple[Hashable, ...]:
    """Nodes, links, paths, variables and version, free of object identity."""
    place: dict[int, int] = {}
    links: list[Hashable] = []
    for nodes in system.nodes.values():
        for node in nodes:
            for link in node.links:
                place[id(link)] = len(links)
                links.append(_link(node, link))
    return (
        (version.library, version.number, nvls, system.inter, system.hosts),
        tuple(settings.text(name) for name in VARIABLES),
        tuple(_node(node) for nodes in system.nodes.values() for node in nodes),
        tuple(links),
        tuple(
            _path(path, place)
            for start, end in WAYS
            for node in system.nodes[start]
            for path in node.paths.get(end, ())
        ),
    )


def _node(node: SystemNode) -> Hashable:
    who = (node.kind, node.ident, node.rank, node.dev, node.sm, node.arch, node.vendor)
    nic = (node.asic, node.port, node.speed_gbs, node.latency_us, node.pci_ident, node.local_gpu)
    return who, nic


def _link(node: SystemNode, link: SystemLink) -> Hashable:
    return node.kind, node.index, link.kind, link.bandwidth_gbs, link.to.kind, link.to.index


def _path(path: SystemPath, place: dict[int, int]) -> Hashable:
    return int(path.type), path.bandwidth_gbs, tuple(place[id(link)] for link in path.links)
