"""The rings and trees that RCCL takes from a model instead of searching (its graph/search.cc).

`ncclTopoCompute` asks for a chordal ring first, then for the models of graph/rome_models.cc.
"""

from __future__ import annotations

from typing import NamedTuple

from ..nodes import PathType, System, SystemNode
from ..prediction import Graphs, SearchGraph
from ..settings import Settings
from ..system.nets import LocalNets
from ..versions import Version
from .rccl_models import RcclModel
from .recognition import match

RING, BALANCED_TREE = 4, 1
CHORDAL = "chordal ring"
CHORDAL_RINGS = (
    "0 1 2 3 5 4 7 6", "0 2 4 1 7 3 6 5", "0 3 1 5 7 2 6 4",
    "0 6 7 4 5 3 2 1", "0 5 6 3 7 1 4 2", "0 4 6 2 7 5 1 3",
)  # fmt: skip
"""Six rings over eight GPUs of which each is linked to all others but one (parseChordalRing)."""


class Ring(NamedTuple):
    """One ring: ranks in order, and the devices of the NICs at its ends."""

    order: tuple[int, ...]
    nets: tuple[int, int] | None


class ReadyMade(NamedTuple):
    """The graphs of a model, and its name."""

    name: str
    """"rome_model_81" or "chordal ring"."""
    model: RcclModel | None
    graphs: Graphs


def ready_made(
    system: System, version: Version, settings: Settings, total_gbs: float
) -> ReadyMade | None:
    """The graphs of the model that the system matches; None where RCCL searches.

    `total_gbs`: the widest sum of links of any GPU, which the rings share.
    """
    if version.library != "rccl" or settings.integer("RCCL_MODEL_MATCHING_DISABLE", 0) != 0:
        return None
    if settings.text("NCCL_RINGS") or settings.text("RCCL_TREES"):
        return None
    rings = _chordal(system)
    count = len(CHORDAL_RINGS)
    name, model = CHORDAL, None
    if not rings:
        found = match(system, version)
        if found is None:
            return None
        name, model = found.model.name, found.model
        rings = _translated(system, found.model.rings, found.gpus, found.nets)
        count = len(rings)
    if not rings:
        return None
    several = len(system.nodes["NET"]) > 1
    crosses = int(several and settings.integer("NCCL_CROSS_NIC", 2) == 1)
    # A chordal ring for each NIC keeps the share that all six have.
    each = total_gbs / count
    ring = _graph(system, version, rings, each, RING, crosses, name)
    local = LocalNets(system, version, settings)
    orders = [_to_local(system, local, order, place) for place, order in enumerate(rings)]
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
    return SearchGraph(
        pattern=pattern,
        channels=len(rings),
        bw_intra=each_gbs,
        bw_inter=each_gbs,
        # Set before anything is looked at, and left so.
        type_intra=version.name_of(PathType.NVL),
        type_inter=version.name_of(PathType.PIX),
        same_channels=1,
        cross_nic=crosses,
        orders=tuple(ring.order for ring in rings),
        nets=nets if system.inter and len(nets) == len(rings) else (),
        model=name,
    )


def _to_local(system: System, local: LocalNets, ring: Ring, channel: int) -> Ring:
    """A tree leaves by the NIC near the second GPU of its order (parseGraph)."""
    gpu = system.gpu_of(ring.order[1])
    net = local.net(gpu.index, channel) if gpu is not None else None
    if ring.nets is None or net is None:
        return ring
    return Ring(ring.order, (ring.nets[0], system.nodes["NET"][net].dev))


def _translated(
    system: System, texts: tuple[str, ...], gpus: tuple[int, ...], nets: tuple[int, ...]
) -> list[Ring]:
    """Rings of a model in ranks and NICs of this system; those of another size are left out."""
    by_dev = {gpu.dev: gpu.rank for gpu in reversed(system.nodes["GPU"])}
    count, nics = len(gpus), system.nodes["NET"]
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
    gpus = system.nodes["GPU"]
    if len(gpus) != 8:
        return []
    # The one GPU that each is not linked to, by device number.
    apart: list[int] = []
    for gpu in gpus:
        beside = {link.to.dev for link in gpu.links if link.kind == "NVL"}
        linked = [other for other in gpus if other.dev in beside]
        missing = 28 - gpu.dev - sum(other.dev for other in linked)
        if len(linked) != 6 or not 0 <= missing <= 7:
            return []
        apart.append(missing)
    names = _renamed(apart)
    if names is None:
        return []
    rings = _translated(system, CHORDAL_RINGS, names, ())
    return _from_nics(system, rings) if system.inter and system.nodes["NET"] else rings


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
    for net, ring in zip(system.nodes["NET"], rings, strict=False):
        free = [gpu for gpu in system.nodes["GPU"] if gpu.rank not in used]
        start = min(free, key=lambda gpu: (_hops(net, gpu), gpu.index)).rank
        at = ring.order.index(start)
        used.append(start)
        found.append(Ring(ring.order[at:] + ring.order[:at], (net.index, net.index)))
    return found


def _hops(net: SystemNode, gpu: SystemNode) -> int:
    return net.paths["GPU"][gpu.index].hops
