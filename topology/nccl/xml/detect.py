"""The topology XML that NCCL or RCCL would build on this machine, from what a snapshot knows.

Each rank describes its own GPU and all NICs, and the descriptions are put together
(graph/topo.cc:ncclTopoGetSystem, graph/xml.cc of NCCL 2.28.9 and RCCL 2.21.5); the order of
elements follows from that. From 2.30.7 on NCCL asks NVML for a GPU's present link instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from ...hardware.vendors import AMD, NVIDIA, VENDORS
from ...model.element import Element
from ...model.machine import Gpu, Machine, PciDevice, PciKind
from ...model.record import by_address
from ...wiring.graph import gpu_numa
from ...wiring.wires import PCIE_GTS
from ..order import hip_order, leading
from ..settings import Settings
from .attributes import number
from .bus import Bus
from .draft import ElementDraft, thaw
from .links import NO_WIRES, NVSWITCH, gpu_attributes, link_elements, wires_unknown
from .ports import Port, network_ports

GPU_CLASS, NIC_CLASS = "0x03", "0x02"
"""What NCCL writes first, in case /sys does not say."""
NAMES = {"cpu": "numaid", "pci": "busid", "net": "name"}
GPU_GDR = "all GPUs but GeForce are assumed to support GPUDirect RDMA."
GPU_GDR_AMD = "The AMD GPUs are taken to be capable of GPUDirect RDMA."
PEERMEM = frozenset({"nvidia_peermem", "nv_peer_mem"})
DMABUF_KERNEL = (5, 12)
"""The first kernel whose RDMA layer takes DMA-BUF memory (ib_umem_dmabuf_get)."""

NOTE = (
    "The PCI tree is not known: GPUs share the switches that NVML states (their common ancestors), "
    "at the rate of the GPUs' own links."
)
_NEAR = ("internal", "single")
"""Ancestors of GPUs on one switch; "multiple" says that several switches lie between two."""
_FAR = (*_NEAR, "multiple")
_MOST = 32
"""Groups of GPUs, the device numbers of one PCI bus."""
LETTERS = "Addresses and PCI tree are made up from the codes of nvidia-smi topo -m."
LETTERS_AMD = "Addresses and PCI tree are made up: the text of AMD's tool names none."
UNKNOWN = "topo:"
DOMAINS = {
    f"{UNKNOWN}{vendor.label}": f"{0xFFFE - place:x}" for place, vendor in enumerate(VENDORS)
}
"""PCI domains that no machine has, by the word that a text uses for its GPUs."""
MOST = 224
"""GPUs that get an address; buses from e0 on are for switches."""


@dataclass(frozen=True)
class Detected:
    """A topology, and what is assumed in it, one sentence each."""

    element: Element
    assumptions: tuple[str, ...] = ()


def detect(
    machine: Machine,
    settings: Settings,
    base: Element | None = None,
    order: Sequence[str] | None = None,
) -> Detected:
    """Build the topology; ranks follow the PCI addresses of NVIDIA's GPUs, HIP's order of AMD's.

    `base` is the file that NCCL_TOPO_FILE names: detection fills what it leaves open, and what
    belongs to no GPU or NIC of this machine is dropped. `order`: the addresses of the GPUs by
    rank, where not all take part or in another order. Never raises.
    """
    notes: list[str] = []
    names = {gpu.address: bus_id(gpu) for gpu in machine.gpus}
    machine = stated(placed(machine, notes), notes)
    gpus = ranked(machine)
    if order is not None:
        known = by_address(gpus)
        own = (names.get(address, address) for address in order)
        gpus = [known[address] for address in own if address in known]
    rccl = bool(gpus) and gpus[0].vendor == AMD.id
    bus = Bus(machine, rccl=rccl)
    why: list[str] = []
    gdr = nic_gdr(machine, settings, rccl=rccl, notes=why)
    ports = network_ports(machine, settings, gdr=gdr, rccl=rccl, notes=notes)
    if any(port.gdr for port in ports):
        notes += [*why, GPU_GDR_AMD if rccl else GPU_GDR]
    total = ElementDraft("system", {"version": "2" if rccl else "1"})
    one_for_all = base is None and _all_see_the_same(ports, gpus, bus)
    for rank, gpu in enumerate(gpus):
        view = _Rank(_start(base, total.attributes["version"]), bus, machine, notes)
        view.gpu(gpu, rank)
        for index, port in enumerate(() if rank and one_for_all else ports):
            view.net(port, index)
        view.root.trim()
        total.attributes = view.root.attributes
        total.fuse(view.root)
    if rccl and base is None and wires_unknown(machine):
        notes.append(NO_WIRES)
    return Detected(total.freeze(), tuple(dict.fromkeys([*notes, *bus.assumptions])))


def ranked(machine: Machine) -> list[Gpu]:
    """The GPUs that take part in the order of ranks: by PCI address, AMD's as HIP counts them.

    Of two makers the one with more GPUs; parts of a GPU only where the whole is not listed.
    """
    known: dict[str, Gpu] = {}
    for gpu in sorted(machine.gpus, key=lambda gpu: (gpu.address, gpu.partition or "")):
        known.setdefault(gpu.address, gpu)
    vendor = leading(tuple(known.values()))
    chosen = [gpu for gpu in known.values() if gpu.vendor == vendor.id]
    return hip_order(chosen) if vendor is AMD else chosen


def _start(base: Element | None, version: str) -> ElementDraft:
    if base is None:
        return ElementDraft("system", {"version": version})
    root = thaw(base)
    for element in root.walk():
        if element.tag == "cpu":
            # NCCL makes all of the file this host's (ncclTopoGetSystem).
            element.attributes.pop("host_hash", None)
    return root


def _all_see_the_same(ports: list[Port], gpus: list[Gpu], bus: Bus) -> bool:
    """Whether every rank finds the same elements for the NICs, whichever GPU it found before."""
    addresses = {gpu.address for gpu in gpus}
    return all(
        port.address is not None
        and bus.shows(port.address)
        and addresses.isdisjoint(bus.way(port.address))
        for port in ports
    )


class _Rank:
    """The finds of one rank: its GPU, then the NICs."""

    def __init__(self, root: ElementDraft, bus: Bus, machine: Machine, notes: list[str]) -> None:
        self.root, self._bus, self._machine, self._notes = root, bus, machine, notes
        self._named: dict[tuple[str, str], ElementDraft] = {}
        """Elements by tag and the attribute that names them; the first of a name."""
        for element in root.walk():
            self._remember(element)

    def gpu(self, gpu: Gpu, rank: int) -> None:
        """Add the GPU and everything above it (ncclTopoFillGpu)."""
        pci = self._pci(gpu.address, GPU_CLASS)
        element = pci.sub("gpu") or pci.add("gpu")
        for name, value in gpu_attributes(gpu, rank, self._machine, self._notes).items():
            element.default(name, value)
        self._links(gpu, element)
        element.keep = True
        element.attributes["rank"] = str(rank)
        element.default("gdr", str(int(gpu_gdr(gpu))))

    def _links(self, gpu: Gpu, element: ElementDraft) -> None:
        sm = number(element.attributes["sm"]) or 0
        there = {child.tag for child in element.children}
        for tag, attributes in link_elements(gpu, sm, self._machine, self._bus, self._notes):
            if tag not in there:
                element.add(tag, **attributes)
        for link in element.children:
            if link.tag in ("nvlink", "xgmi") and "tclass" not in link.attributes:
                target = link.attributes.get("target", "")
                link.default("tclass", self._bus.pci_class(target) or NVSWITCH)

    def net(self, port: Port, place: int) -> None:
        """Add one device of the network (ncclTopoFillNet, ncclTopoPopulateNics)."""
        net = self._named.get(("net", port.name))
        if net is None:
            on_bus = port.address is not None and self._bus.shows(port.address)
            above = self._pci(port.address or "", NIC_CLASS) if on_bus else self._first_cpu()
            nic = above.sub("nic") or above.add("nic")
            net = self._remember(nic.add("net", name=port.name))
        net.keep = True
        net.attributes["dev"] = str(place)
        for name, value in (
            ("latency", "0"), ("speed", str(port.speed)), ("port", str(port.port)),
            ("guid", f"0x{port.guid:x}"), ("maxconn", str(port.connections)),
            ("gdr", str(int(port.gdr))),
        ):  # fmt: skip
            net.default(name, value)

    def _remember(self, element: ElementDraft) -> ElementDraft:
        if element.tag in NAMES:
            self._named.setdefault(
                (element.tag, element.attributes.get(NAMES[element.tag], "")), element
            )
        return element

    def _first_cpu(self) -> ElementDraft:
        return self.root.sub("cpu") or self._cpu("-1")

    def _pci(self, address: str, kind: str) -> ElementDraft:
        """The `pci` element of a function, made and hung up where it is not there yet."""
        pci = self._named.get(("pci", address)) or ElementDraft("pci", {"busid": address})
        pci.default("class", kind)
        self._fill(pci)
        return pci

    def _fill(self, pci: ElementDraft) -> None:
        """Complete a `pci` element and those above it (ncclTopoGetXmlFromSys)."""
        address = pci.attributes.get("busid", "")
        own = self._bus.pci_class(address)
        if own is not None:
            pci.attributes["class"] = own
        for name, value in self._bus.attributes(address).items():
            pci.default(name, value)
        if pci.above is None:
            where, name = self._bus.above(address)
            if where == "cpu":
                above = self._cpu(name)
            else:
                above = self._named.get(("pci", name)) or ElementDraft("pci", {"busid": name})
                if above.above is None:
                    self._fill(above)
            above.place(pci)
            self._remember(pci)
            return
        fill = {"pci": self._fill, "cpu": self._complete_cpu}.get(pci.above.tag)
        if fill is not None:
            fill(pci.above)

    def _cpu(self, numaid: str) -> ElementDraft:
        cpu = self._named.get(("cpu", numaid))
        if cpu is None:
            cpu = self._remember(self.root.add("cpu", numaid=numaid))
        self._complete_cpu(cpu)
        return cpu

    def _complete_cpu(self, cpu: ElementDraft) -> None:
        for name, value in self._bus.cpu(cpu.attributes.get("numaid", "-1")).items():
            cpu.default(name, value)


def nic_gdr(machine: Machine, settings: Settings, *, rccl: bool, notes: list[str]) -> bool:
    """Whether an RDMA adapter reports GPU memory as usable (net_ib.cc:ncclIbGdrSupport)."""
    host = machine.host
    if rccl:
        notes.append("GPUDirect RDMA of the NICs is assumed: amdgpu's peer memory is not recorded.")
        return True
    if host is None or host.why("modules") is not None:
        notes.append("GPUDirect RDMA of the NICs is assumed: the loaded modules are not known.")
        return True
    if PEERMEM & {module.name for module in host.modules}:
        return True
    if settings.integer("NCCL_DMABUF_ENABLE", 1) == 0 or host.nvidia_module != "open":
        return False
    numbers = re.findall(r"\d{1,5}", host.kernel or "")
    if len(numbers) < 2 or (int(numbers[0]), int(numbers[1])) < DMABUF_KERNEL:
        return False
    notes.append("GPUDirect RDMA by DMA-BUF is assumed: open driver and kernel allow it.")
    return True


def gpu_gdr(gpu: Gpu) -> bool:
    """Whether CUDA would call the GPU capable (cudaDevAttrGPUDirectRDMASupported)."""
    return "GeForce" not in (gpu.name or "")


# A PCI tree made where /sys shows none: from what NVML states of pairs of GPUs, or from the letters
# of a text without addresses. `nvidia-smi topo -m` says who shares a switch and who a NUMA node;
# for `rocm-smi --showtopo`, which knows no switches, NUMA nodes alone count.
#
# Without it every GPU would hang on its CPU, and GPUs that share a switch would seem to meet at the
# host bridge, against the driver's own word.
def stated(machine: Machine, notes: list[str]) -> Machine:
    """The machine with such a tree; unchanged where /sys shows one or NVML states no switch."""
    if machine.pci or not any(pair.ancestor in _FAR for pair in machine.pairs):
        return machine
    known = by_address(machine.gpus).keys()
    ends = [(pair.ancestor, pair.src, pair.dst) for pair in machine.pairs
            if {pair.src, pair.dst} <= known]  # fmt: skip
    inner, outer = _groups(ends, _NEAR, ""), _groups(ends, _FAR, "")
    if len({*inner.values(), *outer.values()}) > _MOST:
        return machine
    notes.append(NOTE)
    numas = {address: gpu.numa_node for address, gpu in by_address(machine.gpus).items()}
    tree = _tree(machine.gpus, inner, outer, numas, "ffff", rated=True)
    return msgspec.structs.replace(machine, pci=tuple(tree))


def is_unplaced(gpu: Gpu) -> bool:
    """Whether the source named no PCI address."""
    return gpu.address.startswith(UNKNOWN)


def bus_id(gpu: Gpu) -> str:
    """The address that stands for a GPU in a detected topology; its own where it has one."""
    for name, domain in DOMAINS.items():
        digits = gpu.address.removeprefix(name)
        if digits != gpu.address and digits.isdecimal() and int(digits) < MOST:
            return f"{domain}:{int(digits):02x}:00.0"
    return gpu.address


def placed(machine: Machine, notes: list[str]) -> Machine:
    """The machine with an address for every GPU; unchanged where all of them have one."""
    lost = [gpu for gpu in machine.gpus if is_unplaced(gpu)]
    if not lost or machine.pci:
        kept = tuple(gpu for gpu in machine.gpus if not is_unplaced(gpu))
        return msgspec.structs.replace(machine, gpus=kept)
    notes += [
        note
        for note, vendor in ((LETTERS, NVIDIA), (LETTERS_AMD, AMD))
        if any(gpu.vendor == vendor.id for gpu in lost)
    ]
    names = {address: bus_id(gpu) for address, gpu in by_address(lost).items()}
    ends = [(relation.code, relation.a, relation.b) for relation in machine.relations]
    nodes = _groups(ends, ("PIX", "PXB", "PHB", "NODE"), UNKNOWN)
    inner, outer = _groups(ends, ("PIX",), UNKNOWN), _groups(ends, ("PIX", "PXB"), UNKNOWN)
    numas = {address: _numa(gpu, nodes) for address, gpu in by_address(lost).items()}

    def named(address: str) -> str:
        return names.get(address, address)

    return msgspec.structs.replace(
        machine,
        gpus=tuple(
            msgspec.structs.replace(
                gpu,
                address=bus_id(gpu),
                xgmi=tuple(
                    msgspec.structs.replace(link, remote_address=named(link.remote_address))
                    for link in gpu.xgmi
                ),
            )
            for gpu in machine.gpus
        ),
        pairs=tuple(
            msgspec.structs.replace(pair, src=named(pair.src), dst=named(pair.dst))
            for pair in machine.pairs
        ),
        pci=tuple(_tree(lost, inner, outer, numas, "fffe", rated=False)),
    )


def _numa(gpu: Gpu, nodes: Mapping[str, int]) -> int | None:
    """Its NUMA node; behind its CPU's node a Grace lists the GPUs' memory."""
    numa = gpu_numa(gpu)
    numa = nodes.get(gpu.address) if numa is None else numa
    return gpu.memory_affinity[0] if numa is None and gpu.memory_affinity else numa


def _groups(
    ends: Iterable[tuple[str | None, str, str]], words: tuple[str, ...], start: str
) -> dict[str, int]:
    """GPUs joined by such words, also by way of a NIC: name -> number of the group.

    `start`: what the names of GPUs begin with.
    """
    groups: list[set[str]] = []
    for word, one, other in ends:
        if word in words:
            joined = {one, other}
            touching = [group for group in groups if group & joined]
            groups = [group for group in groups if not group & joined]
            groups.append(joined.union(*touching))
    groups.sort(key=lambda group: min(group))
    return {
        name: number
        for number, group in enumerate(groups)
        for name in group
        if name.startswith(start)
    }


def _tree(
    gpus: Iterable[Gpu],
    inner: Mapping[str, int],
    outer: Mapping[str, int],
    numas: Mapping[str, int | None],
    domain: str,
    *,
    rated: bool,
) -> Iterator[PciDevice]:
    """Bridges down to each GPU: an outer switch and an inner one where GPUs share them.

    `rated`: at the rate of the GPUs' own links.
    """
    shared = {
        number
        for number in outer.values()
        if len({inner.get(name, name) for name, group in outer.items() if group == number}) > 1
    }
    made: set[str] = set()
    for gpu in gpus:
        bridge = PciDevice(
            address="",
            parent="",
            kind=PciKind.BRIDGE,
            numa_node=numas[gpu.address],
            class_code=0x060400,
            link_speed_max_gts=PCIE_GTS.get(gpu.pcie_gen_max or 0) if rated else None,
            link_width_max=gpu.pcie_width_max if rated else None,
        )
        put = partial(msgspec.structs.replace, bridge)
        above, far = f"pci{domain}:00", outer.get(gpu.address)
        for bus, group in (("e0", far if far in shared else None), ("e1", inner.get(gpu.address))):
            if group is None:
                continue
            # NCCL counts every second bridge: the port above a switch, then the switch itself.
            for address in (f"{domain}:{bus}:{group:02x}.0", f"{domain}:{bus}:{group:02x}.1"):
                if address not in made:
                    made.add(address)
                    yield put(address=address, parent=above)
                above = address
        own = bus_id(gpu)
        port = f"{own[:-4]}1f.0"
        yield put(address=port, parent=above)
        yield put(address=own, parent=port, kind=PciKind.GPU, class_code=0x030200)
