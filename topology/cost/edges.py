"""The edge of the node that bounds a layout: two ends that can be shown on a map."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise, permutations

import msgspec

from ..wiring.paths import path_between
from .layout import Layout
from .node_wires import NodeWires
from .step import StepTime
from .wires import NETWORK

MOST_SORTED = 8
"""GPUs of a group whose rings are compared; a larger one is taken in the order of its ranks."""


class LayoutEdge(msgspec.Struct, frozen=True, kw_only=True):
    """Where the longest exposed communication of a layout is bound."""

    what: str
    """"tensor: all-reduce"."""
    ends: tuple[str, str]
    """PCI addresses: two GPUs, or between nodes a GPU and the NIC beside it."""
    names: tuple[str, str]
    """"GPU0" and "GPU4"."""


class LayoutEdges:
    """The edges of the layouts of some nodes; what groups share is looked for once."""

    def __init__(self, wires: NodeWires) -> None:
        self._wires = wires
        self._rate = cache(self._found)
        self._inside = cache(self._narrowest)
        self._out = cache(self._way_out)

    def of(self, layout: Layout, time: StepTime) -> LayoutEdge | None:
        """The narrowest way in the slowest group of what is exposed longest; None for nothing sent.

        None, too, where a rack's switches join the ends, which are no part of a node.
        """
        groups = {
            "tensor": (layout.tp, 1),
            "context": (layout.cp, layout.tp),
            "experts": (layout.ep, layout.tp),
            "pipeline": (min(2, layout.pp), layout.gpus // layout.pp),
            "data": (layout.dp * layout.cp, layout.tp),
        }
        sent = [one for one in time.exposed if one.what.partition(":")[0] in groups]
        if not sent:
            return None
        longest = max(sent, key=lambda one: (one.exposed_s, one.seconds))
        ranks, stride = groups[longest.what.partition(":")[0]]
        if longest.what.startswith("pipeline") and longest.wire == NETWORK:
            ranks = layout.pp  # some hop leaves the node
        ends = self._ends(ranks, stride)
        if ends is None:
            return None
        one, other = map(self._wires.node.devices.name, ends)
        return LayoutEdge(what=longest.what, ends=ends, names=(one, other))

    def _ends(self, ranks: int, stride: int) -> tuple[str, str] | None:
        if ranks * stride <= self._wires.each:
            return self._inside(tuple(self._wires.slowest(ranks, stride)))
        return self._out() if ranks * stride > self._wires.domain else None

    def _narrowest(self, group: tuple[str, ...]) -> tuple[str, str] | None:
        """Neighbours in the best ring of a group with the least between them."""
        if len(group) < 2:
            return None
        rates = {self._rate(*pair) for pair in combinations(group, 2)}
        ring = group
        if len(rates) > 1 and 2 < len(group) <= MOST_SORTED:
            rings = ((group[0], *rest) for rest in permutations(group[1:]))
            ring = max(rings, key=lambda one: min(self._rate(*pair) for pair in around(one)))
        return min(around(ring), key=lambda pair: self._rate(*pair))

    def _found(self, one: str, other: str) -> tuple[float, int]:
        """What joins two, least first: by its rate, then by how far it is."""
        path = path_between(self._wires.node.graph, one, other)
        return (0.0, 0) if path is None else (path.payload_gbs or 0.0, -len(path.nodes))

    def _way_out(self) -> tuple[str, str] | None:
        """The GPU whose nearest NIC is reached at the lowest rate, and that NIC."""
        graph = self._wires.node.graph
        nics = [nic.address for nic in self._wires.node.machine.rdma if nic.address in graph]
        found: list[tuple[float, tuple[str, str]]] = []
        for gpu in self._wires.gpus:
            ways = [(path_between(graph, gpu.address, nic), nic) for nic in nics if nic is not None]
            near = [(len(path.nodes), path.payload_gbs or 0.0, nic) for path, nic in ways if path]
            if near:
                _, rate, nic = min(near, key=lambda one: one[0])
                found.append((rate, (gpu.address, nic)))
        return min(found, key=lambda one: one[0])[1] if found else None


def around(ring: Sequence[str]) -> list[tuple[str, str]]:
    """Neighbours in a ring, each two once."""
    return [*pairwise(ring), *([(ring[0], ring[-1])] if len(ring) > 2 else [])]
