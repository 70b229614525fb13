"""The topology XML that NCCL or RCCL would build on this machine, from what a snapshot knows.

Each rank describes its own GPU and all NICs, and the descriptions are put together
(graph/topo.cc:ncclTopoGetSystem, graph/xml.cc of NCCL 2.28.9 and RCCL 2.21.5); the order of
elements follows from that. From 2.30.7 on NCCL asks NVML for a GPU's present link instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from ...hardware.vendors import AMD
from ...model.element import Element
from ...model.machine import Gpu, Machine, PciDevice, PciKind
from ...wiring.wires import PCIE_GTS
from ..order import hip_order, leading
from ..settings import Settings
from .attributes import number
from .bus import Bus
from .links import NO_WIRES, NVSWITCH, gpu_attributes, link_elements, wires_unknown
from .ports import Port, network_ports
from .unplaced import placed

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
_ROOT = "pciffff:00"
_MOST = 32
"""Groups of GPUs, the device numbers of one PCI bus."""


# An element that is still growing; `freeze` makes an Element of it.
@dataclass(slots=True, eq=False)
class ElementDraft:
    """A tag, attributes in the order in which they were set, children, and the element above."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[ElementDraft] = field(default_factory=list)
    above: ElementDraft | None = None
    keep: bool = False
    """Part of this communicator: a GPU with a rank, a NIC of the network."""

    def add(self, tag: str, **attributes: str) -> ElementDraft:
        """Append a child."""
        child = ElementDraft(tag, dict(attributes), above=self)
        self.children.append(child)
        return child

    def place(self, child: ElementDraft) -> None:
        """Take in a `pci` element in the order of bus ids, as text (NCCL issue 820)."""
        busid = child.attributes.get("busid", "")
        index = len(self.children)
        for i, other in enumerate(self.children):
            if "busid" in other.attributes and busid < other.attributes["busid"]:
                index = i
                break
        self.children.insert(index, child)
        child.above = self

    def default(self, name: str, value: str) -> None:
        """Set an attribute unless the element has it."""
        self.attributes.setdefault(name, value)

    def sub(self, tag: str) -> ElementDraft | None:
        """The first direct child with this tag."""
        return next((child for child in self.children if child.tag == tag), None)

    def walk(self) -> Iterator[ElementDraft]:
        """Go through the element and everything below it, parents first."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack += reversed(element.children)

    def trim(self) -> bool:
        """Drop branches in which nothing is kept; say whether anything is (ncclTopoTrimXmlRec)."""
        if self.keep:
            return True
        kept = [child.trim() for child in self.children]
        self.children = [
            child
            for child, stays in zip(self.children, kept, strict=True)
            if stays or child.tag not in ("cpu", "pci", "nic", "net")
        ]
        return any(kept)

    def fuse(self, other: ElementDraft) -> None:
        """Merge what another rank found; equal attributes make one element (ncclTopoFuseXml)."""
        known: dict[tuple[str, frozenset[tuple[str, str]]], ElementDraft] = {}
        for child in self.children:
            known.setdefault(child._looks(), child)
        for other_child in other.children:
            same = known.get(other_child._looks())
            if same is None:
                other_child.above = self
                self.children.append(other_child)
            else:
                same.fuse(other_child)

    def _looks(self) -> tuple[str, frozenset[tuple[str, str]]]:
        return self.tag, frozenset(self.attributes.items())

    def freeze(self) -> Element:
        """Make an Element of this and everything below it."""
        return Element(
            tag=self.tag,
            attributes=tuple(self.attributes.items()),
            children=tuple(child.freeze() for child in self.children),
        )


def thaw(element: Element, above: ElementDraft | None = None) -> ElementDraft:
    """Make a draft of an Element; the attribute `keep` of a file is its own business and stays."""
    draft = ElementDraft(element.tag, dict(element.attributes), above=above)
    draft.children = [thaw(child, draft) for child in element.children]
    return draft


@dataclass(frozen=True)
class Detected:
    """A topology, and what is assumed in it, one sentence each."""

    element: Element
    assumptions: tuple[str, ...] = ()


def detect(machine: Machine, settings: Settings, base: Element | None = None) -> Detected:
    """Build the topology; ranks follow the PCI addresses of NVIDIA's GPUs, HIP's order of AMD's.

    `base` is the file that NCCL_TOPO_FILE names: detection fills what it leaves open, and what
    belongs to no GPU or NIC of this machine is dropped. Never raises.
    """
    notes: list[str] = []
    machine = stated(placed(machine, notes), notes)
    gpus = ranked(machine)
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
        if pci.above.tag == "pci":
            self._fill(pci.above)
        elif pci.above.tag == "cpu":
            self._complete_cpu(pci.above)

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


# A PCI tree made from what NVML states of pairs of GPUs, where /sys shows none.
#
# Without it every GPU would hang on its CPU, and GPUs that share a switch would seem to meet at the
# host bridge, against the driver's own word.
def stated(machine: Machine, notes: list[str]) -> Machine:
    """The machine with such a tree; unchanged where /sys shows one or NVML states no switch."""
    if machine.pci or not any(pair.ancestor in _FAR for pair in machine.pairs):
        return machine
    inner, outer = _groups(machine, _NEAR), _groups(machine, _FAR)
    if len({*inner.values(), *outer.values()}) > _MOST:
        return machine
    notes.append(NOTE)
    return msgspec.structs.replace(machine, pci=tuple(_tree(machine, inner, outer)))


def _groups(machine: Machine, ancestors: tuple[str, ...]) -> dict[str, int]:
    """GPUs joined by such ancestors: address -> number of the group."""
    group = {gpu.address: {gpu.address} for gpu in machine.gpus}
    for pair in machine.pairs:
        if pair.ancestor in ancestors and {pair.src, pair.dst} <= group.keys():
            both = group[pair.src] | group[pair.dst]
            group |= dict.fromkeys(both, both)
    numbers: dict[str, int] = {}
    found: dict[str, int] = {}
    for address in sorted(group):
        if len(group[address]) > 1:
            first = min(group[address])
            found[address] = numbers.setdefault(first, len(numbers))
    return found


def _tree(machine: Machine, inner: dict[str, int], outer: dict[str, int]) -> Iterator[PciDevice]:
    made: set[str] = set()
    for gpu in machine.gpus:
        above = _ROOT
        nested = outer.get(gpu.address) is not None and _differ(gpu, inner, outer)
        for bus, group in (("e0", outer.get(gpu.address) if nested else None),
                           ("e1", inner.get(gpu.address))):  # fmt: skip
            if group is None:
                continue
            # NCCL counts every second bridge: the port above a switch, then the switch itself.
            for address in (f"ffff:{bus}:{group:02x}.0", f"ffff:{bus}:{group:02x}.1"):
                if address not in made:
                    made.add(address)
                    yield _bridge(address, above, gpu)
                above = address
        port = f"{gpu.address[:-4]}1f.0"
        yield _bridge(port, above, gpu)
        yield msgspec.structs.replace(
            _bridge(gpu.address, port, gpu), kind=PciKind.GPU, class_code=0x030200
        )


def _differ(gpu: Gpu, inner: dict[str, int], outer: dict[str, int]) -> bool:
    """Whether GPUs of one outer group sit on different switches."""
    own = outer[gpu.address]
    return len({inner.get(name, name) for name, group in outer.items() if group == own}) > 1


def _bridge(address: str, above: str, gpu: Gpu) -> PciDevice:
    return PciDevice(
        address=address,
        parent=above,
        kind=PciKind.BRIDGE,
        numa_node=gpu.numa_node,
        class_code=0x060400,
        link_speed_max_gts=PCIE_GTS.get(gpu.pcie_gen_max or 0),
        link_width_max=gpu.pcie_width_max,
    )
