"""The links of a node as a person counts them: one of each GPU to its switches, one a PCIe slot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gputop.topology.sketch.names import is_weak
from gputop.topology.wiring.devices import devices_of
from gputop.topology.wiring.graph import wires_of
from gputop.topology.wiring.paths import bundle
from gputop.topology.wiring.wires import WireKind

if TYPE_CHECKING:
    from gputop.topology.report import Report
    from gputop.topology.wiring.devices import DeviceIndex
    from gputop.topology.wiring.graph import Graph
    from gputop.topology.wiring.wires import Wire

NVSWITCH = "NVSwitch"
_BRIDGES = ("switch upstream", "root port", "root complex")


class MapLink(NamedTuple):
    """One link, or all parallel links between the same two."""

    device: str
    """Node of the GPU or NIC, or the bridge nearer to one."""
    other: str
    """Node at the other end, or NVSWITCH for all of them together."""
    role: str
    """What its ends are: "GPU–NVSwitch", "GPU–GPU", "GPU–CPU", "GPU–PCIe", "NIC–PCIe",
    "switch–CPU", "CPU–CPU"."""
    wire: Wire

    @property
    def whole_gbs(self) -> float | None:
        """Payload one way with all its lanes or links, GB/s; None where that is not known."""
        here, count, most = self.wire.payload_gbs, self.wire.count, self.wire.count_max
        if here is None or not count:
            return here
        return here * max(most or count, count) / count

    @property
    def share(self) -> float:
        """Part of its lanes or links that works; 1 where that is not known."""
        return self.wire.count / (self.wire.count_max or 1) if is_weak(self.wire) else 1.0  # type: ignore[operator]


def links(report: Report) -> list[MapLink]:
    """All links that data between GPUs and NICs takes, the sickest first, then the narrowest."""
    machine = report.snapshot.machine
    index = devices_of(machine)
    above = frozenset(step for address in index.gpus for step in index.above(address))
    found = [*_single(report.graph, above), *_to_switches(report.graph, index)]
    return sorted(found, key=lambda link: (link.share, link.wire.payload_gbs or float("inf")))


def _single(graph: Graph, above: frozenset[str]) -> Iterator[MapLink]:
    """Links of one wire; of those between bridges only the ones over a GPU."""
    for a, b, wire in wires_of(graph):
        if wire.inside or wire.kind is WireKind.NET:
            continue
        kinds = {a: str(graph.nodes[a].get("kind")), b: str(graph.nodes[b].get("kind"))}
        device, other = sorted((a, b), key=lambda node: kinds[node] not in ("gpu", "nic"))
        mine, others = kinds[device], kinds[other]
        if wire.kind is WireKind.SOCKET:
            if mine == others == "socket":
                yield MapLink(device, other, "CPU–CPU", wire)
        elif wire.kind in (WireKind.NVLINK, WireKind.XGMI) and mine == others == "gpu":
            yield MapLink(device, other, "GPU–GPU", wire)
        elif wire.kind is WireKind.C2C:
            yield MapLink(device, other, "GPU–CPU", wire)
        elif wire.kind is WireKind.PCIE and mine in ("gpu", "nic"):
            if mine == "nic" and not getattr(graph.nodes[device].get("record"), "ports", ()):
                continue  # no RDMA: nothing between GPUs goes through it
            yield MapLink(device, other, f"{mine.upper()}–PCIe", wire)
        elif wire.kind is WireKind.PCIE and {mine, others} <= {*_BRIDGES} and {a, b} <= above:
            yield MapLink(device, other, "switch–CPU", wire)


def _to_switches(graph: Graph, index: DeviceIndex) -> Iterator[MapLink]:
    """All NVLinks of a GPU to switches as one: the switch behind a link that is down is unknown."""
    for gpu, kind in graph.nodes(data="kind"):
        if str(kind) != "gpu":
            continue
        wires = [
            edge["wire"]
            for other, edge in graph[gpu].items()
            if graph.nodes[other].get("kind") == "nvswitch" and edge["wire"].kind is WireKind.NVLINK
        ]
        if wires:
            wire = bundle(wires)
            record = index.gpus.get(gpu)
            most = wire.count_max if record is None else index.links_most(record)
            yield MapLink(
                gpu, NVSWITCH, "GPU–NVSwitch", msgspec.structs.replace(wire, count_max=most)
            )
