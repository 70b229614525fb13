"""The graphs that a library finds on a system (init.cc:initTransportsRank)."""

import math
from threading import Event

import msgspec

from ...hardware.terms import library_terms
from ...model.versions import numbers
from ..nodes import CPU, GPU, LOCAL_GBS, NET, PathType, System, SystemNode
from ..prediction import Graphs, SearchGraph
from ..rounding import single
from ..settings import Settings
from ..system.paths import widest_of
from ..versions import Version
from .channel_search import ChannelSearch
from .draft import BALANCED_TREE, FOUND_ALL, NVLS, RING, TREE, GraphDraft, times
from .fast.inputs import Inputs
from .fast.pruner import OUT_OF_STEPS, AttemptPruner
from .rccl_models import is_rome_like
from .ready_made import ReadyMade, ready_made
from .space import SearchSpace
from .version import Duplicates

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

# Which attempts are made, from the best graph asked for downwards (search.cc:ncclTopoCompute).
#
# First every speed from the highest down, and at each speed first the nearest paths; then, with
# the channels that were found, higher speeds again.
FALLBACK_SPEED = 100
"""MB/s of the last resort."""
WORTH_A_LOWER_SPEED = 0.49
"""A lower speed is tried while it is above this share of the best graph's."""


class GraphSearch:
    """The search for one graph."""

    def __init__(
        self, space: SearchSpace, wanted: GraphDraft, widest_gbs: float, total_gbs: float
    ) -> None:
        self.space, self.best = space, wanted
        self.widest_gbs, self.total_gbs = widest_gbs, total_gbs
        self._possible = wanted.pattern != NVLS or (space.switched and space.min_sm >= 90)
        self._cross_nic = self._requested_cross_nic()
        self._set_types()
        wanted.cross_nic = int(self._cross_nic == 1)
        if space.version.crosses_first:
            wanted.cross_nic = int(space.settings.integer("NCCL_CROSS_NIC", 2) == 1)
        wanted.same = self._same = int(wanted.pattern != NVLS)
        self._set_channels()
        self.now = wanted.copy()
        self.ladder = space.version.ladder(space.min_sm, inter=space.inter)
        self.rung = 0
        self._pruner = AttemptPruner(space, self._attempt)
        cpu = space.system.nodes[CPU]
        on_amd = bool(cpu) and (cpu[0].arch, cpu[0].vendor) == ("x86", "amd")
        self._stays_same = on_amd and space.version.amd_stays_same

    def run(self) -> GraphDraft:
        """The best graph; no channels when even the last resort does not apply."""
        if not self._possible:
            return self.best
        self._first_speed()
        left = self._pruner.search(self.now, self.best)
        ended = (FOUND_ALL, OUT_OF_STEPS)
        while left not in ended and not self._fills_links() and self._relax(left):
            left = self._pruner.search(self.now, self.best)
        at_last = self.space.version.duplicates is Duplicates.AT_LAST
        if not at_last:
            self.best.duplicate(self.space.min_sm)
        self._raise_speeds()
        if not self.best.channels and self.best.pattern != NVLS:
            self._last_resort()
        if at_last:
            self.best.duplicate(self.space.min_sm)
        return self.best

    def _attempt(self, draft: GraphDraft, best: GraphDraft) -> tuple[int, float]:
        attempt = ChannelSearch(self.space, draft, best)
        return attempt.run(), attempt.most_gbs

    # Preparation

    def _requested_cross_nic(self) -> int:
        if len(self.space.nets) < 2 or self.best.pattern not in (RING, BALANCED_TREE):
            return 0
        return self.space.settings.integer("NCCL_CROSS_NIC", 2)

    def _set_types(self) -> None:
        space, best = self.space, self.best
        several = space.count > 1
        self._nearest: int
        self._farthest: int
        self._nearest_net: int
        self._farthest_net: int
        if space.version.bounded_types:
            gpu, net = space.gpu_types, space.net_types
            self._nearest = min([*gpu, PathType.SYS]) if several else PathType.LOC
            self._farthest = max([*gpu, PathType.LOC]) if several else PathType.SYS
            self._nearest_net, self._farthest_net = PathType.PIX, PathType.SYS
            if space.bounded_by_nets:
                self._nearest_net = min([*net, PathType.SYS])
                self._farthest_net = self._farthest = max([*net, PathType.LOC])
        else:
            self._nearest = PathType.NVL if several else PathType.LOC
            self._nearest_net = PathType.PIX
            self._farthest = self._farthest_net = PathType.SYS
        if space.version.widest_inter and space.min_sm < 90:
            self._farthest_net = PathType[space.version.widest_inter]
        best.type_intra, best.type_inter = self._nearest, self._nearest_net

    def _set_channels(self) -> None:
        space, best = self.space, self.best
        if best.pattern == NVLS:
            every = space.inter and space.version.nvls_most == "all"
            heads = best.most if every else space.count
            best.most = min(space.version.most_nvls_heads, heads)
        if space.count == 1 and best.pattern != RING:
            best.pattern = TREE
        if best.pattern == NVLS and not space.inter:
            best.least = best.most
        two = space.version.split_nvlink and best.pattern == RING and splits_in_two(space.gpus)
        if two and best.most >= 2 and best.least == 1:
            best.least = 2

    def _first_speed(self) -> None:
        total = self.total_gbs
        count = len(self.space.system.devices)
        if count > 1 and self.best.pattern != RING:
            total = single(total * (count * 1.0 / (count - 1)))
        if count == 1 and not self.space.version.one_gpu_bounded:
            total = math.inf
        while self.rung < len(self.ladder) - 1 and (
            single(self.ladder[self.rung] / 1000) > self.widest_gbs
            or times(self.best.least, self.ladder[self.rung]) > total
        ):
            self.rung += 1
        self._use_rung()

    def _fills_links(self) -> bool:
        return times(self.best.channels, self.best.speed_inter) >= self.total_gbs

    # First pass: ask for less, one thing at a time

    def _relax(self, left: int | None) -> bool:
        """Change one thing; False when there is nothing left to try."""
        now, best = self.now, self.best
        if now.same and not (self._stays_same and now.type_intra == PathType.SYS):
            now.same = 0
            return True
        now.same = self._same
        self._pruner.give_back(left)
        if best.channels and self._pruner.exhausted():
            return False
        if self.space.min_sm >= 90 and now.pattern == BALANCED_TREE:
            now.pattern = TREE
            return True
        now.pattern = best.pattern
        return self._go_farther() or self._cross_nics() or self._slow_down()

    def _go_farther(self) -> bool:
        now, best = self.now, self.best
        bounded = self.space.bounded_by_nets
        farthest = now.type_inter if bounded else self._farthest
        if now.type_intra < farthest and (not best.channels or now.type_intra < best.type_intra):
            now.type_intra = self._next(now.type_intra)
            if now.type_intra < PathType.DIS:
                return True
        now.type_intra = self._nearest
        if (
            bounded
            and now.type_inter < self._farthest_net
            and (
                not best.channels
                or now.type_inter < best.type_inter
                or now.type_inter < PathType.PXN
            )
        ):
            now.type_inter = self._next(now.type_inter)
            if now.type_inter < PathType.DIS:
                return True
        now.type_inter = self._nearest_net
        return False

    def _next(self, kind: int) -> int:
        """The next farther type."""
        return next((other for other in self.space.path_types if other > kind), PathType.DIS)

    def _cross_nics(self) -> bool:
        now = self.now
        again = self.space.version.cross_nic
        allowed = again == 1 or self.best.pattern in (RING, BALANCED_TREE)
        first = self.space.version.crosses_first
        asked = self._cross_nic if first else self._cross_nic == 2
        if asked and now.cross_nic == 0 and allowed:
            now.cross_nic = again
            return True
        now.cross_nic = int(self._cross_nic == 1 and not first)
        return False

    def _slow_down(self) -> bool:
        if self.rung == len(self.ladder) - 1:
            return False
        if self.best.channels:
            lower = single(self.ladder[self.rung + 1] / 1000)
            share = single(lower / single(self.best.speed_inter / 1000))
            if share <= WORTH_A_LOWER_SPEED:
                return False
        self.rung += 1
        self._use_rung()
        return True

    def _use_rung(self) -> None:
        self.now.speed_intra = self.now.speed_inter = self.ladder[self.rung]

    # Second pass: the same channels, faster

    def _raise_speeds(self) -> None:
        best, ladder = self.best, self.ladder
        self.now = best.copy()
        self.rung = 0
        while self.rung < len(ladder) - 1 and ladder[self.rung] > best.speed_inter:
            self.rung += 1
        self._use_rung()
        self.now.least = best.channels
        left: int | None = FOUND_ALL
        # Where an attempt cannot succeed, those at higher speeds cannot either.
        while left and self.rung and self._raise():
            left = self._pruner.search(self.now, best)

    def _raise(self) -> bool:
        """Ask for the next higher speed; False when the pattern does not gain from it."""
        now, best = self.now, self.best
        higher, raises = self.ladder[self.rung - 1], self.space.version.raises
        if best.pattern == RING:
            if raises != "all":
                return False
            now.speed_intra = now.speed_inter = higher
        elif raises == "trees" and best.pattern == NVLS and now.speed_inter >= now.speed_intra * 2:
            return False
        elif (
            best.pattern == NVLS
            and raises != "intra"
            and now.speed_inter == best.speed_inter
            and now.speed_inter < now.speed_intra * 2
        ):
            now.least = now.most = best.channels
            now.speed_inter = higher
        elif now.speed_intra == best.speed_intra and now.speed_intra < now.speed_inter * 2:
            now.speed_intra = higher
        else:
            return False
        self.rung -= 1
        return True

    def _last_resort(self) -> None:
        """All GPUs in order, hardly any bandwidth: the library's simple order."""
        best, space = self.best, self.space
        best.orders = [list(range(space.count))]
        best.channels = 1
        best.type_intra = best.type_inter = PathType.SYS
        best.speed_intra = best.speed_inter = FALLBACK_SPEED
        best.nets = []
        if space.version.fallback_nets:
            ends = [space.nics.to_try(-1, gpu)[:1] for gpu in (0, space.count - 1)]
            if all(ends):
                best.nets = [(ends[0][0], ends[1][0])]
            else:
                best.speed_inter, best.type_inter = 0, PathType.DIS


