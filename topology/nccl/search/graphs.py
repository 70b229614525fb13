"""The graphs that a library finds on a system (init.cc:initTransportsRank)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from threading import Event

import msgspec

from ...hardware.words import library_words
from ...model.versions import numbers
from ..nodes import LOCAL_GBS, Kind, PathType, System, SystemLink, SystemPath
from ..prediction import Graphs, SearchGraph
from ..rounding import single
from ..settings import Settings
from ..system.paths import widest_of
from ..versions import Version
from .descent import Descent
from .draft import BALANCED_TREE, NVLS, RING, GraphDraft
from .field import Field
from .nics import EVERY
from .rccl_models import is_rome_like
from .ready_made import ReadyMade, ready_made

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

# All that a search reads of a system, with numbers in place of names.
#
# Two systems with equal inputs have equal graphs, up to the names of GPUs and NICs: a search reads
# nothing but what stands here. GPUs keep their order, which decides between equals. NICs are taken
# in the order in which the search tries them, links in the order in which paths cross them.
try:
    from _blake2 import blake2b  # `hashlib` loads OpenSSL, which takes 3 MiB
except ImportError:
    from hashlib import blake2b

VARIABLES = (
    "NCCL_CROSS_NIC",
    "NCCL_NETDEVS_POLICY",
    "NCCL_MNNVL_SCATTER_NETS_ENABLE",
    "NCCL_MNNVL_RAIL_PER_HOST",
)
"""The variables that the search itself reads; others act through paths."""

ANYWHERE = -1
"""A path type nearer than all: only the preferred NICs are within it."""


class Inputs:
    """The inputs of one search."""

    def __init__(self, field: Field, version: Version, settings: Settings, *, nvls: bool) -> None:
        self._field, self._nvls = field, nvls
        self._version, self._settings = version, settings
        self._numbers: dict[SystemLink, int] = {}
        self.nets = self._nets_in_order()
        """NICs by index in `System.nodes`, in the order in which they are numbered here."""
        self._places = {net: place for place, net in enumerate(self.nets)}

    def digest(self) -> bytes:
        """Equal where all inputs are; they themselves would take megabytes."""
        paths = self._path_figures()
        every = (
            self._head(),
            [self._gpu(index) for index in range(self._field.count)],
            self._net_figures(),
            list(self._lists()),
            paths,
            self._link_figures(),
        )
        return blake2b(msgspec.msgpack.encode(every), digest_size=32).digest()

    def _head(self) -> list[object]:
        field, system, version = self._field, self._field.system, self._version
        cpu = system.nodes["CPU"][:1]
        rules = field.version
        older = numbers(version.number) < numbers(rules.number)
        return [
            version.library,
            version.path_types,
            version.path_names,
            version.kinds_apart,
            # Versions that search alike come to the same graphs.
            msgspec.structs.replace(rules, number=rules.number * older, after=None, tested=False),
            self._nvls,
            system.inter,
            system.hosts,
            system.widest,
            len(system.withdrawn),
            field.count,
            field.min_sm,
            field.switched,
            is_rome_like(system),
            [(one.arch, one.vendor) == ("x86", "amd") for one in cpu],
            [repr(self._settings.text(name)) for name in VARIABLES],
        ]

    def _nets_in_order(self) -> list[int]:
        field = self._field
        tried = field.nics.to_try(max(field.net_types), EVERY) if self._tries_nics else ()
        return [*dict.fromkeys((*tried, *range(len(field.nets))))]

    @property
    def _tries_nics(self) -> bool:
        return self._field.inter and bool(self._field.nets) and bool(self._field.net_types)

    def _gpu(self, index: int) -> list[object]:
        gpu = self._field.gpus[index]
        # `limits` sums them up in this order, and what is rounded depends on it.
        sums = [(link.kind, link.bandwidth_gbs) for link in gpu.links]
        return [sums, [self._number(link) for link in self._field.orders.pci[index]]]

    def _net_figures(self) -> list[object]:
        nets, nics = self._field.nets, self._field.nics
        found: list[object] = []
        same: dict[Hashable, int] = {}
        for index in self.nets:
            net = nets[index]
            names: Iterable[Hashable]
            names = (net.asic, net.port), ("pci", net.pci_ident, net.port), ("host", net.host)
            found.append(
                (
                    net.speed_gbs,
                    net.latency_us,
                    nics.owner(index),
                    [same.setdefault(name, len(same)) for name in names],
                    [link.bandwidth_gbs for link in net.links],
                )
            )
        return found

    def _lists(self) -> Iterator[list[int]]:
        """The NICs to try within each path type that exists, by GPU."""
        field = self._field
        if not field.nets:
            return
        farthest, gpus = [ANYWHERE], [0, field.count - 1]
        if self._tries_nics:
            farthest += field.net_types
            gpus = [EVERY, *range(field.count)]
        for kind in farthest:
            for gpu in gpus:
                yield [self._places[net] for net in field.nics.to_try(kind, gpu)]

    def _paths(self) -> Iterator[SystemPath]:
        nodes = self._field.system.nodes
        switches: tuple[tuple[Kind, Kind], ...] = (("GPU", "NVS"), ("NVS", "GPU"))
        for gpu in self._field.gpus:
            yield from gpu.paths["GPU"]
        for gpu in self._field.gpus:
            ways = gpu.paths.get("NET", ())
            yield from (ways[net] for net in self.nets if net < len(ways))
        for net in self.nets:
            yield from self._field.nets[net].paths.get("GPU", ())
        for start, end in switches:
            for node in nodes[start]:
                yield from node.paths.get(end, ())

    def _path_figures(self) -> list[object]:
        """Types, bandwidths and links of all paths, in rows: of many GPUs there are thousands."""
        paths = [*self._paths()]
        links = [link for path in paths for link in path.links]
        self._numbers.update((link, at) for at, link in enumerate(dict.fromkeys(links)))
        return [
            [path.type for path in paths],
            [path.bandwidth_gbs for path in paths],
            [len(path.links) for path in paths],
            [*map(self._numbers.__getitem__, links)],
        ]

    def _number(self, link: SystemLink) -> int:
        return self._numbers.setdefault(link, len(self._numbers))

    def _link_figures(self) -> list[object]:
        backs = self._field.ledger.backs
        found: list[object] = []
        links = [*self._numbers]
        # What leads back is numbered too, and has figures of its own.
        for link in links:
            to, back, number = link.to, backs.get(id(link)), None
            if back is not None:
                number = self._number(back)
                if number == len(links):
                    links.append(back)
            found.append(
                (
                    link.kind,
                    link.bandwidth_gbs,
                    (to.kind, to.sm < 80, to.arch == "power"),
                    (to.arch, to.vendor) == ("x86", "intel"),
                    number,
                )
            )
        return found


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
    if version.library == "rccl":
        known_node = known_to_rccl(system, version, settings)
        if known_node is not None:
            return known_node.graphs
    field = Field(system, version, settings, nvls=nvls)
    if field.version.needs_nics and field.inter and not all(map(field.nics.serve, range(count))):
        system.refuse("a GPU reaches no NIC, and there are ranks outside its node or domain")
    inputs = Inputs(field, version, settings, nvls=nvls)
    remember = remember or _searched.is_set()
    _searched.set()
    digest = inputs.digest() if remember else b""
    found = _remembered.get(digest)
    if found is None:
        found = _search(field, version, inputs.nets, nvls=nvls)
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
    """What RCCL uses instead of a search; sets the best bandwidths when there is something."""
    widest, total = limits(system, nets=bool(system.nodes["NET"]))
    found = ready_made(system, version, settings, total)
    if found is not None:
        system.max_bandwidth_gbs, system.total_bandwidth_gbs = widest, total
    return found


def _search(field: Field, version: Version, nets: list[int], *, nvls: bool) -> Found:
    search = _Search(field, version, nets)
    return search.graphs(nvls=nvls), search.widest_gbs, search.total_gbs


class _Search:
    def __init__(self, field: Field, version: Version, nets: list[int]) -> None:
        self.field, self.version = field, version
        self.places = {net: place for place, net in enumerate(nets)}
        self.widest_gbs, self.total_gbs = limits(field.system, nets=field.bounded_by_nets)
        if field.count == 1 and not field.inter and not field.version.one_gpu_bounded:
            self.total_gbs = 0.0  # the library leaves it unset
        self.estimate = why_estimate(field.system, version, field)

    def graphs(self, *, nvls: bool) -> Graphs:
        most = self.field.version.max_channels // 2
        if self.field.rccl and not self.field.system.inter and is_rome_like(self.field.system):
            most = MOST_ON_ROME
        ring = self.find(GraphDraft(RING, least=1, most=most))
        thin = self.field.version.thin_trees and bool(self.field.nets)
        least = 1 if thin else ring.channels
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
                for start, end in (found.nets if self.field.inter else ())
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


def why_estimate(system: System, version: Version, field: Field) -> str | None:
    """Why figures may differ from the library's; None when its search is followed exactly."""
    if system.hosts > 1:
        link = library_words(version.library).link
        return f"the search over several hosts in one {link} domain was not checked"
    if numbers(version.number) < numbers(field.version.number):
        return (
            f"the search of {version.library.upper()} {field.version.number} is followed, "
            "which is newer"
        )
    return None
