"""A topology XML as the parts of a machine; what the file does not say stays unknown.

The Element itself goes along, because NCCL reads it differently: a width of 0 means 16
to NCCL and nothing here, and its `pci` elements stand for whole switches, of which only the
upper port is named (graph/xml.cc:ncclTopoGetXmlFromSys).
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

import msgspec

from ...hardware.vendors import AMD, BY_PCI_ID, NVIDIA
from ...model.cpulist import LIMIT_CPUS, written
from ...model.element import BASE_FILE, NOT_IN_XML, Element
from ...model.machine import Gpu, NvLink, PciDevice, PciKind, XgmiLink
from ...model.part import PartialNode
from ...model.record import Gap, Record
from ...model.snapshot import Problem
from ...model.surroundings import Host, Interface, NumaNode, RdmaDevice, RdmaKind, RdmaPort
from ...sources.collect import ONLY_PCI
from .attributes import is_address, is_hidden, number
from .read import VERSIONS

ARCHITECTURES = {"arm64": "aarch64", "ppc64": "ppc64le"}
"""NCCL's name of a CPU architecture, and the kernel's where it is another."""
SOURCE = "NCCL topology XML"
ONLY_PLACES = (
    "the topology file tells the places of GPUs alone: {library} adds the rest when a job starts"
)
BRIDGES = ("0x0604", "0x080100")
"""Classes of a switch; the second is the bridge of a ConnectX-8 (graph/topo.cc:kvDictPciClass)."""

AMAZON = 0x1D0F
INFINIBAND_CLASS = "0x0207"
_RDMA = re.compile(
    r"(?:mlx\d+_|rdmap|efa|bnxt_re|irdma|rocep|ibp?\d|hfi|qedr|ionic|roce)", re.ASCII
)
_REAL_BYTES = 4
"""A made-up guid counts 0, 1, 2; a real one has more bytes that are not zero."""

NPU_CLASS = "0x068001"
MOST_LINKS = 64
"""Links of one bundle that become records; more are a mistake in the file."""
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
GCN = {
    "906": "gfx906",
    "908": "gfx908",
    "910": "gfx90a",
    "940": "gfx940",
    "941": "gfx941",
    "942": "gfx942",
}
"""Old numbers of `gcn` (RCCL misc/archinfo.cc:convertGcnArchToGcnArchName)."""
ABSENT = "the XML leads them to a device that is not in it, where NCCL adds no link"

R = TypeVar("R", bound=Record)

_GTS = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) GT/s")
KEPT = 1024
"""Addresses: large files name each many times."""
_NORMAL = frozenset({"partition", "parent", "physical_function", "sriov_total", "sriov_enabled"})
"""Fields whose absence is no gap: most devices have no such thing."""


def part_of_topology(root: Element) -> PartialNode:
    """Turn a topology into parts of one machine, the first host's where it has several.

    Elements without a usable address are left out; no topology raises.
    """
    cpus = list(root.each("cpu"))
    first_host = [cpu for cpu in cpus if cpu.get("host_hash") == cpus[0].get("host_hash")]
    walk = _Walk(root, first_host)
    for cpu in first_host:
        walk.cpu(cpu)
    problems: tuple[Problem, ...] = ()
    parted = _more_ranks(first_host)
    if parted is not None:
        problems = (Problem(source=SOURCE, text=parted),)
    if len(first_host) < len(cpus):
        others = len(cpus) - len(first_host)
        text = f"{others} NUMA nodes of other hosts: shown is the first host alone"
        problems += (Problem(source=SOURCE, text=text),)
    version = whole(root, "version") or 1
    gpus = tuple(
        gpu_of(pci, gpu, own, numa, version, frozenset(walk.gpus))
        for own, (pci, gpu, numa) in (walk.gpus or walk.bare).items()
    )
    base = bool(walk.bare) and not walk.gpus
    bare = ONLY_PLACES.format(library=VERSIONS.get(version, "NCCL")) if base else None
    return PartialNode(
        host=_host(first_host),
        gpus=tuple(_of_base(gpu) for gpu in gpus) if base else gpus,
        pci=tuple(walk.pci.values()),
        interfaces=tuple(walk.interfaces.values()),
        rdma=tuple(walk.rdma.values()),
        nccl_topology=root,
        problems=problems,
        assumptions=tuple(filter(None, (bare, parted))),
    )


def _more_ranks(cpus: list[Element]) -> str | None:
    """Several `gpu` in one `pci`: NCCL 2.30 gives each part of a GPU a rank (MLOPart), not 2.28."""
    counts = [sum(1 for _ in pci.each("gpu")) for cpu in cpus for pci in cpu.walk("pci")]
    more = sum(count - 1 for count in counts if count > 1)
    if not more:
        return None
    return (
        f"{more} of {sum(counts)} ranks share a GPU with another (MLOPart, from NCCL 2.30 on): "
        "each GPU is taken as its first rank alone, and what the others do is not predicted"
    )


def _of_base(gpu: Gpu) -> Gpu:
    """Mark what only PCI shows, and that no NVLink here means nothing."""
    bare = gpu.filled(uuid=None)
    gaps = (*bare.gaps, Gap("uuid", ONLY_PCI), Gap("nvlinks", BASE_FILE))
    return msgspec.structs.replace(bare, gaps=gaps)


class _Walk:
    """Goes down the tree and gathers devices by address or name; the first of a kind stays."""

    def __init__(self, root: Element, cpus: list[Element]) -> None:
        self.gpus: dict[str, tuple[Element, Element, int | None]] = {}
        self.bare: dict[str, tuple[Element, Element, int | None]] = {}
        """The same for PCI functions whose class alone says that they are GPUs."""
        self.pci: dict[str, PciDevice] = {}
        self.rdma: dict[str, RdmaDevice] = {}
        self.interfaces: dict[str, Interface] = {}
        # Devices on bus 0 sit on the root complex itself, unless the file spreads them.
        flat = [cpu for cpu in cpus if any(_is_bus_0(pci) for pci in cpu.each("pci"))]
        self._flat = len(flat) == 1
        self._cpus: str | None = None

    def cpu(self, cpu: Element) -> None:
        numa = whole(cpu, "numaid", least=-1)
        name, node = f"cpu {'?' if numa is None else numa}", None if numa == -1 else numa
        self._cpus = cpus_of(cpu.get("affinity"))
        for pci in cpu.each("pci"):
            own = address(pci.get("busid"))
            on_root = own is not None and self._flat and _is_bus_0(pci)
            self._pci(pci, f"pci{own[:7]}" if own is not None and on_root else name, node)
        for nic in cpu.each("nic"):
            self._nets(None, nic, None, node)

    def _pci(self, pci: Element, parent: str, numa: int | None) -> None:
        own = address(pci.get("busid"))
        if own is None or own in self.pci:
            return
        self.pci[own] = _device(pci, own, parent, numa, self._cpus)
        for gpu in pci.each("gpu"):
            self.gpus.setdefault(own, (pci, gpu, numa))
        if self.pci[own].kind == PciKind.GPU and own not in self.gpus:
            self.bare[own] = (pci, Element(tag="gpu"), numa)
        for nic in pci.each("nic"):
            self._nets(pci, nic, own, numa)
        for below in pci.each("pci"):
            self._pci(below, own, numa)

    def _nets(self, pci: Element | None, nic: Element, own: str | None, numa: int | None) -> None:
        for net in nic.each("net"):
            name = net_name(net)
            if name is None:
                continue
            if is_rdma(net, name):
                self.rdma.setdefault(name, rdma_of(pci, net, name, own, numa))
            else:
                self.interfaces.setdefault(name, interface_of(net, name, own, numa))


def _is_bus_0(pci: Element) -> bool:
    own = address(pci.get("busid"))
    return own is not None and own.split(":")[1] == "00"


def _device(pci: Element, own: str, parent: str, numa: int | None, cpus: str | None) -> PciDevice:
    code = pci.get("class") or ""
    record = PciDevice(
        address=own,
        parent=parent,
        class_code=int(code, 16) if len(code) == 8 else None,
        kind=PciKind(_kind(pci, code)),
        vendor_id=whole(pci, "vendor", least=1),
        device_id=whole(pci, "device", least=1),
        subsystem_vendor_id=whole(pci, "subsystem_vendor", least=1),
        subsystem_device_id=whole(pci, "subsystem_device", least=1),
        numa_node=numa,
        local_cpus=cpus,
        link_speed_max_gts=speed_gts(pci),
        link_width_max=whole(pci, "link_width", least=1),
    )
    return complete(record, link_gaps(pci, "link_speed_max_gts", "link_width_max"))


def _kind(pci: Element, code: str) -> str:
    if any(pci.each("gpu")):
        return "gpu"
    if any(pci.each("nic")):
        return "nic"
    if code.startswith(BRIDGES) or any(pci.each("pci")):
        return "switch"
    if code.startswith("0x068000"):
        return "nvswitch"
    if code.startswith("0x03") and whole(pci, "vendor") in (None, *BY_PCI_ID):
        return "gpu"
    return "nic" if code.startswith("0x02") else "other"


def _host(cpus: list[Element]) -> Host | None:
    if not cpus:
        return None
    first = cpus[0]
    arch = first.get("arch") or None
    family = whole(first, "familyid", least=1)
    record = Host(
        cpu_vendor=first.get("vendor") or None,
        cpu_family=None if family is None else kernel_family(family),
        cpu_model=None if family is None else whole(first, "modelid"),
        architecture=ARCHITECTURES.get(arch or "", arch),
        numa=tuple(_numa(cpu, node) for cpu in cpus if (node := whole(cpu, "numaid")) is not None),
    )
    return complete(record, [Gap("cpu_vendor", "the XML names none")])


def _numa(cpu: Element, node: int) -> NumaNode:
    return complete(NumaNode(node=node, cpus=cpus_of(cpu.get("affinity"))))


def cpus_of(mask: str | None) -> str | None:
    """A mask of base 16, words of 32 bits with commas, as a list of CPUs."""
    digits = (mask or "").lower().removeprefix("0x")
    words = [word.rjust(8, "0") for word in digits.split(",")]
    try:
        bits = int("".join(words), 16)
    except ValueError:
        return None
    if bits.bit_length() > LIMIT_CPUS:
        return None
    return written(i for i in range(bits.bit_length()) if bits >> i & 1) or None


def kernel_family(family: int) -> int:
    """The family as the kernel counts it.

    NCCL puts the extended part of CPUID above the four plain bits where the kernel adds it
    (graph/xml.cc:ncclTopoGetXmlFromCpu): 175 is 25. Files written by hand may have either.
    """
    return 15 + (family >> 4) if family & 0xF == 0xF else family


def nccl_family(family: int) -> int:
    """The family as NCCL writes it; the inverse of `kernel_family`."""
    return family if family < 15 else 15 + (family - 15 << 4)


def net_name(net: Element) -> str | None:
    """The name, or "net0" after the number where the file has none; None without either."""
    if net.get("name"):
        return (net.get("name") or "")[:64]
    number = whole(net, "dev")
    return None if number is None else f"net{number}"


def is_rdma(net: Element, name: str) -> bool:
    """Whether the device is an RDMA adapter: sockets have port 0, adapters count from 1."""
    return (whole(net, "port") or 0) > 0 or _RDMA.match(name) is not None


def rdma_of(
    pci: Element | None, net: Element, name: str, own: str | None, numa: int | None
) -> RdmaDevice:
    """Make the record of an RDMA adapter; one port, for NCCL lists each port on its own."""
    speed = whole(net, "speed", least=1)
    port = RdmaPort(
        port=whole(net, "port", least=1) or 1, rate_gbit=None if speed is None else speed / 1000
    )
    record = RdmaDevice(
        name=name,
        address=own,
        kind=RdmaKind(_nets_kind(pci)),
        guid=_guid(net),
        numa_node=numa,
        ports=(complete(port),),
    )
    return complete(record)


def interface_of(net: Element, name: str, own: str | None, numa: int | None) -> Interface:
    """Make the record of an interface that NCCL would use through sockets."""
    record = Interface(
        name=name,
        address=own,
        kind="loopback" if name == "lo" else "ethernet",
        speed_mbps=whole(net, "speed", least=1),
        numa_node=numa,
    )
    return complete(record)


def _nets_kind(pci: Element | None) -> str:
    if pci is None:
        return "rdma"
    if whole(pci, "vendor") == AMAZON:
        return "efa"
    code = pci.get("class") or ""
    if code.startswith(INFINIBAND_CLASS):
        return "infiniband"
    return "roce" if code.startswith("0x0200") else "rdma"


def _guid(net: Element) -> str | None:
    """The system image GUID as sysfs writes one; NCCL prints its bytes in reverse."""
    try:
        octets = int(net.get("guid") or "", 16).to_bytes(8, "little")
    except (ValueError, OverflowError):
        return None
    if 8 - octets.count(0) < _REAL_BYTES:
        return None
    return ":".join(octets[i : i + 2].hex() for i in range(0, 8, 2))


def gpu_of(
    pci: Element, gpu: Element, own: str, numa: int | None, version: int, addresses: frozenset[str]
) -> Gpu:
    """Make the record of the GPU at `own`; `addresses` are those of all GPUs of the file."""
    vendor = whole(pci, "vendor")
    maker = BY_PCI_ID.get(vendor or 0)
    amd = maker is AMD or (maker is not NVIDIA and (version == 2 or gpu.get("gcn") is not None))
    device = whole(pci, "device")
    gts, width = speed_gts(pci), whole(pci, "link_width", least=1)
    nvlinks = tuple(_nvlinks(gpu, addresses))
    record = Gpu(
        address=own,
        vendor=(AMD if amd else NVIDIA).id,
        index=whole(gpu, "dev"),
        compute_capability=_gfx(gpu) if amd else _capability(whole(gpu, "sm", least=10)),
        core_count=whole(gpu, "sm", least=1) if amd else None,
        pci_id=f"{vendor:04x}:{device:04x}" if vendor and device else None,
        pcie_gen_max=GENERATIONS.get(gts or 0.0),
        pcie_width_max=width,
        numa_node=numa,
        c2c_enabled=True if any(gpu.each("c2c")) else None,
        c2c_gbs=_c2c_gbs(gpu),
        nvlinks=nvlinks,
        xgmi=tuple(_xgmi(gpu, addresses)),
    )
    found = complete(record, link_gaps(pci, "pcie_gen_max", "pcie_width_max"))
    if nvlinks or not any(gpu.each("nvlink")):
        return found
    return msgspec.structs.replace(found, gaps=(*found.gaps, Gap("nvlinks", ABSENT)))


def _capability(sm: int | None) -> str | None:
    return None if sm is None else f"{sm // 10}.{sm % 10}"


def _gfx(gpu: Element) -> str | None:
    name = gpu.get("gcn") or None
    return None if name is None else GCN.get(name, name)


def _c2c_gbs(gpu: Element) -> float | None:
    """Links times MB/s of one (graph/topo.cc:ncclTopoAddC2c), over all bundles."""
    bundles = [
        (whole(bundle, "count", least=1), whole(bundle, "bw", least=1))
        for bundle in gpu.each("c2c")
    ]
    known = [count * rate / 1000 for count, rate in bundles if count and rate]
    return sum(known) if known and len(known) == len(bundles) else None


def _nvlinks(gpu: Element, addresses: frozenset[str]) -> Iterator[NvLink]:
    link = 0
    for bundle in gpu.each("nvlink"):
        far, kind = address(bundle.get("target")), _gpus_kind(bundle.get("tclass") or "")
        if kind == "gpu" and far not in addresses:
            continue
        for _ in range(min(whole(bundle, "count") or 0, MOST_LINKS)):
            yield complete(NvLink(link=link, active=True, remote_address=far, remote_kind=kind))
            link += 1


def _gpus_kind(tclass: str) -> str:
    """The kind of the far end; NCCL takes every class it does not know for an NVSwitch."""
    if tclass.startswith("0x03"):
        return "gpu"
    return "ibmnpu" if tclass.startswith(NPU_CLASS) else "nvswitch"


def _xgmi(gpu: Element, addresses: frozenset[str]) -> Iterator[XgmiLink]:
    for bundle in gpu.each("xgmi"):
        far = address(bundle.get("target"))
        if far is not None and far in addresses:
            yield _xgmi_link(far, whole(bundle, "count", least=1))


@lru_cache(256)
def _xgmi_link(far: str, links: int | None) -> XgmiLink:
    # RCCL lists links of one hop alone (graph/xml.cc:ncclTopoGetXmlFromGpu).
    return complete(XgmiLink(remote_address=far, active=True, links=links, hops=1))


# What the attributes of a topology XML mean for the records of a machine.
def whole(element: Element, name: str, *, least: int = 0) -> int | None:
    """An attribute as a whole number; None when it is absent, no number, or below `least`."""
    value = number(element.get(name) or "")
    return value if value is not None and value >= least else None


@lru_cache(KEPT)
def address(text: str | None) -> str | None:
    """A PCI address as the kernel writes it; None for none, or one that the driver hides."""
    if text is None or not is_address(text) or is_hidden(text):
        return None
    domain, rest = text.lower().split(":", 1)
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def speed_gts(element: Element) -> float | None:
    """Rate per lane of a `pci` element in GT/s; None for "", "Unknown" and the like."""
    match = _GTS.match(element.get("link_speed") or "")
    return float(match[1]) if match else None


def link_gaps(element: Element, speed: str, width: str) -> list[Gap]:
    """Why speed and width of a link are unknown, where the file has no figures for them."""
    said = {speed: element.get("link_speed"), width: element.get("link_width")}
    return [
        Gap(field, f"the XML says {text!r}") for field, text in said.items() if text is not None
    ]


def complete(record: R, gaps: list[Gap] | None = None) -> R:
    """The record with a gap for each field that is None: one of `gaps`, else "not in the XML"."""
    known = {gap.field: gap for gap in gaps or []}
    empty = [
        name
        for name in record.__struct_fields__
        if getattr(record, name) is None and name not in _NORMAL
    ]
    found = tuple(known.get(name, Gap(name, NOT_IN_XML)) for name in empty)
    return msgspec.structs.replace(record, gaps=found)
