"""The explanation of a device, a pair or an edge, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from ..hardware.specs import sku_for
from ..hardware.vendors import AMD, NVIDIA
from ..model.machine import Gpu, PciDevice, PciKind
from ..model.page import Fact, Fix, Page
from ..model.readings import EccCounts, GpuReading
from ..model.surroundings import Interface, NumaNode, RdmaDevice, RdmaPort, Socket
from ..model.units import UNKNOWN, size, text, whole
from ..node import Node
from ..sources.amd.words import held
from ..sources.nvidia.recovery import NONE
from ..wiring.above import CPU_ROOT
from ..wiring.gpu_names import gpu_label
from ..wiring.graph import gpu_id, gpu_numa
from ..wiring.wires import Wire, WireKind
from .edge import rate_facts, why_edge
from .links import LinkTrouble, link_facts, missing_links
from .naming import name, origin
from .pair import why_pair

__all__ = ["why_device", "why_edge", "why_pair"]

HARMLESS = {
    "gpu idle": "nothing runs",
    "applications clocks": "somebody set these clocks",
    "sw power cap": "the power limit is reached: normal under full load",
    "sync boost": "it keeps step with a group of GPUs",
    "display clock": "a display holds the clock",
}
"""Reasons that are no fault (NVML's clocks event reasons; AzNHC and gpud treat them so)."""
NOTABLE = {
    "sw thermal": "the driver slows it down because it is hot: look at the cooling",
    "socket thermal": "it is slowed down because the package is hot: look at the cooling",
    "vr thermal": "it is slowed down because its voltage regulators are hot: look at the cooling",
    "hbm thermal": "it is slowed down because its memory is hot: look at the cooling",
    "throttled, reason not told": "this model says that it is slowed down, not why",
}
HARMFUL = {
    "prochot": "the board pulls PROCHOT: too hot, or the power supply asks it to brake",
    "hw slowdown": "the hardware brakes: heat or power supply",
    "hw thermal": "the hardware brakes because it is too hot",
    "hw power brake": "the power supply asks it to brake",
}
BRIDGES = (PciKind.ROOT_PORT, PciKind.UPSTREAM, PciKind.DOWNSTREAM, PciKind.BRIDGE)
UNNAMED = "GPU of unknown name"
AWAKE = 2
"""Performance states up to P2 run the PCIe link at full speed; a higher one may slow it down."""


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
    if device.kind in BRIDGES:
        yield _acs(device)


def _acs(device: PciDevice) -> Fact:
    question = "Does ACS send peer traffic up to the CPU?"
    if device.acs is None:
        because = device.why("acs") or "config space is not readable"
        return Fact(what=question, value="not known", because=because, source="")
    if redirects := device.redirects:
        return Fact(
            what=question,
            value=f"yes: {', '.join(redirects)}",
            because="P2P below this port goes through the CPU; in a virtual machine it has to",
            source="PCI config space, ACS control",
        )
    return Fact(
        what=question,
        value="no",
        because=f"{', '.join(device.acs)} alone redirects nothing"
        if device.acs
        else "no control is on",
        source="PCI config space, ACS control",
    )


def _links(node: Node, vertex: str) -> Iterator[Fact]:
    """State the link upwards and, for an NVSwitch, the NVLinks that end there."""
    above = node.devices.above(vertex)
    upper = above[0] if above else ""
    if upper.startswith(CPU_ROOT):
        near = (other for other in node.graph[vertex] if other.startswith("numa:"))
        upper = next(near, upper)
    if node.graph.has_edge(vertex, upper):
        wire: Wire = node.graph.edges[vertex, upper]["wire"]
        if not wire.inside:
            yield from rate_facts(wire, "How is it attached?")
    if node.graph.nodes[vertex].get("kind") == "nvswitch":
        yield from _nvlinks(node, vertex)


def _nvlinks(node: Node, vertex: str) -> Iterator[Fact]:
    nvlinks = {
        other: edge["wire"]
        for other, edge in node.graph[vertex].items()
        if edge["wire"].kind is WireKind.NVLINK
    }
    if nvlinks:
        joined = [f"{name(node, other)} {wire.count}" for other, wire in nvlinks.items()]
        total = sum(wire.count or 0 for wire in nvlinks.values())
        yield Fact(
            what="Which NVLinks end here?",
            value=f"{total}: {', '.join(joined)}",
            source="NVML, remote end of each link",
        )


def _below(node: Node, vertex: str) -> Iterator[Fact]:
    ends = [
        name(node, address)
        for address in node.devices.parents
        if address in node.graph
        and node.graph.nodes[address]["kind"] in ("gpu", "nic", "nvswitch", "nvme")
        and vertex in node.devices.above(address)
    ]
    if ends:
        yield Fact(what="What is below?", value=", ".join(ends), source="the PCI tree")


def explain_gpu(node: Node, gpu: Gpu) -> Page:
    """Explain one GPU: what was read about it, and what is proven to be wrong."""
    now = node.snapshot.readings.gpu(gpu.address)
    wire = _slot(node, gpu)
    lost = now is not None and now.lost
    trouble = [item for item in (_lost(now), _width(node, gpu, now, wire), *_errors(now)) if item]
    missing = missing_links(node, gpu)
    if missing is not None:
        trouble.append((missing.claim, missing.fix))
    facts = [
        *_identity(gpu),
        *_pcie(gpu, now, wire),
        *_c2c(gpu),
        *_place(node, gpu),
        *link_facts(node, gpu),
    ]
    if now is not None and not lost:
        facts += [*_clocks(gpu, now), *_ecc(gpu, now)]
    facts += _unread(gpu, now)
    label = gpu_label(gpu)
    sound = f"{label}: {_model(gpu)}. Nothing that was read proves a fault."
    return Page.why(
        title=f"{label} · {gpu.address}",
        claim=" ".join(claim for claim, _ in trouble) or sound,
        facts=tuple(facts),
        impact=_consequence(missing),
        fix=tuple(Fix(text=fix) for _, fix in trouble if fix),
    )


def _consequence(missing: LinkTrouble | None) -> str:
    return "" if missing is None else missing.impact


def _unread(gpu: Gpu, now: GpuReading | None) -> Iterator[Fact]:
    """What has no value, with the reason: fields of one reason together."""
    gaps = (*gpu.gaps, *(now.gaps if now is not None else ()))
    for why in sorted({gap.why for gap in gaps}):
        fields = sorted({gap.field for gap in gaps if gap.why == why})
        yield Fact(what="What could not be read?", value=", ".join(fields), because=why, source="")


def _slot(node: Node, gpu: Gpu) -> Wire | None:
    """Return the wire between a GPU and the port above it."""
    above, vertex = node.devices.above(gpu.address), gpu_id(gpu)
    if not above or not node.graph.has_edge(vertex, above[0]):
        return None
    wire: Wire = node.graph.edges[vertex, above[0]]["wire"]
    return wire


def _lost(now: GpuReading | None) -> tuple[str, str] | None:
    if now is None or not now.lost:
        return None
    return (
        f"The driver answered before and now says that this GPU is gone: {now.why('lost')}.",
        "Read the kernel's log (dmesg | grep -i xid); it takes a reset or a reboot to come back.",
    )


def lanes(gpu: Gpu, now: GpuReading | None, wire: Wire | None) -> tuple[int | None, int | None]:
    """Count the lanes that are up, and those that both ends of the link can do."""
    current = now.pcie_width if now is not None else None
    most = gpu.pcie_width_max
    if wire is not None:
        current = current or wire.count
        most = wire.count_max or most
    return current, most


def _width(
    node: Node, gpu: Gpu, now: GpuReading | None, wire: Wire | None
) -> tuple[str, str] | None:
    current, most = lanes(gpu, now, wire)
    if not current or not most or current >= most:
        return None
    if gpu.c2c_enabled:
        return None  # A coherent CPU is reached over NVLink-C2C, so few lanes or none are wired.
    host = node.snapshot.machine.host
    fix = "Reseat the card or its riser, and look at the slot's settings in the firmware."
    if host is not None and host.hypervisor is not None:
        # Some cloud instances pass a GPU through with fewer lanes by design.
        fix = "In a virtual machine: ask who runs the host; some instances have fewer by design."
    return f"Its PCIe link came up with {current} of {most} lanes.", fix


def _errors(now: GpuReading | None) -> Iterator[tuple[str, str]]:
    if now is not None and now.recovery_action not in (None, NONE):
        asks = f"To clear a fault the driver asks for this: {now.recovery_action}."
        yield asks, "End the jobs on it, then do what the driver asks."
    ecc = now.ecc if now is not None else None
    if ecc is None:
        return
    if ecc.remap_failed:
        yield "Remapping a memory row failed: the GPU is out of spare rows.", "Replace the GPU."
    if ecc.remap_pending or ecc.retirement_pending:
        yield "A memory row waits to be remapped.", "Reset the GPU when no job runs on it."


def _identity(gpu: Gpu) -> Iterator[Fact]:
    source = "NVML" if gpu.vendor == NVIDIA.id else "driver"
    known = (
        _model(gpu),
        f"part {gpu.partition} of package {gpu.parent}" if gpu.parent is not None else "",
        size(gpu.memory_bytes),
        _named("power limit ", whole(gpu.power_limit_watts, "W")),
    )
    numbers = (
        _named("UUID ", text(gpu.uuid)),
        _named("serial ", text(gpu.serial)),
        _named("index ", text(gpu.index)),
    )
    yield Fact(
        what="What is it?",
        value=", ".join(part for part in known if part not in ("", UNKNOWN)),
        because=", ".join(filter(None, numbers)),
        source=source if gpu.uuid is not None else origin(gpu, gpu.why("uuid") or ""),
    )


def _model(gpu: Gpu) -> str:
    """Name the GPU; where no driver names it, name the model of its PCI id."""
    sku = None if gpu.name else sku_for(gpu)
    return gpu.name or (UNNAMED if sku is None else sku.name)


def _named(what: str, value: str) -> str:
    return "" if value == UNKNOWN else f"{what}{value}"


def _link(generation: int | None, width: int | None, when: str) -> str:
    if generation is None and width is None:
        return ""
    return f"gen{text(generation)} x{text(width)} {when}"


def _pcie(gpu: Gpu, now: GpuReading | None, wire: Wire | None) -> Iterator[Fact]:
    current, most = lanes(gpu, now, wire)
    generation = now.pcie_gen if now is not None else None
    highest = gpu.pcie_gen_max
    links = (_link(generation, current, "at this moment"), _link(highest, most, "possible"))
    yield Fact(
        what="How is it attached?",
        value="; ".join(filter(None, links)) or "its PCIe link was not read",
        because=_pcie_because(now, generation, highest, current, most),
        source=origin(gpu, "driver and sysfs"),
    )


def _pcie_because(
    now: GpuReading | None,
    generation: int | None,
    highest: int | None,
    current: int | None,
    most: int | None,
) -> str:
    said: list[str] = []
    if current and most and current < most:
        said.append("lanes do not drop while a GPU sleeps: this is how the link trained")
    if generation is not None and highest is not None and generation < highest:
        state = now.performance_state if now is not None else None
        idle = now is not None and "gpu idle" in (now.throttle_reasons or ())
        if idle or (state is not None and state > AWAKE):
            said.append(
                "it sleeps, and a sleeping link is slow; only under load this means anything"
            )
        else:
            said.append("below what is possible: measure host copies under load before you worry")
    return "; ".join(said)


def _c2c(gpu: Gpu) -> Iterator[Fact]:
    if gpu.c2c_enabled:
        yield Fact(
            what="What joins it to the CPU?",
            value="NVLink-C2C",
            because="host copies go this way, so lanes and generation of PCIe say little",
            source=origin(gpu, "NVML nvmlDeviceGetC2cModeInfoV"),
        )


def _place(node: Node, gpu: Gpu) -> Iterator[Fact]:
    numa, row = gpu_numa(gpu), node.matrix.row(gpu.address)
    cpus = gpu.cpu_affinity or (row.cpu_affinity if row is not None else None)
    why = gpu.why("numa_node") or "the machine does not say"
    known = [f"NUMA node {numa}" * (numa is not None), f"CPUs {cpus}" * (cpus is not None)]
    driver = gpu.cpu_affinity is not None or cpus is None
    yield Fact(
        what="Which CPUs are near?",
        value=", ".join(filter(None, known)) or "not known",
        because=why if numa is None else "",
        source=origin(
            gpu,
            "sysfs numa_node and the driver's affinity"
            if driver
            else "sysfs numa_node and local_cpulist",
        ),
    )


def _clocks(gpu: Gpu, now: GpuReading) -> Iterator[Fact]:
    reasons = now.throttle_reasons
    if reasons is None:
        why = now.why("throttle_reasons") or "not asked"
        yield Fact(what="Clock limit?", value=UNKNOWN, because=why, source="")
        return
    words = {**HARMLESS, **NOTABLE, **HARMFUL}
    meanings = [
        f"{held(reason, gpu.vendor)}: {words.get(reason, 'no meaning known')}" for reason in reasons
    ]
    bad = [reason for reason in reasons if reason in HARMFUL]
    answer = ", ".join(held(reason, gpu.vendor) for reason in reasons) or "none"
    if reasons and not bad and all(reason in HARMLESS for reason in reasons):
        answer += " (harmless)"
    if bad:
        meanings.append("one reading is a moment; it counts when it comes back again and again")
    yield Fact(
        what="Clock limit?",
        value=answer,
        because="; ".join(meanings),
        source="amdsmi amdsmi_get_violation_status"
        if gpu.vendor == AMD.id
        else "NVML nvmlDeviceGetCurrentClocksEventReasons",
    )


def _ecc(gpu: Gpu, now: GpuReading) -> Iterator[Fact]:
    ecc = now.ecc
    if ecc is None:
        return
    spent = _spent(gpu, ecc)
    yield Fact(
        what="What does its memory protection say?",
        value=(
            f"ECC {'on' if gpu.ecc_enabled else 'off' if gpu.ecc_enabled is False else UNKNOWN}; "
            f"{text(ecc.uncorrected_volatile)} uncorrected and {text(ecc.corrected_volatile)} "
            f"corrected errors since the driver loaded{spent}"
        ),
        because="counts over a life mean little; one that grows does",
        source="NVML" if gpu.vendor == NVIDIA.id else "driver",
    )


def _spent(gpu: Gpu, ecc: EccCounts) -> str:
    """State which memory was taken out of use: NVIDIA remaps rows, AMD retires pages."""
    if gpu.vendor == AMD.id:
        pages = ecc.pages_retired_double
        return "" if pages is None else f"; {pages} bad page{'s' * (pages != 1)}"
    remapped = [ecc.rows_remapped_corrected, ecc.rows_remapped_uncorrected]
    rows = UNKNOWN if None in remapped else str(sum(filter(None, remapped)))
    return f"; {rows} rows remapped"
