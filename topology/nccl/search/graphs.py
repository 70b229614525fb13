"""The graphs that a library finds on a system (init.cc:initTransportsRank)."""

from __future__ import annotations

from collections.abc import Hashable

from ...hardware.words import library_words
from ...model.versions import numbers
from ..nodes import Kind, PathType, System, SystemLink, SystemNode, SystemPath
from ..prediction import Graphs, SearchGraph
from ..settings import Settings
from ..versions import Version
from .descent import Descent
from .draft import BALANCED_TREE, NVLS, RING, GraphDraft
from .field import Field
from .limits import limits
from .rccl_models import is_rome_like
from .ready_made import ReadyMade, ready_made

REMEMBERED = 128
LARGE, LARGE_REMEMBERED = 16, 8
"""Systems with more GPUs than this are kept in small numbers: one of 64 GPUs takes megabytes."""
MOST_ON_ROME = 2
"""Rings that RCCL searches for where GPUs have xGMI and it knows no model of the node."""

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

Found = tuple[Graphs, float, float]
"""Graphs, and the best bandwidths of the system."""
_remembered: dict[Hashable, Found] = {}
"""Graphs by input: what-if questions often leave a system as it is."""
_large: dict[Hashable, Found] = {}
"""The same for systems with many GPUs."""


def search_graphs(system: System, version: Version, settings: Settings, *, nvls: bool) -> Graphs:
    """Search for the ring, the tree and, if asked, the NVLS graph.

    The paths of the system must be computed. Its best bandwidths are set on the way. `nvls`:
    the library would use NVSwitch multicast, which takes at least two GPUs. A system without
    GPUs has no graphs.
    """
    count = len(system.nodes["GPU"])
    if not count:
        return Graphs()
    if version.library == "rccl":
        known_node = known_to_rccl(system, version, settings)
        if known_node is not None:
            return known_node.graphs
    kept, most = (_large, LARGE_REMEMBERED) if count > LARGE else (_remembered, REMEMBERED)
    key = search_inputs(system, version, settings, nvls=nvls)
    found = kept.get(key)
    if found is None:
        found = _search(system, version, settings, nvls=nvls)
        if len(kept) >= most:
            kept.clear()
        kept[key] = found
    graphs, system.max_bandwidth_gbs, system.total_bandwidth_gbs = found
    return graphs


def known_to_rccl(system: System, version: Version, settings: Settings) -> ReadyMade | None:
    """What RCCL uses instead of a search; sets the best bandwidths when there is something."""
    widest, total = limits(system, nets=bool(system.nodes["NET"]))
    found = ready_made(system, version, settings, total)
    if found is not None:
        system.max_bandwidth_gbs, system.total_bandwidth_gbs = widest, total
    return found


def _search(system: System, version: Version, settings: Settings, *, nvls: bool) -> Found:
    search = _Search(system, version, settings, nvls=nvls)
    return search.graphs(nvls=nvls), search.widest_gbs, search.total_gbs


class _Search:
    def __init__(self, system: System, version: Version, settings: Settings, *, nvls: bool) -> None:
        self.version = version
        self.field = Field(system, version, settings, nvls=nvls)
        self.widest_gbs, self.total_gbs = limits(system, nets=self.field.bounded_by_nets)
        self.estimate = why_estimate(system, version, self.field)

    def graphs(self, *, nvls: bool) -> Graphs:
        most = self.field.version.max_channels // 2
        if self.field.rccl and not self.field.system.inter and is_rome_like(self.field.system):
            most = MOST_ON_ROME
        ring = self.find(GraphDraft(RING, least=1, most=most))
        least = 1 if self.field.rccl and self.field.nets else ring.channels
        tree = self.find(GraphDraft(BALANCED_TREE, least=least, most=ring.channels))
        heads = None
        if nvls:
            heads = self.find(GraphDraft(NVLS, least=1, most=self.field.version.max_channels))
        return Graphs(
            ring=self.result(ring),
            tree=self.result(tree),
            nvls=None if heads is None else self.result(heads),
        )

    def find(self, wanted: GraphDraft) -> GraphDraft:
        return Descent(self.field, wanted, self.widest_gbs, self.total_gbs).run()

    def result(self, found: GraphDraft) -> SearchGraph:
        gpus, nets = self.field.gpus, self.field.nets
        heads = found.pattern == NVLS
        return SearchGraph(
            pattern=found.pattern,
            channels=found.channels,
            bw_intra=found.speed_intra / 1000,
            bw_inter=found.speed_inter / 1000,
            type_intra=self.version.name_of(PathType(found.type_intra)),
            type_inter=self.version.name_of(PathType(found.type_inter)),
            same_channels=found.same,
            cross_nic=found.cross_nic,
            orders=tuple(
                tuple(gpus[gpu].rank for gpu in (order[:1] if heads else order))
                for order in found.orders
            ),
            nets=tuple(
                (nets[start].dev, nets[end].dev)
                for start, end in (found.nets if self.field.inter else ())
            ),
            latency_inter_us=found.latency_us,
            estimate=self.estimate,
        )


def why_estimate(system: System, version: Version, field: Field) -> str | None:
    """Why figures may differ from the library's; None when its search is followed exactly."""
    if system.hosts > 1:
        link = library_words(version.library).link
        return f"the search over several hosts in one {link} domain was not checked"
    if numbers(version.number) < numbers("2.20"):
        return (
            f"the search of {version.library.upper()} {field.version.number} is followed, "
            "which is newer"
        )
    return None


def search_inputs(
    system: System, version: Version, settings: Settings, *, nvls: bool
) -> tuple[Hashable, ...]:
    """All that a search reads, free of object identity: equal inputs give equal graphs."""
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
