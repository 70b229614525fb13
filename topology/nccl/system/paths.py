"""The best path from every node to every other (graph/paths.cc:ncclTopoSetPaths)."""

from typing import NamedTuple

from ..nodes import (
    CPU,
    GPU,
    LOCAL_GBS,
    NET,
    NIC,
    NVLINK,
    NVS,
    PCI,
    PCIE,
    LinkKind,
    PathType,
    System,
    SystemKind,
    SystemLink,
    SystemNode,
    SystemPath,
    Widest,
)
from ..rounding import single
from ..settings import Settings
from ..versions import PathPreference, Version
from .nets import nearest

BASES: tuple[SystemKind, ...] = (CPU, GPU, NET, NVS)
"""Kinds that paths lead to, in the order they are computed."""

LINK_TYPES: dict[LinkKind, PathType] = {
    LinkKind.LOC: PathType.LOC,
    NVLINK: PathType.NVL,
    LinkKind.C2C: PathType.C2C,
    PCIE: PathType.PIX,
    LinkKind.SYS: PathType.SYS,
    LinkKind.NET: PathType.LOC,  # only the way between NIC and GPU matters
}


WIDEST_TO: tuple[SystemKind, SystemKind] = (GPU, NET)

LEADS: dict[SystemKind, tuple[SystemKind, ...]] = {
    GPU: (GPU, NVS, CPU, NET),
    NVS: (GPU,),
    CPU: (GPU, NET),
    NET: (GPU, CPU),
}
"""The kinds that a path is kept to, by the kind that it begins at: those that are asked for."""


def set_all_paths(system: System, version: Version, settings: Settings) -> None:
    """Forget all paths and compute them again."""
    for nodes in system.nodes.values():
        for node in nodes:
            node.paths = {kind: [] for kind in LEADS.get(node.kind, ())}
    walk = _Walk(system, version, settings)
    for kind in BASES:
        for base in system.nodes[kind]:
            walk.run(base)
    for gpu in system.nodes[GPU]:
        gpu.cpu = local_cpu(gpu, version)


class _Onward(NamedTuple):
    """A link out of a node, with what a walk asks of it."""

    to: int
    """Number of the node at its end."""
    bandwidth_gbs: float
    step: PathType
    """The type of the way over this link alone."""
    back: SystemLink | None
    """The first link of the same kind the other way."""


class _Walk:
    """Search breadth-first from one node for the ways back to it; nodes are numbered."""

    def __init__(self, system: System, version: Version, settings: Settings) -> None:
        self.system = system
        self.relays = version.relays and not settings.integer("NCCL_NVB_DISABLE", 0)
        """A path may pass through a GPU by one NVLink or xGMI link to another GPU, once."""
        self.rccl = version.is_rccl
        self.nearest_first = version.path_preference is PathPreference.TYPE
        self.nodes = [node for nodes in system.nodes.values() for node in nodes]
        self.number = {id(node): number for number, node in enumerate(self.nodes)}
        self.gpus = [self.number[id(gpu)] for gpu in system.nodes[GPU]]
        self.asking = {
            kind: [at for at, node in enumerate(self.nodes) if kind in LEADS.get(node.kind, ())]
            for kind in BASES
        }
        """Numbers of the nodes whose paths to a kind are kept."""
        self.is_gpu = [node.kind is GPU for node in self.nodes]
        back: dict[tuple[int, int, str], SystemLink] = {}
        for node in self.nodes:
            for link in node.links:
                back.setdefault((id(node), id(link.to), self._kind(version, link)), link)
        self.onward = [
            [
                _Onward(
                    self.number[id(link.to)],
                    link.bandwidth_gbs,
                    _step(node, link),
                    back.get((id(link.to), id(node), self._kind(version, link))),
                )
                for link in node.links
            ]
            for node in self.nodes
        ]
        self.to_gpus = {
            gpu: [
                onward
                for onward, link in zip(self.onward[gpu], self.nodes[gpu].links, strict=True)
                if link.kind is NVLINK and link.to.kind is GPU
            ]
            for gpu in self.gpus
        }
        """NVLink or xGMI from each GPU to others."""
        joins = (link for gpu in system.nodes[GPU] for link in gpu.links if link.kind is NVLINK)
        self.most_gbs = max((link.bandwidth_gbs for link in joins), default=0.0)
        """Of one NVLink or xGMI joint."""
        self.past_nets = self.without_nets()

    @staticmethod
    def _kind(version: Version, link: SystemLink) -> str:
        """The kind that a link back must share with a link."""
        return link.kind if version.kinds_apart else ""

    def without_nets(self) -> list[list[_Onward]]:
        """The links without those to NICs: behind them are only NICs, and no path joins two."""
        leaves = {
            number
            for number, node in enumerate(self.nodes)
            if node.kind is NET
            or (node.kind is NIC and sum(link.to.kind is not NET for link in node.links) <= 1)
        }
        return [
            onward
            if node.kind is NET
            else [one for one in onward if one.to not in leaves or one.back is None]
            for node, onward in zip(self.nodes, self.onward, strict=True)
        ]

    def run(self, base: SystemNode) -> None:
        """Find the ways of all nodes to `base`, and keep those that are asked for."""
        onward = self.past_nets if base.kind is NET else self.onward
        types, rates, ways = self.walk(self.number[id(base)], onward)
        kind = base.kind
        for number in self.asking[kind]:
            path = SystemPath(types[number], rates[number], ways[number])
            self.nodes[number].paths[kind].append(path)

    def walk(
        self, start: int, onward: list[list[_Onward]]
    ) -> tuple[list[PathType], list[float], list[tuple[SystemLink, ...]]]:
        """Type, bandwidth and links of the way from each node to `start`.

        Source: graph/paths.cc:ncclTopoSetPaths.
        """
        count = len(self.nodes)
        types, rates = [PathType.DIS] * count, [0.0] * count
        ways: list[tuple[SystemLink, ...]] = [()] * count
        types[start], rates[start] = PathType.LOC, LOCAL_GBS
        is_gpu, nearest_first = self.is_gpu, self.nearest_first
        ends_at_gpus = self.rccl and not self.relays
        frontier = [start]
        while frontier:
            reached: dict[int, None] = {}
            least_gbs: float | None = None
            for node in frontier:
                kind, width, links = types[node], rates[node], ways[node]
                hops = len(links)
                found = onward[node]
                joint = PathType.NVL
                if links and is_gpu[node]:
                    if not self.relays or hops > 1:
                        continue
                    if least_gbs is None:
                        least_gbs = self.least_gbs(rates)
                    if min(width, self.most_gbs) <= least_gbs:
                        continue  # no GPU behind this one gains by it
                    found = self.to_gpus[node]
                    if kind is PathType.NVL and not self.rccl:
                        joint = PathType.NVB
                for far, gbs, step, back in found:
                    known = rates[far]
                    if gbs > width:
                        gbs = width
                    if known >= gbs and not nearest_first:
                        continue
                    if step is PathType.NVL:
                        step = joint
                    if step < kind:
                        step = kind
                    if nearest_first:
                        if (step, -gbs, hops + 1) >= (types[far], -known, len(ways[far])):
                            continue
                    # The type plays no part: the wider way wins if it is not longer.
                    elif known and len(ways[far]) <= hops:
                        continue
                    if back is None:
                        # The library keeps the first link of the path it replaces, and gives up
                        # without one.
                        if not ways[far]:
                            self.system.refuse(_one_way(self.nodes[node], self.nodes[far]))
                            continue
                        back = ways[far][0]
                    ways[far] = (back, *links)
                    rates[far], types[far] = gbs, step
                    if not (ends_at_gpus and is_gpu[far]):
                        reached[far] = None
            frontier = list(reached)
        return types, rates, ways

    def least_gbs(self, rates: list[float]) -> float:
        """The narrowest way from a GPU so far; below all where type comes first."""
        if self.nearest_first:
            return -1.0
        return min((rates[gpu] for gpu in self.gpus), default=0.0)