def splits_in_two(gpus: list[SystemNode]) -> bool:
    """Whether NVLink makes exactly two islands of several GPUs (ncclTopoSplitNvLink)."""
    island = list(range(len(gpus)))
    for index, gpu in enumerate(gpus):
        for other in range(index + 1, len(gpus)):
            if gpu.paths[GPU][other].type is PathType.NVL:
                island[other] = island[index]
    return sum(island.count(index) > 1 for index in range(len(gpus))) == 2


def search_graphs(
    system: System, version: Version, settings: Settings, *, nvls: bool, remember: bool = True
) -> Graphs:
    """Search for the ring, the tree and, if asked, the NVLS graph.

    The paths of the system must be computed. Its best bandwidths are set on the way. `nvls`:
    the library would use NVSwitch multicast, which takes at least two GPUs. `remember`: a system
    with the same inputs may come again, as all may in a process that searches a second time. A
    system without GPUs has no graphs.
    """
    count = len(system.nodes[GPU])
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
    nets = [system.nodes[NET][net].dev for net in inputs.nets]
    ranks = [gpu.rank for gpu in system.nodes[GPU]]
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
    widest, total = limits(system, nets=bool(system.nodes[NET]))
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
        space = self.space
        alone = space.rccl and not space.system.inter
        if alone and is_rome_like(space.system, self.version, space.settings):
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
    if not nets and len(system.nodes[GPU]) == 1:
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
