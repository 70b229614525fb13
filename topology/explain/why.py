"""The explanation of a device, a pair or an edge, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.machine import Gpu, PciDevice
from ..model.page import Fact, Page
from ..model.surroundings import Interface, NumaNode, RdmaDevice, RdmaPort, Socket
from ..model.units import size, text
from ..node import Node
from ..wiring.above import CPU_ROOT, climb
from ..wiring.wires import Wire
from .edge import rate_facts, why_edge
from .gpu import explain_gpu
from .naming import name, origin
from .pair import why_pair

__all__ = ["why_device", "why_edge", "why_pair"]


def why_device(node: Node, node_id: str) -> Page:
    """Explain one device or node of the graph; says so when there is no such node."""
    attributes = node.graph.nodes.get(node_id)
    if attributes is None:
        return Page.why(title=node_id, claim=f"{node_id} is not part of this node any more.")
    record = attributes["record"]
    if isinstance(record, Gpu):
        return explain_gpu(node, record)
    return explain_node(node, node_id, attributes["kind"], attributes["label"], record)


# Explains a NIC, a bridge, a switch, a NUMA node or a socket.
def explain_node(node: Node, vertex: str, kind: str, label: str, record: object) -> Page:
    """Explain a node of the graph that is not a GPU."""
    title = label if label == vertex else f"{label} · {vertex}"
    facts = [*_own(record), *_function(node, vertex), *_links(node, vertex), *_below(node, vertex)]
    return Page.why(title=title, claim=f"{label}: {_words(kind)}.", facts=tuple(facts))


def _words(kind: str) -> str:
    return {
        "nic": "a network adapter",
        "nvswitch": "NVSwitch, which joins the NVLinks of the GPUs",
        "root complex": "a PCIe host bridge of the CPU",
        "root port": "a PCIe port of the CPU",
        "switch upstream": "the upper side of a PCIe switch",
        "switch downstream": "a port below a PCIe switch",
        "switch": "a PCIe switch, which NCCL names by its upper port",
        "numa": "memory and the CPUs next to it",
        "socket": "a CPU package",
        "nvme": "a disk on PCIe",
    }.get(kind, kind)


def _own(record: object) -> Iterator[Fact]:
    if isinstance(record, RdmaDevice):
        for port in record.ports:
            layer = text(port.link_layer)
            yield Fact(
                what=f"Port {port.port}?",
                value=f"{text(port.state)}, {_rate(port)}, {layer}",
                because=f"physical state {text(port.physical_state)}",
                source=origin(record, "sysfs infiniband"),
            )
        names = ", ".join(record.interfaces) or "none"
        yield Fact(what="Which interfaces?", value=names, source=origin(record, "sysfs"))
    elif isinstance(record, Interface):
        up = "up" if record.up else "down" if record.up is False else "state not told"
        yield Fact(what="Is it up?", value=up, source=origin(record, "sysfs operstate"))
    elif isinstance(record, NumaNode):
        yield Fact(
            what="What is in it?",
            value=f"CPUs {text(record.cpus)}, {size(record.memory_bytes)}",
            source=origin(record, "sysfs node"),
        )
    elif isinstance(record, Socket):
        yield Fact(
            what="How large is it?",
            value=f"{text(record.cores)} cores, {text(record.threads)} threads",
            source=origin(record, "sysfs cpu topology"),
        )


def _rate(port: RdmaPort) -> str:
    if port.rate is None and port.rate_gbit is not None:
        return f"{port.rate_gbit:g} Gb/s"
    return text(port.rate)


def _function(node: Node, vertex: str) -> Iterator[Fact]:
    device = node.snapshot.machine.pci_device(vertex)
    if device is None:
        return
    what = " ".join(word for word in (device.vendor_name, device.device_name) if word)
    numbers = f"{device.vendor_id or 0:04x}:{device.device_id or 0:04x}"
    yield Fact(
        what="Which PCI function is it?",
        value=what or numbers,
        because=f"id {numbers}, driver {text(device.driver)}, NUMA {text(device.numa_node)}",
        source=origin(device, "sysfs"),
    )
    if device.kind in ("root port", "switch upstream", "switch downstream", "bridge"):
        yield _acs(device)


def _acs(device: PciDevice) -> Fact:
    question = "Does ACS send peer traffic up to the CPU?"
    if device.acs is None:
        because = device.why("acs") or "config space is not readable"
        return Fact(what=question, value="not known", because=because, source="")
    redirects = [name for name in device.acs if name in ("ReqRedir", "CmpltRedir", "UpstreamFwd")]
    if redirects:
        return Fact(
            what=question,
            value=f"yes: {', '.join(redirects)}",
            because="P2P below this port goes through the CPU; in a virtual machine it has to",
            source="PCI config space, ACS control",
        )
    return Fact(
        what=question,
        value="no",
        because="SrcValid alone redirects nothing" if device.acs else "no control is on",
        source="PCI config space, ACS control",
    )


def _links(node: Node, vertex: str) -> Iterator[Fact]:
    """State the link upwards and, for an NVSwitch, the NVLinks that end there."""
    above = climb({d.address: d.parent for d in node.snapshot.machine.pci}, vertex)
    upper = above[0] if above else ""
    if upper.startswith(CPU_ROOT):
        near = (other for other in node.graph[vertex] if other.startswith("numa:"))
        upper = next(near, upper)
    if node.graph.has_edge(vertex, upper):
        wire: Wire = node.graph.edges[vertex, upper]["wire"]
        if not wire.inside:
            yield from rate_facts(wire, "How is it attached?")
    nvlinks = {
        other: edge["wire"]
        for other, edge in node.graph[vertex].items()
        if edge["wire"].kind == "nvlink"
    }
    if nvlinks and node.graph.nodes[vertex]["kind"] == "nvswitch":
        joined = [f"{name(node, other)} {wire.count}" for other, wire in nvlinks.items()]
        total = sum(wire.count or 0 for wire in nvlinks.values())
        yield Fact(
            what="Which NVLinks end here?",
            value=f"{total}: {', '.join(joined)}",
            source="NVML, remote end of each link",
        )


def _below(node: Node, vertex: str) -> Iterator[Fact]:
    parents = {device.address: device.parent for device in node.snapshot.machine.pci}
    ends = [
        name(node, address)
        for address in parents
        if address in node.graph
        and node.graph.nodes[address]["kind"] in ("gpu", "nic", "nvswitch", "nvme")
        and vertex in climb(parents, address)
    ]
    if ends:
        yield Fact(what="What is below?", value=", ".join(ends), source="the PCI tree")
