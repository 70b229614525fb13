"""The rings and trees that RCCL takes from a model instead of searching (its graph/search.cc).

`ncclTopoCompute` asks for a chordal ring first, then for the models of graph/rome_models.cc.
"""

from typing import NamedTuple

from ..nodes import CPU, GPU, NET, NVLINK, PathType, System, SystemNode
from ..prediction import Graphs, SearchGraph
from ..settings import Settings
from ..system.nets import LocalNets
from ..versions import Version
from .rccl_models import RcclModel, is_asked, shape_of
from .recognition import match
from .version import search_version

RING, BALANCED_TREE = 4, 1
CHORDAL = "chordal ring"
CHORDAL_RINGS = (
    "0 1 2 3 5 4 7 6", "0 2 4 1 7 3 6 5", "0 3 1 5 7 2 6 4",
    "0 6 7 4 5 3 2 1", "0 5 6 3 7 1 4 2", "0 4 6 2 7 5 1 3",
)  # fmt: skip
"""Six rings over eight GPUs of which each is linked to all others but one (parseChordalRing)."""
GIO = "two islands of eight"
GIO_RINGS = (
    "0 1 2 3 4 5 7 6 12 13 14 15 8 9 11 10", "2 7 3 5 1 6 0 4 14 9 15 10 13 11 12 8",
    "1 3 0 7 4 6 2 5 13 15 11 8 10 14 12 9", "3 6 5 0 2 4 1 7 15 12 10 9 13 8 14 11",
    "10 11 9 8 15 14 13 12 6 7 5 4 3 2 1 0", "8 12 11 13 10 15 9 14 4 0 6 1 5 3 7 2",
    "9 12 14 10 8 11 15 13 5 2 6 4 7 0 3 1", "11 14 8 13 9 10 12 15 7 1 4 2 0 5 6 3",
)  # fmt: skip
"""Eight rings over two islands of eight GPUs without a NIC in the graph (parseGIOTopos)."""


class Ring(NamedTuple):
    """One ring: ranks in order, and the devices of the NICs at its ends."""

    order: tuple[int, ...]
    nets: tuple[int, int] | None


class ReadyMade(NamedTuple):
    """The graphs of a model, and its name."""

    name: str
    """RCCL's word: "rome_model_81", "chordal ring" or "two islands of eight"."""
    model: RcclModel | None
    graphs: Graphs


def ready_made(
    system: System, version: Version, settings: Settings, total_gbs: float
) -> ReadyMade | None:
    """The graphs of the model that the system matches; None where RCCL searches.

    `total_gbs`: the widest sum of links of any GPU, which the rings share.
    """
    if not version.is_rccl or not is_asked(settings):
        return None
    rings = _chordal(system)
    count = len(CHORDAL_RINGS)
    name, model = CHORDAL, None
    trees: list[Ring] = []
    if not rings:
        found = match(system, version)
        devices = _devices(system, version)
        if found is not None:
            name, model = found.model.name, found.model
            gpus = tuple(devices[gpu] for gpu in found.gpus)
            rings = _translated(system, found.model.rings, gpus, found.nets)
            if found.all_to_all:
                # The library does not turn these into device numbers.
                trees = _translated(
                    system, _rails(found.model, version, settings), found.gpus, found.nets
                )
        elif version.gio_rings:
            name, rings = GIO, _two_islands(system, version, devices)
        count = len(rings)
    if not rings:
        return None
    several = len(system.nodes[NET]) > 1
    crosses = int(several and settings.integer("NCCL_CROSS_NIC", 2) == 1)
    # A chordal ring for each NIC keeps the share that all six have.
    each = total_gbs / count
    ring = _graph(system, version, rings, each, RING, crosses, name)
    local = LocalNets(system, version, settings)
    shapes = trees or rings
    orders = [_to_local(system, local, order, place) for place, order in enumerate(shapes)]
    each = total_gbs / len(trees) if trees else each
    tree = _graph(system, version, orders, each, BALANCED_TREE, crosses, name)
    return ReadyMade(name, model, Graphs(ring=ring, tree=tree))


def _graph(
    system: System,
    version: Version,
    rings: list[Ring],
    each_gbs: float,
    pattern: int,
    crosses: int,
    name: str,
) -> SearchGraph:
    nets = tuple(ring.nets for ring in rings if ring.nets is not None)
    intra, inter = PathType.NVL, PathType.PIX
    if search_version(version).bounded_types:
        intra, inter = _nearest_types(system)
    return SearchGraph(
        pattern=pattern,
        channels=len(rings),
        bw_intra=each_gbs,
        bw_inter=each_gbs,
        # Set before anything is looked at, and left so.
        type_intra=version.name_of(intra),
        type_inter=version.name_of(inter),
        same_channels=1,
        cross_nic=crosses,
        orders=tuple(ring.order for ring in rings),
        nets=nets if system.inter and len(nets) == len(rings) else (),
        model=name,
    )


def _devices(system: System, version: Version) -> list[int]:
    """The device number of each GPU of a shape; older versions take its place for that."""
    devices = sorted(gpu.dev for gpu in system.nodes[GPU])
    return devices if version.linked_by_path else list(range(len(devices)))


