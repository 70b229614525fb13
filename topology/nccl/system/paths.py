"""The best path from every node to every other (graph/paths.cc:ncclTopoSetPaths)."""

from __future__ import annotations

from typing import NamedTuple

from ..nodes import (
    KINDS,
    LOCAL_GBS,
    Kind,
    LinkKind,
    PathType,
    System,
    SystemLink,
    SystemNode,
    SystemPath,
)
from ..settings import Settings
from ..versions import Version
from .nets import nearest

BASES: tuple[Kind, ...] = ("CPU", "GPU", "NET", "NVS")
"""Kinds that paths lead to, in the order they are computed."""

LINK_TYPES: dict[LinkKind, PathType] = {
    "LOC": PathType.LOC,
    "NVL": PathType.NVL,
    "C2C": PathType.C2C,
    "PCI": PathType.PIX,
    "SYS": PathType.SYS,
    "NET": PathType.LOC,  # only the way between NIC and GPU matters
}


def set_all_paths(system: System, version: Version, settings: Settings) -> None:
    """Forget all paths and compute them again."""
    for nodes in system.nodes.values():
        for node in nodes:
            node.paths = {
                kind: [SystemPath() for _ in system.nodes[kind]] for kind in KINDS if kind in BASES
            }
    walk = _Walk(system, version, settings)
    for kind in BASES:
        for base in system.nodes[kind]:
            walk.run(base)
    for gpu in system.nodes["GPU"]:
        gpu.cpu = local_cpu(gpu, version)


class _Onward(NamedTuple):
    """A link out of a node, with what a walk asks of it."""

    to: SystemNode
    bandwidth_gbs: float
    step: PathType
    """The type of the way over this link alone."""
    back: SystemLink | None
    """The first link of the same kind the other way."""
    joins_gpus: bool
    """NVLink or xGMI to a GPU."""


class _Walk:
    """Search breadth-first from one node for the ways back to it."""

    def __init__(self, system: System, version: Version, settings: Settings) -> None:
        self.system = system
        self.relays = version.relays and not settings.integer("NCCL_NVB_DISABLE", 0)
        self.rccl = version.library == "rccl"
        self.nearest_first = version.path_preference == "type"
        back: dict[tuple[int, int, LinkKind], SystemLink] = {}
        for nodes in system.nodes.values():
            for node in nodes:
                for link in node.links:
                    back.setdefault((id(node), id(link.to), link.kind), link)
        self.onward = {
            id(node): [
                _Onward(
                    link.to,
                    link.bandwidth_gbs,
                    _step(node, link),
                    back.get((id(link.to), id(node), link.kind)),
                    link.kind == "NVL" and link.to.kind == "GPU",
                )
                for link in node.links
            ]
            for nodes in system.nodes.values()
            for node in nodes
        }
        joins = (link for gpu in system.nodes["GPU"] for link in gpu.links if link.kind == "NVL")
        self.most_gbs = max((link.bandwidth_gbs for link in joins), default=0.0)
        """Of one NVLink or xGMI joint."""

    def run(self, base: SystemNode) -> None:
        kind, index = base.kind, base.index
        start = base.paths[kind][index]
        start.type, start.bandwidth_gbs, start.links = PathType.LOC, LOCAL_GBS, ()
        ends_at_gpus = self.rccl and not self.relays
        frontier = [base]
        while frontier:
            reached: dict[int, SystemNode] = {}
            least_gbs: float | None = None
            for node in frontier:
                path = node.paths[kind][index]
                width = path.bandwidth_gbs
                passes = node.kind == "GPU" and node is not base
                if passes:
                    if not self.may_pass(path):
                        continue
                    if least_gbs is None:
                        least_gbs = self.least_gbs(kind, index)
                    if min(width, self.most_gbs) <= least_gbs:
                        continue  # no GPU behind this one gains by it
                for onward in self.onward[id(node)]:
                    far, link_gbs, _, _, joins_gpus = onward
                    if passes and not joins_gpus:
                        continue
                    found = far.paths[kind][index]
                    known_gbs = found.bandwidth_gbs
                    if not self.nearest_first and (known_gbs >= width or known_gbs >= link_gbs):
                        continue
                    if self.improves(found, path, node, onward) and not (
                        ends_at_gpus and far.kind == "GPU"
                    ):
                        reached.setdefault(id(far), far)
            frontier = list(reached.values())

    def least_gbs(self, kind: Kind, index: int) -> float:
        """The narrowest way from a GPU to the base so far; below all where type comes first."""
        if self.nearest_first:
            return -1.0
        ways = (gpu.paths[kind][index] for gpu in self.system.nodes["GPU"])
        return min((path.bandwidth_gbs for path in ways), default=0.0)

    def may_pass(self, path: SystemPath) -> bool:
        """A path may pass through a GPU by one NVLink or xGMI link to another GPU, once."""
        return self.relays and path.hops <= 1

    def improves(
        self, found: SystemPath, path: SystemPath, node: SystemNode, onward: _Onward
    ) -> bool:
        """Take the way through `node` when it is better than what is known."""
        to, width, step, back, _ = onward
        width = min(path.bandwidth_gbs, width)
        if step is PathType.NVL is path.type and node.kind == "GPU" and path.links:
            step = step if self.rccl else PathType.NVB
        kind = max(path.type, step)
        hops = len(path.links)
        if self.nearest_first:
            known = found.type, -found.bandwidth_gbs, len(found.links)
            if (kind, -width, hops + 1) >= known:
                return False
        # The type plays no part: the wider way wins if it is not longer.
        elif found.bandwidth_gbs and len(found.links) <= hops:
            return False
        if back is None:
            # The library keeps the first link of the path it replaces, and gives up without one.
            if not found.links:
                self.system.refuse(_one_way(node, to))
                return False
            back = found.links[0]
        found.links = (back, *path.links)
        found.bandwidth_gbs = width
        found.type = kind
        return True


