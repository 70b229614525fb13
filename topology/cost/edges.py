"""The edge of the node that bounds a layout: two ends that can be shown on a map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ..wiring.paths import path_between
from .layout import Layout
from .node_wires import NodeWires
from .step import StepTime


class LayoutEdge(msgspec.Struct, frozen=True, kw_only=True):
    """Where the longest exposed communication of a layout is bound."""

    what: str
    """"tensor: all-reduce"."""
    ends: tuple[str, str]
    """PCI addresses: two GPUs, or between nodes a GPU and the NIC beside it."""
    names: tuple[str, str]
    """"GPU0" and "GPU4"."""


def edge_of(wires: NodeWires, layout: Layout, time: StepTime) -> LayoutEdge | None:
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
    ends = (
        _narrowest(wires, wires.slowest(ranks, stride))
        if ranks * stride <= wires.each
        else _way_out(wires)
        if ranks * stride > wires.domain
        else None
    )
    if ends is None:
        return None
    devices = wires.node.devices
    return LayoutEdge(
        what=longest.what, ends=ends, names=(devices.name(ends[0]), devices.name(ends[1]))
    )


def _narrowest(wires: NodeWires, group: Sequence[str]) -> tuple[str, str] | None:
    """Neighbours in the ring of a group with the least between them; of equal ones the farthest."""
    if len(group) < 2:
        return None
    around = [*pairwise(group), *([(group[0], group[-1])] if len(group) > 2 else [])]
    return min(around, key=lambda pair: _rate(wires, *pair))


def _way_out(wires: NodeWires) -> tuple[str, str] | None:
    """The GPU whose nearest NIC is reached at the lowest rate, and that NIC."""
    graph = wires.node.graph
    nics = [nic.address for nic in wires.node.machine.rdma if nic.address in graph]
    found: list[tuple[float, tuple[str, str]]] = []
    for gpu in wires.gpus:
        ways = [(path_between(graph, gpu.address, nic), nic) for nic in nics if nic is not None]
        near = [(len(path.nodes), path.payload_gbs or 0.0, nic) for path, nic in ways if path]
        if near:
            _, rate, nic = min(near, key=lambda one: one[0])
            found.append((rate, (gpu.address, nic)))
    return min(found, key=lambda one: one[0])[1] if found else None


def _rate(wires: NodeWires, one: str, other: str) -> tuple[float, int]:
    """What joins two, least first: by its rate, then by how far it is."""
    path = path_between(wires.node.graph, one, other)
    return (0.0, 0) if path is None else (path.payload_gbs or 0.0, -len(path.nodes))