def _rails(model: RcclModel, version: Version, settings: Settings) -> tuple[str, ...]:
    if settings.integer("RCCL_DISABLE_RAIL_TREES", 0) != 0:
        return ()
    return model.rail_trees(version)


def _two_islands(system: System, version: Version, devices: list[int]) -> list[Ring]:
    """Rings over sixteen GPUs in two islands, each GPU linked to seven (parseGIOTopos)."""
    if len(devices) != 16 or len(system.nodes[CPU]) > 2 or system.nodes[NET]:
        return []
    shape = shape_of(system, version)
    islands: list[list[int]] = []
    for gpu in range(16):
        home = next((island for island in islands if shape.links[gpu][island[0]]), None)
        if home is None:
            islands.append([gpu])
        else:
            home.append(gpu)
    if shape.most_links != 7 or [len(island) for island in islands] != [8, 8]:
        return []
    gpus = tuple(devices[gpu] for island in islands for gpu in island)
    return _translated(system, GIO_RINGS, gpus, ())


def _nearest_types(system: System) -> tuple[PathType, PathType]:
    """The nearest path between two GPUs, and from a GPU to a NIC."""
    gpus = system.nodes[GPU]
    between = [
        path.type for gpu in gpus for path in gpu.paths[GPU] if path.type is not PathType.LOC
    ]
    to_nets = [path.type for gpu in gpus for path in gpu.paths.get(NET, ())]
    return min(between, default=PathType.LOC), min(to_nets, default=PathType.PIX)


def _to_local(system: System, local: LocalNets, ring: Ring, channel: int) -> Ring:
    """A tree leaves by the NIC near the second GPU of its order (parseGraph)."""
    gpu = system.gpu_of(ring.order[1])
    net = local.net(gpu.index, channel) if gpu is not None else None
    if ring.nets is None or net is None:
        return ring
    return Ring(ring.order, (ring.nets[0], system.nodes[NET][net].dev))


def _translated(
    system: System, texts: tuple[str, ...], gpus: tuple[int, ...], nets: tuple[int, ...]
) -> list[Ring]:
    """Rings of a model in ranks and NICs of this system; those of another size are left out."""
    by_dev = {gpu.dev: gpu.rank for gpu in reversed(system.nodes[GPU])}
    count, nics = len(gpus), system.nodes[NET]
    rings: list[Ring] = []
    for text in texts:
        words = text.split()
        places = [int(word) for word in words if not word.startswith("N")]
        ends = [int(word[1:]) for word in words if word.startswith("N")]
        if len(places) != count or sorted(places) != list(range(count)) or len(ends) % 2:
            continue
        order = tuple(by_dev.get(gpus[place], -1) for place in places)
        if -1 in order:
            return []
        between: tuple[int, int] | None = None
        if ends:
            first, last = (nets[end] if end < len(nets) else end for end in (ends[0], ends[-1]))
            if first >= len(nics) or last >= len(nics):
                continue
            between = (first, last)
        elif nics:
            at = len(rings)
            between = (nics[at % len(nics)].dev, nics[(at + 1) % len(nics)].dev)
        rings.append(Ring(order, between))
    return rings


def _chordal(system: System) -> list[Ring]:
    gpus = system.nodes[GPU]
    if len(gpus) != 8:
        return []
    # The one GPU that each is not linked to, by device number.
    apart: list[int] = []
    for gpu in gpus:
        beside = {link.to.dev for link in gpu.links if link.kind is NVLINK}
        linked = [other for other in gpus if other.dev in beside]
        missing = 28 - gpu.dev - sum(other.dev for other in linked)
        if len(linked) != 6 or not 0 <= missing <= 7:
            return []
        apart.append(missing)
    names = _renamed(apart)
    if names is None:
        return []
    rings = _translated(system, CHORDAL_RINGS, names, ())
    return _from_nics(system, rings) if system.inter and system.nodes[NET] else rings


def _renamed(apart: list[int]) -> tuple[int, ...] | None:
    """Names for which GPU i is apart from GPU 7 - i, by RCCL's exchanges."""
    apart, names = list(apart), list(range(8))
    for i in range(8):
        if apart[i] == 7 - i:
            continue
        j = next((j for j in range(i + 1, 8) if apart[j] == 7 - i), None)
        if j is None:
            return None
        m, n = apart[i], apart[j]
        apart[i], apart[j] = n, m
        names[m], names[n] = names[n], names[m]
        apart[m], apart[n] = apart[n], apart[m]
    return tuple(names)


def _from_nics(system: System, rings: list[Ring]) -> list[Ring]:
    """A ring for each NIC, turned so that it starts at a GPU near it that no other starts at."""
    used: list[int] = []
    found: list[Ring] = []
    for net, ring in zip(system.nodes[NET], rings, strict=False):
        free = [gpu for gpu in system.nodes[GPU] if gpu.rank not in used]
        start = min(free, key=lambda gpu: (_hops(net, gpu), gpu.index)).rank
        at = ring.order.index(start)
        used.append(start)
        found.append(Ring(ring.order[at:] + ring.order[:at], (net.index, net.index)))
    return found


def _hops(net: SystemNode, gpu: SystemNode) -> int:
    return net.paths[GPU][gpu.index].hops
