"""The node as a graph: devices, bridges, NUMA nodes and sockets, and the wires between them.

Node ids are strings: the PCI address of a device or bridge, "pci0000:00" for a root complex,
"numa:0", "numa:unknown", "socket:0", "nvswitch fabric" for switches that the driver hides, and
"net:eth0" for an interface without a PCI device; what a topology XML puts below "cpu 0" hangs on
its NUMA node. A node has `kind`, `label` and `record`; an edge
has `wire`. An edge inside a switch or a CPU has a wire without figures: it is no link.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from ..hardware.vendors import vendor_of
from ..model.element import NOT_IN_XML
from ..model.machine import Gpu, Machine, PciDevice, PciKind
from ..model.surroundings import Interface, RdmaDevice
from .above import CPU_ROOT
from .devices import devices_of
from .gpu_names import gpu_label
from .links import add_links
from .wires import PCIE_GTS, Wire, WireKind, link_limits, pcie_wire

if TYPE_CHECKING:
    import networkx as nx

Graph: TypeAlias = "nx.Graph[str]"

ENDPOINTS = ("gpu", "nic", "nvswitch", "nvme")
"""Kinds of PCI functions that are drawn; bridges are drawn when one of these is below."""
LINK_PORTS = ("root port", "switch downstream", "bridge", "switch")
"""Ports with a link below them."""
NETWORKS = ("ethernet", "infiniband")
"""Kinds of interfaces that lead out of the node."""
_NEAREST = ("PIX", "PXB", "PHB", "NODE")
"""Letters of nvidia-smi topo, the nearest first."""
UNKNOWN_NUMA = "numa:unknown"


def build_graph(machine: Machine) -> Graph:
    """Build the graph of a machine; frozen, so that nobody adds to it later."""
    import networkx as nx  # a tenth of a second, which the first screen need not wait for

    graph: Graph = nx.Graph()
    wire_up(machine, graph)
    freeze_attributes(graph)
    frozen: Graph = nx.freeze(graph)
    return frozen


def wire_up(machine: Machine, graph: Graph) -> None:
    """Add what a machine has to an empty graph."""
    _Builder(machine, graph).build()


def wires_of(graph: Graph) -> Iterator[tuple[str, str, Wire]]:
    """Go through the edges: both ends and the wire."""
    for a, b, attributes in graph.edges(data=True):
        yield a, b, attributes["wire"]


def gpu_id(gpu: Gpu) -> str:
    """Give the node id of a GPU: its address, with the partition if it shares that with others.

    Parts of an AMD package have addresses of their own: the part is the function.
    """
    if gpu.partition is None or vendor_of(gpu).parts_are_devices:
        return gpu.address
    return f"{gpu.address}/{gpu.partition}"


def gpu_numa(gpu: Gpu) -> int | None:
    """Find the NUMA node next to a GPU: the kernel's, else the driver's only near one."""
    near = gpu.memory_affinity or ()
    return near[0] if gpu.numa_node is None and len(near) == 1 else gpu.numa_node


class _Builder:
    def __init__(self, machine: Machine, graph: Graph) -> None:
        self.machine, self.graph = machine, graph
        index = devices_of(machine)
        self.devices, self.gpus = index.functions, index.gpus
        self.numa_of_root = index.numa_of_root
        self.drives = {drive.address or "": drive.name for drive in machine.drives}
        self.rdma: dict[str, list[RdmaDevice]] = {}
        self.interfaces: dict[str, list[Interface]] = {}
        for adapter in machine.rdma:
            self.rdma.setdefault(adapter.address or "", []).append(adapter)
        for interface in machine.interfaces:
            self.interfaces.setdefault(interface.address or "", []).append(interface)

    def build(self) -> None:
        self._host()
        for device in self.machine.pci:
            if self._is_shown(device):
                self._endpoint(device)
        for gpu in self.machine.gpus:
            self._gpu(gpu)
        for interface in self.machine.interfaces:
            if interface.address is None and interface.kind in NETWORKS:
                name = f"net:{interface.name}"
                self._add(name, "nic", interface.name, interface)
                wire = Wire(kind=WireKind.NET, source="an interface without a PCI device")
                self.graph.add_edge(name, self._numa(interface.numa_node), wire=wire)
        for adapter in self.machine.rdma:
            if adapter.address is None:
                self._named_nic(adapter)
        self._between_sockets()
        add_links(self.graph, self.machine)

    def _named_nic(self, adapter: RdmaDevice) -> None:
        """A NIC of which a text says no more than how near it is to each GPU."""
        letters = {
            other: cell.code
            for cell in self.machine.relations
            for one, other in ((cell.a, cell.b), (cell.b, cell.a))
            if one == adapter.name and other in self.gpus
        }
        known = [gpu for gpu in letters if letters[gpu] in _NEAREST]
        if not known:
            return
        near = min(known, key=lambda gpu: _NEAREST.index(letters[gpu]))
        wire = Wire(kind=WireKind.PCIE, source=f"{letters[near]} of {near}: its slot is not told")
        self._add(adapter.name, "nic", adapter.name, adapter)
        self.graph.add_edge(adapter.name, self._numa(gpu_numa(self.gpus[near])), wire=wire)

    def _between_sockets(self) -> None:
        """Join the sockets, and those NUMA nodes whose socket is not known."""
        sockets = sorted(node for node in self.graph if node.startswith("socket:"))
        lost = [
            node
            for node in self.graph
            if node.startswith("numa:")
            and not any(other.startswith("socket:") for other in self.graph[node])
        ]
        between = Wire(kind=WireKind.SOCKET, source="between sockets; the rate cannot be read")
        unsure = Wire(
            kind=WireKind.SOCKET, source="the socket of this NUMA node is not known", assumed=True
        )
        self.graph.add_edges_from(combinations(sockets, 2), wire=between)
        if sockets:
            self.graph.add_edges_from(product(lost, sockets), wire=unsure)
        else:
            self.graph.add_edges_from(combinations(lost, 2), wire=unsure)

    def _add(self, node: str, kind: str, label: str, record: object) -> None:
        if node not in self.graph:
            self.graph.add_node(node, kind=kind, label=label, record=record)

    def _host(self) -> None:
        host = self.machine.host
        if host is None:
            return
        for socket in host.sockets:
            self._add(f"socket:{socket.socket}", "socket", f"CPU {socket.socket}", socket)
        for node in host.numa:
            self._add(f"numa:{node.node}", "numa", f"NUMA {node.node}", node)
            if node.socket is not None:
                self._add(f"socket:{node.socket}", "socket", f"CPU {node.socket}", None)
                why = "sysfs: this NUMA node is part of the socket"
                inside = Wire(kind=WireKind.SOCKET, source=why, inside=True)
                self.graph.add_edge(f"numa:{node.node}", f"socket:{node.socket}", wire=inside)

    def _is_shown(self, device: PciDevice) -> bool:
        if device.kind == PciKind.GPU:
            return device.address in self.gpus
        if device.physical_function is not None:
            # Hundreds of virtual functions may exist; those in use by this system are shown.
            return device.address in self.rdma or device.address in self.interfaces
        return device.kind in ENDPOINTS

    def _endpoint(self, device: PciDevice) -> None:
        record: object = device
        label = {"nvme": "NVMe", "nic": "NIC"}.get(device.kind, device.kind)
        if device.kind == PciKind.GPU:
            record = self.gpus[device.address]
            label = gpu_label(self.gpus[device.address])
        elif device.kind == PciKind.NIC:
            adapters = self.rdma.get(device.address, [])
            record = adapters[0] if adapters else device
            names = [adapter.name for adapter in adapters]
            names += [interface.name for interface in self.interfaces.get(device.address, [])]
            label = " ".join(names) or label
        elif device.kind == PciKind.NVME:
            label = self.drives.get(device.address, label)
        elif device.kind == PciKind.NVSWITCH:
            switches = [d.address for d in self.machine.pci if d.kind == PciKind.NVSWITCH]
            label = f"NVSwitch{switches.index(device.address)}"
        self._add(device.address, device.kind, label, record)
        self._climb(device)

    def _climb(self, device: PciDevice) -> None:
        """Add everything above a device, up to its NUMA node."""
        while True:
            parent = self.devices.get(device.parent)
            done = device.parent in self.graph
            if parent is not None:
                self._add(parent.address, parent.kind, _port_label(parent), parent)
            elif not device.parent or device.parent.startswith(CPU_ROOT):
                numa = self._numa(self.numa_of_root.get(device.parent, device.numa_node))
                self.graph.add_edge(device.address, numa, wire=self._wire(device, None))
                return
            else:
                self._add(device.parent, "root complex", device.parent, None)
            self.graph.add_edge(device.address, device.parent, wire=self._wire(device, parent))
            if parent is None:
                if not done:
                    wire = Wire(kind=WireKind.SOCKET, source="inside the CPU", inside=True)
                    numa = self._numa(self.numa_of_root.get(device.parent))
                    self.graph.add_edge(device.parent, numa, wire=wire)
                return
            if done:
                return
            device = parent

    def _wire(self, device: PciDevice, parent: PciDevice | None) -> Wire:
        if parent is None and device.kind == PciKind.ROOT_PORT:
            return Wire(kind=WireKind.SOCKET, source="inside the CPU", inside=True)
        if parent is not None and parent.kind not in LINK_PORTS:
            return Wire(kind=WireKind.PCIE, source="inside a PCIe switch; not a link", inside=True)
        gts, lanes, width = link_limits(device, parent)
        if device.why("driver") == NOT_IN_XML:
            return pcie_wire(gts, None, device.link_width_max, "topology XML")
        gpu = self.gpus.get(device.address)
        if lanes is None and gpu is not None and gpu.pcie_width_max is not None:
            source = (
                "driver: highest generation and width; sysfs does not say how many lanes are up"
            )
            gts = PCIE_GTS.get(gpu.pcie_gen_max or 0) or gts
            return pcie_wire(gts, None, gpu.pcie_width_max, source, assumed=True)
        source = "sysfs: lanes up now, highest speed that both ends can do"
        return pcie_wire(gts, lanes, width, source)

    def _gpu(self, gpu: Gpu) -> None:
        """Add a GPU that the PCI tree does not show, as in a container without the host's /sys."""
        node = gpu_id(gpu)
        if node in self.graph:
            return
        self._add(node, "gpu", gpu_label(gpu), gpu)
        if gpu.partition is not None and gpu.address in self.graph and node != gpu.address:
            return
        package = self.devices.get(gpu.parent or "")
        if package is not None and package.parent in self.graph:
            # All parts of a package go through the one PCIe link that the package has.
            self.graph.add_edge(
                node, package.parent, wire=self._wire(package, self.devices.get(package.parent))
            )
            return
        hidden = "the PCI tree above is not visible"
        if gpu.pcie_width_max is not None:
            hidden = f"driver: highest generation and width; {hidden}"
        gts = PCIE_GTS.get(gpu.pcie_gen_max or 0)
        wire = pcie_wire(gts, None, gpu.pcie_width_max, hidden, assumed=True)
        self.graph.add_edge(node, self._numa(gpu_numa(gpu)), wire=wire)

    def _numa(self, node: int | None) -> str:
        host = self.machine.host
        known = [item.node for item in host.numa if not item.without_cpus] if host else []
        if node is None and len(known) == 1:
            node = known[0]
        name = UNKNOWN_NUMA if node is None else f"numa:{node}"
        self._add(name, "numa", "NUMA ?" if node is None else f"NUMA {node}", None)
        return name


def _port_label(device: PciDevice) -> str:
    return f"{device.kind} {device.address.removeprefix('0000:')}"


# Attributes of a graph that nobody can change.
def freeze_attributes(graph: nx.Graph[str]) -> None:
    """Freeze the attributes of nodes and edges, which `networkx.freeze` leaves open."""
    inner: Any = graph  # networkx documents `_node` and `_adj` for subclasses; the stubs lack them
    for node, attributes in inner._node.items():
        inner._node[node] = MappingProxyType(attributes)
    for neighbours in inner._adj.values():
        for other, attributes in neighbours.items():
            neighbours[other] = MappingProxyType(attributes)