def _step(node: SystemNode, link: SystemLink) -> PathType:
    """The type of the way over one link out of a node."""
    if link.kind is PCIE and CPU in (node.kind, link.to.kind):
        return PathType.PHB
    if node.kind is PCI and link.to.kind is PCI:
        return PathType.PXB
    return LINK_TYPES[link.kind]


def _one_way(node: SystemNode, to: SystemNode) -> str:
    names = [f"GPU {end.bus_id}" if end.kind is GPU else end.kind for end in (node, to)]
    return f"a link leads from {names[0]} to {names[1]} and none back"


def local_cpu(gpu: SystemNode, version: Version) -> int | None:
    """Index of the CPU with the fewest hops; None when none is reachable.

    NCCL 2.30.7 asks for the widest path and the nearest type first (ncclGetLocalCpu).
    """
    ways = gpu.paths[CPU]
    near = [index for index, path in enumerate(ways) if path.links]
    if version.path_preference is PathPreference.TYPE:
        near = nearest(gpu, CPU)[0]
    return min(near, key=lambda index: ways[index].hops, default=None)


def widest_of(system: System) -> Widest:
    """The most of any GPU, over the present paths (search.cc:ncclTopoSearchInit)."""
    gpus = system.nodes[GPU]
    between, to_nets = (
        max(
            (way.bandwidth_gbs for gpu in gpus for way in gpu.paths.get(kind, ()) if way.links),
            default=0.0,
        )
        for kind in WIDEST_TO
    )
    return Widest(between, to_nets, max((_links_gbs(gpu) for gpu in gpus), default=0.0))


def _links_gbs(gpu: SystemNode) -> float:
    nvlink = pci = 0.0
    for link in gpu.links:
        if link.kind is NVLINK:
            nvlink = single(nvlink + link.bandwidth_gbs)
        elif link.kind is PCIE:
            pci = single(link.bandwidth_gbs)
    return max(pci, nvlink)


def divert(via: SystemNode, src: SystemNode, dst: SystemNode, version: Version) -> SystemPath:
    """Replace a path by the one through a third node (graph/paths.cc:addInterStep)."""
    first = src.paths[via.kind][via.index]
    second = via.paths[dst.kind][dst.index]
    kind = max(first.type, second.type)
    if version.merges_paths:
        kind = merged(first.type, second.type)
    path = SystemPath(
        PathType.PXN if via.kind is GPU else kind,
        min(first.bandwidth_gbs, second.bandwidth_gbs),
        first.links + second.links,
    )
    src.paths[dst.kind][dst.index] = path
    return path


def merged(one: PathType, other: PathType) -> PathType:
    """The type of two paths in a row: PHB after C2C is P2C, else the farther one."""
    low, high = (one, other) if one < other else (other, one)
    if high is PathType.PHB and low is PathType.C2C:
        return PathType.P2C
    return high
