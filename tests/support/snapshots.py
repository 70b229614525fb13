"""Reports made from demos and recordings, for tests."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gputop.topology.model.machine import Gpu, GpuPair, Machine, NvLink, PciDevice, PciKind
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.model.surroundings import Host, NumaNode
from gputop.topology.node import Node
from gputop.topology.recorded.demos import demo
from gputop.topology.sources import load as load_source
from gputop.topology.sources.collect import merge
from tests.support.places import RECORDINGS


def demo_node(name: str, tick: int = 0, measurements: tuple[Measurement, ...] = ()) -> Node:
    parts = tuple(demo.parts(demo.raw(name, tick)).values())
    snapshot = merge(parts, taken_at=0.0, source=(f"demo {name}",), gputop="0")
    return Node(msgspec.structs.replace(snapshot, measurements=measurements))


def recorded_node(name: str) -> Node:
    """Parse every raw answer of a recording with the parser of its source."""
    parts = []
    for source in ("nvml", "pci", "host", "network"):
        path = RECORDINGS / name / f"{source}.json"
        if path.is_file():
            raw: Any = json.loads(path.read_text(encoding="utf-8"))
            parts.append(load_source(source).parse(raw))
    assert parts, f"no raw answers in {name}"
    return Node(merge(parts, taken_at=0.0, source=(name,), gputop="0"))


def node_of(machine: Machine) -> Node:
    return Node(NodeSnapshot(taken_at=0.0, machine=machine))


def gpus_of(report: Node) -> list[str]:
    return [gpu.address for gpu in report.snapshot.machine.gpus]


def port(address: str, parent: str, kind: str, numa: int | None = None) -> PciDevice:
    return PciDevice(
        address=address,
        parent=parent,
        kind=PciKind(kind),
        numa_node=numa,
        link_speed_max_gts=32.0,
        link_width_max=16,
        link_width_now=16,
    )


def gpu(index: int, address: str, links: tuple[NvLink, ...] = (), **facts: Any) -> Gpu:
    known: dict[str, Any] = {"uuid": f"GPU-{index}", "index": index, "nvlinks": links}
    return Gpu(address=address, vendor="nvidia", **(known | facts))


def link(number: int, end: str | None, *, active: bool = True, kind: str = "gpu") -> NvLink:
    return NvLink(
        link=number,
        active=active,
        version="4.0",
        raw_gbs=26.562,
        remote_kind=kind,
        remote_address=end,
    )


def hosted(nodes: int) -> Host:
    return Host(numa=tuple(NumaNode(node=number) for number in range(nodes)))


def pair(src: str, dst: str, **facts: Any) -> GpuPair:
    return GpuPair(src=src, dst=dst, **facts)
