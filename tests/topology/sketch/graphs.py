"""Small graphs of nodes, made by hand, with the attributes that topology.graph gives them."""

from __future__ import annotations

from typing import TypeAlias

import networkx as nx

from gputop.topology.model.machine import Gpu
from gputop.topology.model.surroundings import NumaNode
from gputop.topology.wiring.wires import Wire, WireKind, pcie_wire

Graph: TypeAlias = "nx.Graph[str]"
INSIDE = Wire(kind=WireKind.SOCKET)


class Maker:
    """Builds a graph of a node step by step."""

    def __init__(self) -> None:
        self.graph: Graph = nx.Graph()
        self.gpus: list[str] = []
        self._nics = 0
        self._bus = 0x10

    def host(self, sockets: int = 2, numa_per_socket: int = 1) -> list[str]:
        names = []
        for s in range(sockets):
            self.graph.add_node(f"socket:{s}", kind="socket", label=f"CPU {s}", record=None)
            for other in range(s):
                self.graph.add_edge(f"socket:{other}", f"socket:{s}", wire=INSIDE)
            for n in range(numa_per_socket):
                number = s * numa_per_socket + n
                record = NumaNode(node=number, cpus="0-55,112-167", memory_bytes=2**40)
                self.graph.add_node(
                    f"numa:{number}", kind="numa", label=f"NUMA {number}", record=record
                )
                self.graph.add_edge(f"numa:{number}", f"socket:{s}", wire=INSIDE)
                names.append(f"numa:{number}")
        return names

    def root(self, numa: str | None) -> str:
        self._bus += 1
        name = f"pci0000:{self._bus:02x}"
        self.graph.add_node(name, kind="root complex", label=name, record=None)
        if numa is not None:
            self.graph.add_edge(name, numa, wire=INSIDE)
        return name

    def bridge(self, parent: str, kind: str, wire: Wire | None = None) -> str:
        self._bus += 1
        name = f"0000:{self._bus:02x}:00.0"
        self.graph.add_node(name, kind=kind, label=f"{kind} {name}", record=None)
        default = INSIDE if kind == "root port" else Wire(kind=WireKind.PCIE)
        self.graph.add_edge(name, parent, wire=wire or default)
        return name

    def switch(self, numa: str | None, gts: float = 32.0) -> str:
        port = self.bridge(self.root(numa), "root port")
        return self.bridge(port, "switch upstream", pcie_wire(gts, 16, 16, ""))

    def device(self, parent: str, kind: str, wire: Wire | None = None) -> str:
        if self.graph.nodes[parent]["kind"] == "switch upstream":
            parent = self.bridge(parent, "switch downstream")
        self._bus += 1
        name = f"0000:{self._bus:02x}:00.0"
        record: object = None
        if kind == "gpu":
            label = f"GPU{len(self.gpus)}"
            self.gpus.append(name)
            record = Gpu(address=name, vendor="nvidia", name="NVIDIA H100 80GB HBM3")
        else:
            label = f"mlx5_{self._nics} ib{self._nics}"
            self._nics += 1
        self.graph.add_node(name, kind=kind, label=label, record=record)
        self.graph.add_edge(name, parent, wire=wire or pcie_wire(32.0, 16, 16, ""))
        return name

    def plane(self, counts: dict[int, int] | None = None, full: int = 18) -> None:
        self.graph.add_node("nvswitch fabric", kind="nvswitch", label="NVSwitch", record=None)
        for i, gpu in enumerate(self.gpus):
            count = (counts or {}).get(i, full)
            wire = Wire(kind=WireKind.NVLINK, payload_gbs=25.0 * count, count=count, count_max=full)
            self.graph.add_edge(gpu, "nvswitch fabric", wire=wire)

    def mesh(
        self, rows: list[list[int]], kind: WireKind = WireKind.NVLINK, each: float = 25.0
    ) -> None:
        for i, row in enumerate(rows):
            for j, count in enumerate(row[:i]):
                if count:
                    wire = Wire(kind=kind, payload_gbs=each * count, count=count, count_max=count)
                    self.graph.add_edge(self.gpus[i], self.gpus[j], wire=wire)


CUBE = [
    [0, 1, 1, 2, 2, 0, 0, 0],
    [1, 0, 2, 1, 0, 2, 0, 0],
    [1, 2, 0, 2, 0, 0, 1, 0],
    [2, 1, 2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 1, 1, 2],
    [0, 2, 0, 0, 1, 0, 2, 1],
    [0, 0, 1, 0, 1, 2, 0, 2],
    [0, 0, 0, 1, 2, 1, 2, 0],
]
"""NVLinks between the GPUs of a DGX-1 with V100."""


def switched(gpus: int = 8, per_switch: int = 1, nics: int = 1) -> Maker:
    """GPUs behind PCIe switches of two sockets and a plane of NVSwitches."""
    maker = Maker()
    numa = maker.host()
    switches = gpus // per_switch
    for i in range(switches):
        switch = maker.switch(numa[i * len(numa) // switches])
        for _ in range(per_switch):
            maker.device(switch, "gpu")
        for _ in range(nics):
            maker.device(switch, "nic")
    maker.plane()
    return maker


def cube() -> Maker:
    """A DGX-1: two GPUs and a NIC behind each switch, the GPUs joined as a cube mesh."""
    maker = switched(8, 2)
    maker.graph.remove_node("nvswitch fabric")
    maker.mesh(CUBE)
    return maker


def complete(gpus: int = 8) -> Maker:
    """GPUs behind root ports of their own, every pair joined by xGMI."""
    maker = Maker()
    numa = maker.host()
    for i in range(gpus):
        port = maker.bridge(maker.root(numa[i * 2 // gpus]), "root port")
        maker.device(port, "gpu")
        nic_port = maker.bridge(maker.root(numa[i * 2 // gpus]), "root port")
        maker.device(nic_port, "nic")
    maker.mesh([[int(i != j) for j in range(gpus)] for i in range(gpus)], WireKind.XGMI, 64.0)
    return maker


def flat(gpus: int = 4, nics: int = 1, numa: int = 1) -> Maker:
    """A virtual machine: everything on one root complex."""
    maker = Maker()
    nodes = maker.host(1, numa) if numa else [None]
    root = maker.root(nodes[0])
    for kind in ["gpu"] * gpus + ["nic"] * nics:
        maker.device(root, kind)
    if gpus > 1:
        maker.plane()
    return maker


def sick() -> Maker:
    """One GPU with 14 of 18 links, one in a slot that trained 8 of 16 lanes."""
    maker = Maker()
    numa = maker.host()
    for i in range(8):
        switch = maker.switch(numa[i // 4])
        maker.device(switch, "gpu", pcie_wire(32.0, 8 if i == 5 else 16, 16, ""))
        maker.device(switch, "nic")
    maker.plane({2: 14})
    return maker


def bridged() -> Maker:
    """Two GPUs on root ports of one socket with an NVLink bridge."""
    maker = Maker()
    numa = maker.host(1)
    for _ in range(2):
        maker.device(maker.bridge(maker.root(numa[0]), "root port"), "gpu")
    maker.mesh([[0, 4], [4, 0]])
    return maker


def eight_numa() -> Maker:
    """A DGX A100: EPYC with four NUMA nodes a socket, two GPUs and two NICs a switch."""
    maker = Maker()
    maker.host(2, 4)
    for numa in (3, 1, 7, 5):
        switch = maker.switch(f"numa:{numa}", 16.0)
        for kind in ("gpu", "gpu", "nic", "nic"):
            maker.device(switch, kind, pcie_wire(16.0, 16, 16, ""))
    maker.plane(full=12)
    return maker