def _step(node: SystemNode, link: SystemLink) -> PathType:
    """The type of the way over one link out of a node."""
    if link.kind == "PCI" and "CPU" in (node.kind, link.to.kind):
        return PathType.PHB
    if node.kind == "PCI" and link.to.kind == "PCI":
        return PathType.PXB
    return LINK_TYPES[link.kind]


def _one_way(node: SystemNode, to: SystemNode) -> str:
    names = [f"GPU {end.bus_id}" if end.kind == "GPU" else end.kind for end in (node, to)]
    return f"a link leads from {names[0]} to {names[1]} and none back"


def local_cpu(gpu: SystemNode, version: Version) -> int | None:
    """Index of the CPU with the fewest hops; None when none is reachable.

    NCCL 2.30.7 asks for the widest path and the nearest type first (ncclGetLocalCpu).
    """
    ways = gpu.paths["CPU"]
    near = [index for index, path in enumerate(ways) if path.links]
    if version.path_preference == "type":
        near = nearest(gpu, "CPU")[0]
    return min(near, key=lambda index: ways[index].hops, default=None)


def divert(system: System, via: SystemNode, src: SystemNode, dst: SystemNode) -> None:
    """Replace a path by the one through a third node (graph/paths.cc:addInterStep)."""
    first = src.paths[via.kind][via.index]
    second = via.paths[dst.kind][dst.index]
    path = src.paths[dst.kind][dst.index]
    path.links = first.links + second.links
    path.bandwidth_gbs = min(first.bandwidth_gbs, second.bandwidth_gbs)
    path.type = PathType.PXN if via.kind == "GPU" else merged(first.type, second.type)


def merged(one: PathType, other: PathType) -> PathType:
    """The type of two paths in a row: PHB after C2C is P2C, else the farther one."""
    low, high = sorted((one, other))
    if high is PathType.PHB and low is PathType.C2C:
        return PathType.P2C
    return high
