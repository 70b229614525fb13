"""The graphs that a library finds on a system (init.cc:initTransportsRank)."""

from threading import Event

import msgspec

from ...hardware.terms import library_terms
from ...model.versions import numbers
from ..nodes import LOCAL_GBS, PathType, System
from ..prediction import Graphs, SearchGraph
from ..rounding import single
from ..settings import Settings
from ..system.paths import widest_of
from ..versions import Version
from .draft import BALANCED_TREE, NVLS, RING, GraphDraft
from .fast.inputs import Inputs
from .graph_search import GraphSearch
from .rccl_models import is_rome_like
from .ready_made import ReadyMade, ready_made
from .space import SearchSpace

REMEMBERED = 128
MOST_ON_ROME = 2
"""Rings that RCCL searches for where GPUs have xGMI and it knows no model of the node."""

Found = tuple[Graphs, float, float]
"""Graphs, and the best bandwidths of the system; GPUs by index, NICs by number in the inputs."""
_remembered: dict[bytes, Found] = {}
"""Graphs by the inputs of their search: what-if questions often leave a system as it is, and the
domains of a node are often alike."""

_searched = Event()
"""Whether this process has searched before: a command that predicts once saves the digest."""


def search_graphs(
    system: System, version: Version, settings: Settings, *, nvls: bool, remember: bool = True
) -> Graphs:
    """Search for the ring, the tree and, if asked, the NVLS graph.

    The paths of the system must be computed. Its best bandwidths are set on the way. `nvls`:
    the library would use NVSwitch multicast, which takes at least two GPUs. `remember`: a system
    with the same inputs may come again, as all may in a process that searches a second time. A
    system without GPUs has no graphs.
    """
    count = len(system.nodes["GPU"])
    if not count:
        return Graphs()
    if version.is_rccl:
        known_node = known_to_rccl(system, version, settings)
        if known_node is not None:
            return known_node.graphs
    space = SearchSpace(system, version, settings, nvls=nvls)
    if space.version.needs_nics and space.inter and not all(map(space.nics.serve, range(count))):
        system.refuse("a GPU reaches no NIC, and there are ranks outside its node or domain")
    inputs = Inputs(space, version, settings, nvls=nvls)
    remember = remember or _searched.is_set()
    _searched.set()
    digest = inputs.digest() if remember else b""
    found = _remembered.get(digest)
    if found is None:
        found = _search(space, version, inputs.nets, nvls=nvls)
        if len(_remembered) >= REMEMBERED:
            _remembered.clear()
        if remember:
            _remembered[digest] = found
    graphs, system.max_bandwidth_gbs, system.total_bandwidth_gbs = found
    nets = [system.nodes["NET"][net].dev for net in inputs.nets]
    ranks = [gpu.rank for gpu in system.nodes["GPU"]]
    return Graphs(
        ring=_named(graphs.ring, ranks, nets),
        tree=_named(graphs.tree, ranks, nets),
        nvls=_named(graphs.nvls, ranks, nets),
    )


def _named(graph: SearchGraph | None, ranks: list[int], nets: list[int]) -> SearchGraph | None:
    """A graph with ranks and device numbers."""
    if graph is None:
        return None
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    for order in graph.orders:
        if order not in known:
            known[order] = tuple(ranks[gpu] for gpu in order)
    return msgspec.structs.replace(
        graph,
        orders=tuple(known[order] for order in graph.orders),
        nets=tuple((nets[start], nets[end]) for start, end in graph.nets),
    )


def known_to_rccl(system: System, version: Version, settings: Settings) -> ReadyMade | None:
    """The graphs that RCCL uses instead of a search; sets the best bandwidths if there are any."""
    widest, total = limits(system, nets=bool(system.nodes["NET"]))
    found = ready_made(system, version, settings, total)
    if found is not None:
        system.max_bandwidth_gbs, system.total_bandwidth_gbs = widest, total
    return found


def _search(space: SearchSpace, version: Version, nets: list[int], *, nvls: bool) -> Found:
    search = _Search(space, version, nets)
    return search.graphs(nvls=nvls), search.widest_gbs, search.total_gbs


class _Search:
    def __init__(self, space: SearchSpace, version: Version, nets: list[int]) -> None:
        self.space, self.version = space, version
        self.places = {net: place for place, net in enumerate(nets)}
        self.widest_gbs, self.total_gbs = limits(space.system, nets=space.bounded_by_nets)
        if space.count == 1 and not space.inter and not space.version.one_gpu_bounded:
            self.total_gbs = 0.0  # the library leaves it unset
        self.estimate = why_estimate(space.system, version, space)

    def graphs(self, *, nvls: bool) -> Graphs:
        most = self.space.version.max_channels // 2
        if self.space.rccl and not self.space.system.inter and is_rome_like(self.space.system):
            most = MOST_ON_ROME
        ring = self.find(GraphDraft(RING, least=1, most=most))
        thin = self.space.version.thin_trees and bool(self.space.nets)
        least = 1 if thin else ring.channels
        tree = self.find(GraphDraft(BALANCED_TREE, least=least, most=ring.channels))
        heads = None
        if nvls:
            heads = self.find(GraphDraft(NVLS, least=1, most=self.space.version.max_channels))
        return Graphs(
            ring=self.result(ring),
            tree=self.result(tree),
            nvls=None if heads is None else self.result(heads),
        )

    def find(self, wanted: GraphDraft) -> GraphDraft:
        return GraphSearch(self.space, wanted, self.widest_gbs, self.total_gbs).run()

    def result(self, found: GraphDraft) -> SearchGraph:
        places = self.places
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
            orders=tuple(tuple(order[:1] if heads else order) for order in found.orders),
            nets=tuple(
                (places[start], places[end])
                for start, end in (found.nets if self.space.inter else ())
            ),
            latency_inter_us=found.latency_us,
            estimate=self.estimate,
        )


def limits(system: System, *, nets: bool) -> tuple[float, float]:
    """(widest path of any GPU, widest sum of links of any GPU) in GB/s, where the search starts.

    The best that a machine can do (search.cc:ncclTopoSearchInit). `nets`: paths count to the NICs,
    else to the other GPUs.
    """
    if not nets and len(system.nodes["GPU"]) == 1:
        return LOCAL_GBS, LOCAL_GBS
    widest = system.widest or widest_of(system)
    return single(widest.to_nets_gbs if nets else widest.between_gbs), widest.links_gbs


def why_estimate(system: System, version: Version, space: SearchSpace) -> str | None:
    """Why figures may differ from the library's; None when its search is followed exactly."""
    if system.hosts > 1:
        link = library_terms(version.library).link
        return f"the search over several hosts in one {link} domain was not checked"
    if numbers(version.number) < numbers(space.version.number):
        return (
            f"the search of {version.library.upper()} {space.version.number} is followed, "
            "which is newer"
        )
    return None
