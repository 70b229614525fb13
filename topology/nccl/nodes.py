"""NCCL's picture of a machine: nodes, links and paths (graph/topo.h, include/graph.h).

Bandwidths are the constants of NCCL's tables, GB/s one way, never measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ..model.severity import Word


class SystemKind(Word):
    """What a node of the system is. Members are compared by `is`, through the names below."""

    GPU = "GPU"
    PCI = "PCI"
    NVS = "NVS"
    CPU = "CPU"
    NIC = "NIC"
    NET = "NET"


class CpuArch(Word):
    """NCCL's word for a CPU architecture; "" for another one, "mixed" for several."""

    X86 = "x86"
    POWER = "power"
    ARM = "arm"


class CpuVendor(Word):
    """NCCL's word for the maker of an x86 CPU; "" for another one, "mixed" for several."""

    INTEL = "intel"
    AMD = "amd"
    ZHAOXIN = "zhaoxin"


class LinkKind(Word):
    """What a link of the system is; NONE where a version adds no link."""

    NONE = ""
    LOC = "LOC"
    NVL = "NVL"
    C2C = "C2C"
    PCI = "PCI"
    SYS = "SYS"
    NET = "NET"


GPU, PCI, NVS, CPU, NIC, NET = SystemKind
NVLINK, PCIE = LinkKind.NVL, LinkKind.PCI

LOCAL_GBS = 5000.0
"""Bandwidth of a path to oneself (graph/topo.h:LOC_BW)."""


class PathType(IntEnum):
    """How far apart two nodes are, nearest first (graph/topo.h since 2.27.5).

    Older versions and RCCL know fewer types in the same order.
    """

    LOC = 0
    NVL = 1
    NVB = 2
    C2C = 3
    PIX = 4
    PXB = 5
    P2C = 6
    PXN = 7
    PHB = 8
    SYS = 9
    NET = 10
    DIS = 11


@dataclass(slots=True, eq=False)
class SystemLink:
    """One direction of a wire; the other direction is a SystemLink of the node at the far end."""

    kind: LinkKind
    bandwidth_gbs: float
    to: SystemNode


@dataclass(slots=True, eq=False)
class SystemPath:
    """The way from one node to another: the links in order of travel."""

    type: PathType = PathType.DIS
    bandwidth_gbs: float = 0.0
    links: tuple[SystemLink, ...] = ()

    @property
    def hops(self) -> int:
        """Number of links."""
        return len(self.links)


@dataclass(slots=True, eq=False)
class SystemNode:
    """One node of the system. Fields below the blank line hold for some kinds only."""

    kind: SystemKind
    ident: int
    """NCCL's 64-bit id: host index << 56 | local id (bus id as an integer, NUMA node, device)."""
    index: int
    """Place in `System.nodes[kind]`; updated when nodes are removed."""
    links: list[SystemLink] = field(default_factory=list)
    paths: dict[SystemKind, list[SystemPath]] = field(default_factory=dict)
    """Path to every node of a kind, by index."""

    rank: int = -1
    dev: int = -1
    """GPU: NVML index. NET: device number of the network plugin."""
    sm: int = 0
    """Compute capability x10; AMD: 0."""
    units: int = 0
    """GPU of RCCL: its compute units, which the file has as `sm`."""
    arch: str = ""
    """GPU of RCCL: "gfx942". CPU: a CpuArch, or ""."""
    gdr: bool = False
    cpu: int | None = None
    """GPU: index of its own CPU, None when it reaches none."""
    bus_id: str = ""
    """GPU: PCI address as the XML has it."""
    vendor: str = ""
    """CPU: a CpuVendor, or ""."""
    model: int = 0
    """CPU: NCCL's model class, 0 when none applies."""
    device: int = 0
    """PCI: vendor << 48 | device << 32 | subsystem vendor << 16 | subsystem device."""
    asic: int = 0
    port: int = 0
    speed_gbs: float = 0.0
    """NET: its speed. CPU: bandwidth to another NUMA node."""
    latency_us: float = 0.0
    collnet: bool = False
    pci_ident: int = 0
    local_gpu: int = -1
    """NET: index of its nearest GPU, -1 when none."""
    name: str = ""
    """NET: name of the device, "mlx5_0"."""

    @property
    def host(self) -> int:
        """Index of the host in a topology that joins several."""
        return self.ident >> 56


