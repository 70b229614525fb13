"""Nodes of any number of GPUs, laid out like a demo, each GPU with a NIC of its own."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from gputop.topology.model.machine import Machine
from gputop.topology.model.part import PartialNode
from gputop.topology.model.readings import pace_seconds
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.demos import amd, demo, host, network, nvml, pci, pci_tree, readings
from gputop.topology.recorded.demos import processes as jobs
from gputop.topology.recorded.demos.shape import DemoShape, RootPort, load
from gputop.topology.sources.amd.amdsmi_readings import SLOW_EVERY
from gputop.topology.sources.collect import merge, merge_machine
from gputop.topology.sources.nvidia.nvml_readings import LINK_FIELDS, LINKS_EVERY
from gputop.topology.sources.nvidia.traffic import NVLINK_TX_RX
from tests.topology.nccl.made import AMD, cpu, gpu, system

TAKEN_AT = 1_700_000_000.0
LINK_METRICS = "amdsmi_get_link_metrics"
GPUS_OF_A_NUMA_NODE = 8
CPUS_OF_A_NUMA_NODE = 16
SWITCHES = 18
"""NVSwitches of a large node, each with one link to every GPU."""


@dataclass(frozen=True)
class Wiring:
    """How the GPUs of a made node are joined."""

    demo: str
    """The demo that gives the GPUs, the host and the NICs."""
    group: tuple[tuple[str, ...], ...]
    """What hangs below a root port: switches under a switch, each with some of GPUs and NICs."""


WIRINGS = {
    "nvswitch": Wiring("hgx-h100-8", (("nic", "gpu", "nvme"),)),
    "xgmi": Wiring("mi300x-8", (("nic", "gpu", "nvme"),)),
    "pcie": Wiring("pcie-l40s-8", (("nic", "gpu", "gpu", "nic"),) * 2),
}


def shape_of(wiring: str, gpus: int) -> DemoShape:
    """The demo of that wiring with so many GPUs, a multiple of 8, on at least two NUMA nodes."""
    kind = WIRINGS[wiring]
    base = load(kind.demo)
    numa_nodes = max(2, gpus // GPUS_OF_A_NUMA_NODE)
    first = tuple(range(0, numa_nodes * CPUS_OF_A_NUMA_NODE, CPUS_OF_A_NUMA_NODE))
    node = replace(
        base.node,
        cores_per_socket=numa_nodes * CPUS_OF_A_NUMA_NODE // 2,
        numa_cpus=tuple(f"{cpu}-{cpu + CPUS_OF_A_NUMA_NODE - 1}" for cpu in first),
        numa_socket=tuple(number * 2 // numa_nodes for number in range(numa_nodes)),
    )
    nvlink = base.nvlink
    extra: list[RootPort] = []
    if nvlink is not None:
        nvlink = replace(nvlink, per_switch=(1,) * SWITCHES)
        switches = tuple(f"nvswitch{number}" for number in range(SWITCHES))
        extra.append(RootPort(root="0100:00", numa=0, gts=32.0, switch=switches))
    return replace(
        base,
        node=node,
        gpu=replace(base.gpu, modules=()),
        nvlink=nvlink,
        idle=(),
        slot=(*_slots(kind, gpus, numa_nodes), *extra),
    )


def _slots(kind: Wiring, gpus: int, numa_nodes: int) -> tuple[RootPort, ...]:
    """Root ports, each with a root complex of its own in the PCI domain of its NUMA node."""
    found: list[RootPort] = []
    taken = {"gpu": 0, "nic": 0, "nvme": 0}
    for numa in range(numa_nodes):
        bus = 0
        while taken["gpu"] < gpus * (numa + 1) // numa_nodes:
            below = []
            for group in kind.group:
                names = []
                for name in group:
                    names.append(f"{name}{taken[name]}")
                    taken[name] += 1
                below.append(tuple(names))
            nested = len(below) > 1
            found.append(
                RootPort(
                    root=f"{numa:04x}:{bus:02x}",
                    numa=numa,
                    gts=32.0,
                    switch=() if nested else below[0],
                    switches=tuple(below) if nested else (),
                )
            )
            bus += 24
    return (*found, RootPort(root="0101:00", numa=0, gts=32.0, device="eth0"))


class MadeNode:
    """A made node whose figures move from tick to tick, as those of a demo do."""

    def __init__(self, wiring: str, gpus: int) -> None:
        self.name = f"{wiring}-{gpus}"
        self.shape = shape_of(wiring, gpus)
        self._functions = pci_tree.functions(self.shape)
        self._gpus = tuple(one for one in self._functions if one.kind == "gpu")
        self.gpus = gpus

    def snapshot(self, tick: int = 7) -> NodeSnapshot:
        """The node at a tick."""
        parts = tuple(demo.parts(self.standing() | self.moving(tick)).values())
        return merge(parts, taken_at=TAKEN_AT, source=(self.name,), gputop="")

    def standing(self) -> dict[str, Any]:
        """The raw answers that stay, by source."""
        shape, functions = self.shape, self._functions
        answers = {
            "pci": pci.answer(shape, functions),
            "host": host.answer(shape),
            "network": network.network(shape, functions),
            "software": network.software(shape),
            "processes": jobs.answer(shape, self._gpus),
        }
        if shape.gpu.vendor == "amd":
            return {"amdsmi": amd.answer(shape, self._gpus), **answers}
        return {"nvml": nvml.answer(shape, functions), **answers}

    def moving(self, tick: int) -> dict[str, Any]:
        """The raw answers that differ from tick to tick, by source."""
        if self.shape.gpu.vendor == "amd":
            return {"amdsmi_readings": amd.readings(self.shape, self._gpus, tick)}
        return {"nvml_readings": readings.readings(self.shape, self._gpus, tick)}


class MadeFeed:
    """A made node as the app watches it: its figures have moved whenever it would be read.

    What the sources ask rarely moves as rarely here: the counters of each link. Making the figures
    up stands for the calls of a driver; what those cost is not known for such a node.
    """

    def __init__(self, node: MadeNode) -> None:
        self._node = node
        self._parts: dict[str, PartialNode] = dict(demo.parts(node.standing()))
        self._machine: Machine | None = None
        self._tick = -1
        self._due = 0.0
        """When the figures move again, monotonic."""
        self.made_seconds = 0.0
        """Of a core, which making the figures up took."""
        self._links: dict[int, Any] = {}
        self._closed = threading.Event()

    def snapshot(self) -> NodeSnapshot:
        """The node one tick later."""
        self._tick += 1
        self._due = time.monotonic() + pace_seconds(self._node.gpus)
        begun = time.thread_time()
        answers = self._moving()
        self.made_seconds += time.thread_time() - begun
        self._parts.update(demo.parts(answers))
        parts = tuple(self._parts.values())
        if self._machine is None:
            self._machine = merge_machine(parts)
        return merge(
            parts,
            taken_at=TAKEN_AT + self._tick,
            source=(self._node.name,),
            gputop="",
            machine=self._machine,
        )

    def _moving(self) -> dict[str, Any]:
        answers = self._node.moving(self._tick)
        for place, device in enumerate(answers.get("amdsmi_readings", {}).get("devices", ())):
            if place not in self._links or (self._tick + place) % SLOW_EVERY == 0:
                self._links[place] = device[LINK_METRICS]
            device[LINK_METRICS] = self._links[place]
        for place, device in enumerate(answers.get("nvml_readings", {}).get("devices", ())):
            if place not in self._links or self._tick % LINKS_EVERY == place + 1:
                self._links[place] = _nvlinks(self._node.shape, device)
            device["links"] = self._links[place]
        return answers

    def wait(self, timeout: float) -> bool:
        """Block until the figures have moved, or the time is over."""
        left = self._due - time.monotonic()
        self._closed.wait(max(0.0, min(timeout, left)))
        return left <= timeout

    def close(self) -> None:
        """Wake whoever waits."""
        self._closed.set()


def _nvlinks(shape: DemoShape, device: dict[str, Any]) -> list[dict[str, Any]]:
    """The counters of each NVLink as the driver of an H100 answers for them, which a demo lacks."""
    count = 0 if shape.nvlink is None else sum(shape.nvlink.per_switch)
    answers: list[dict[str, Any]] = []
    for link in range(count):
        fields = {name: {"value": 0} for name in LINK_FIELDS}
        fields["NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS"] = {"ret": 3}
        for name, way in zip(NVLINK_TX_RX, ("tx_kib", "rx_kib"), strict=True):
            fields[name] = {"value": device["nvlink_counters"][way][1] // count + link}
        answers.append({"link": link, "fields": fields})
    return answers


def with_links_gone(node: MadeNode, gpu: int, count: int) -> MadeNode:
    """The node with so many xGMI links of one GPU gone, at both ends."""
    mesh = node.shape.xgmi
    assert mesh is not None
    many = sum(function.kind == "gpu" for function in pci_tree.functions(node.shape))
    gone = {(gpu + step + 1) % many for step in range(count)}
    matrix = tuple(
        tuple(
            int(a != b and not (a == gpu and b in gone) and not (b == gpu and a in gone))
            for b in range(many)
        )
        for a in range(many)
    )
    found = MadeNode("xgmi", many)
    found.shape = replace(node.shape, xgmi=replace(mesh, matrix=matrix))
    return found


def numa_nodes_xml(count: int) -> str:
    """A topology XML with a GPU on each of so many NUMA nodes."""
    return system(*(cpu(number, gpu(number, number, sm=80), kind=AMD) for number in range(count)))