class Widest(NamedTuple):
    """The most that any device of a host has, in GB/s, before any path is diverted."""

    between_gbs: float
    """A path to another GPU."""
    to_nets_gbs: float
    """A path to a NIC."""
    links_gbs: float
    """All NVLinks, or the PCIe link."""


@dataclass(slots=True, eq=False)
class System:
    """All nodes of what one rank can reach."""

    nodes: dict[SystemKind, list[SystemNode]] = field(
        default_factory=lambda: {kind: [] for kind in SystemKind}
    )
    withdrawn: list[SystemNode] = field(default_factory=list)
    """GPUs of other domains, whose devices paths may cross (NCCL 2.30)."""
    widest: Widest | None = None
    """Where devices count apart from GPUs (NCCL 2.30), the withdrawn ones included; else None."""
    hosts: int = 1
    inter: bool = False
    """The communicator has ranks outside this system (another host, or a split domain)."""
    max_bandwidth_gbs: float = 0.0
    total_bandwidth_gbs: float = 0.0
    refusals: list[str] = field(default_factory=list)
    """What the library would refuse to start with, in words."""

    def add(self, kind: SystemKind, ident: int) -> SystemNode:
        """A new node at the end of its kind."""
        node = SystemNode(kind, ident, len(self.nodes[kind]))
        self.nodes[kind].append(node)
        return node

    def remove(self, gone: SystemNode) -> None:
        """Take a node out, with every link to it; the nodes behind it move up."""
        for nodes in self.nodes.values():
            for node in nodes:
                if any(link.to is gone for link in node.links):
                    node.links = [link for link in node.links if link.to is not gone]
        self.nodes[gone.kind] = [node for node in self.nodes[gone.kind] if node is not gone]
        for index, node in enumerate(self.nodes[gone.kind]):
            node.index = index

    def withdraw(self, gone: list[SystemNode]) -> None:
        """Take GPUs out, but leave their links and the paths across them."""
        stay = [gpu.index for gpu in self.nodes[GPU] if gpu not in gone]
        for nodes in self.nodes.values():
            for node in nodes:
                node.paths = paths_to(stay, node)
        self.nodes[GPU] = [self.nodes[GPU][place] for place in stay]
        for index, gpu in enumerate(self.nodes[GPU]):
            gpu.index = index
        self.withdrawn += gone

    def remove_nets(self) -> None:
        """Take all network devices out, with every link and path to them."""
        self.nodes[NET] = []
        for nodes in self.nodes.values():
            for node in nodes:
                node.links = [link for link in node.links if link.to.kind is not NET]
                node.paths[NET] = []

    def let_go(self) -> None:
        """Drop links and paths: nodes lead to each other, and would stay until they are swept."""
        for nodes in (*self.nodes.values(), self.withdrawn):
            for node in nodes:
                node.links.clear()
                node.paths.clear()

    def refuse(self, text: str) -> None:
        """Record once what the library would refuse; the first reasons are enough."""
        if len(self.refusals) < 20 and text not in self.refusals:
            self.refusals.append(text)

    def gpu_of(self, rank: int) -> SystemNode | None:
        """The GPU that holds a rank; None when it is not in this system."""
        return next((gpu for gpu in self.nodes[GPU] if gpu.rank == rank), None)

    @property
    def min_sm(self) -> int:
        """The lowest compute capability x10."""
        return min((gpu.sm for gpu in self.devices), default=0)

    @property
    def max_sm(self) -> int:
        """The highest compute capability x10."""
        return max((gpu.sm for gpu in self.devices), default=0)

    @property
    def devices(self) -> list[SystemNode]:
        """All GPUs, the withdrawn ones last."""
        return [*self.nodes[GPU], *self.withdrawn]


def paths_to(places: list[int], node: SystemNode) -> dict[SystemKind, list[SystemPath]]:
    """The paths of a node, of those to GPUs only the ones to these places."""
    return {
        kind: [paths[place] for place in places] if kind is GPU and paths else paths
        for kind, paths in node.paths.items()
    }
