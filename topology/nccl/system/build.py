"""The system from a topology XML: nodes and links (graph/topo.cc:ncclTopoGetSystemFromXml)."""

from collections.abc import Callable, Iterator

from ...model.element import Element
from ...model.errors import GputopError
from ..nodes import (
    CPU,
    GPU,
    LOCAL_GBS,
    NET,
    NIC,
    NVLINK,
    NVS,
    PCI,
    PCIE,
    CpuArch,
    LinkKind,
    System,
    SystemKind,
    SystemLink,
    SystemNode,
)
from ..settings import strtoll
from ..versions import Version
from .constants import (
    bus_number,
    cpu_model,
    decimal,
    hexadecimal,
    inter_cpu_gbs,
    kind_of_class,
    nvlink_gbs,
    pci_link_gbs,
    pci_switch_device,
    vendor_of,
)
from .ranks import Place, ranks_of

OLD_ARCHITECTURES = {"906": "gfx906", "908": "gfx908", "910": "gfx90a"}
"""Numbers that stand for a GPU's architecture in older files (RCCL misc/archinfo.cc)."""
OLD_ARCHITECTURES |= {str(number): f"gfx{number}" for number in (940, 941, 942)}

ARCHITECTURES = {"x86_64": CpuArch.X86, "arm64": CpuArch.ARM, "ppc64": CpuArch.POWER}
INTER_CPU_GBS: dict[str, float] = {CpuArch.POWER: 32.0, CpuArch.ARM: 6.0}

GEN4 = 0x1000C0101000A000
GEN5 = 0x1000C03010000000


class TooManyError(GputopError, ValueError):
    """More nodes or links than the library has room for, in its own words."""


def build_system(root: Element, version: Version, ranks: dict[Place, int] | None = None) -> System:
    """Make the system of a `<system>` element.

    `ranks` gives the rank of each GPU that takes part (others are left out); without it the
    XML's own `rank` attributes count, and where no GPU has one, the order of the bus ids.
    What the library would refuse at this point is listed in `System.refusals`, and the value
    that makes most sense is taken instead. Raises TooManyError.
    """
    return _Builder(root, version, ranks_of(root) if ranks is None else ranks).build()


class _Builder:
    def __init__(self, root: Element, version: Version, ranks: dict[Place, int]) -> None:
        self.root, self.version, self.ranks = root, version, ranks
        self.system = System()
        self.by_ident: dict[tuple[SystemKind, int], SystemNode] = {}
        """The first node of each id."""
        self.joined: set[tuple[int, int]] = set()
        """Nodes between which there is an NVLink or xGMI link, by id()."""
        self.link_gbs: dict[tuple[int, str], float] = {}
        """Bandwidth of one NVLink or xGMI link, by the kind of GPU."""
        self.hosts: list[int] = []
        self.host_text = ""

    def build(self) -> System:
        for cpu in self.root.each("cpu"):
            self.add_cpu(cpu)
        self.system.hosts = max(1, len(self.hosts))
        for tag, add in (
            (self.version.link_tag, self.add_nvlink),
            ("c2c", self.add_c2c),
            ("pcilink", self.add_pci_link),
        ):
            for element, bus, host in _nested(self.root, tag, self.host_of):
                add(element, bus, host)
        flatten_switches(self.system, self.version)
        self.connect_cpus()
        most = self.version.most_links
        if any(len(node.links) > most for nodes in self.system.nodes.values() for node in nodes):
            raise TooManyError(f"too many Topo links (max {most})")
        for cpu_node in self.system.nodes[CPU]:
            if not parents_last(cpu_node, None):
                self.refuse("PCI switches are joined in a circle")
        return self.system

    def refuse(self, text: str) -> None:
        self.system.refuse(text)

    def number(self, element: Element, name: str, fallback: int, owner: str) -> int:
        """A required integer; its absence is what makes the library give up."""
        text = element.get(name)
        if text is None:
            self.refuse(f"{owner} has no {name}")
            return fallback
        return strtoll(text)[0]

    def host_of(self, cpu: Element) -> int:
        text = (cpu.get("host_hash") or "0").strip().lower().removeprefix("0x")
        try:
            value = int(text, 16)
        except ValueError:
            value = 0
        if value not in self.hosts:
            self.hosts.append(value)
        return self.hosts.index(value)

    def add(self, kind: SystemKind, ident: int) -> SystemNode:
        if len(self.system.nodes[kind]) == self.version.most_nodes:
            kind_number = list(SystemKind).index(kind)
            raise TooManyError(f"tried to create too many nodes of type {kind_number} ({kind})")
        node = self.system.add(kind, ident)
        self.by_ident.setdefault((kind, ident), node)
        return node

    def node(self, kind: SystemKind, ident: int) -> SystemNode | None:
        return self.by_ident.get((kind, ident))

    def add_cpu(self, element: Element) -> None:
        numa = self.number(element, "numaid", 0, "a cpu")
        host = self.host_of(element)
        self.host_text = element.get("host_hash") or ""
        cpu = self.add(CPU, host << 56 | numa & (1 << 56) - 1)
        arch = element.get("arch")
        if arch is None:
            self.refuse(f"cpu {numa} has no arch")
        cpu.arch = ARCHITECTURES.get(arch or "x86_64", "")
        if cpu.arch == CpuArch.X86:
            vendor = element.get("vendor")
            if vendor is None:
                self.refuse(f"cpu {numa} has no vendor")
            cpu.vendor = vendor_of(vendor or "")
            family = strtoll(element.get("familyid") or "0")[0]
            model = strtoll(element.get("modelid") or "0")[0]
            cpu.model = cpu_model(self.version, cpu.vendor, family, model)
            cpu.speed_gbs = inter_cpu_gbs(self.version, cpu.vendor, family, model)
        else:
            cpu.speed_gbs = INTER_CPU_GBS.get(cpu.arch, LOCAL_GBS)
        for child in element.children:
            add = {"pci": self.add_pci, "nic": self.add_cpu_nic}.get(child.tag)
            if add is not None:
                add(child, cpu, host)

    def add_cpu_nic(self, element: Element, cpu: SystemNode, host: int) -> None:
        # The NUMA node is masked out of the id: every such NIC of a host is one node.
        ident = host << 56
        nic = self.node(NIC, ident)
        if nic is None:
            nic = self.add(NIC, ident)
            connect(cpu, nic, PCIE, LOCAL_GBS)
            connect(nic, cpu, PCIE, LOCAL_GBS)
        self.add_nets(element, nic, host, "")

    def add_pci(self, element: Element, parent: SystemNode, host: int) -> None:
        bus = (element.get("busid") or "").lower()
        if not bus:
            self.refuse("a pci element has no busid")
        klass = element.get("class")
        if klass is None:
            self.refuse(f"pci {bus} has no class")
        number = bus_number(bus)
        kind = kind_of_class(klass or "", self.version)
        node: SystemNode | None = None
        gpu = next(element.each("gpu"), None)
        if gpu is not None:
            kind = GPU
            rank = self.ranks.get((self.host_text, bus))
            if rank is None:
                return
            node = self.add_gpu(gpu, bus, host << 56 | number, rank)
        nic = next(element.each("nic"), None)
        if nic is not None:
            ident = host << 56 | (number & ~0xF if self.version.merges_nic_ports else number)
            nic_node = self.node(NIC, ident)
            if nic_node is None:
                node = nic_node = self.add(NIC, ident)
            self.add_nets(nic, nic_node, host, bus)
        elif kind is PCI:
            node = self.add(PCI, host << 56 | number)
            node.device = pci_switch_device(element)
            for child in element.each("pci"):
                self.add_pci(child, node, host)
        if node is not None:
            self.connect_pci(element, node, parent, bus)

    def connect_pci(self, element: Element, node: SystemNode, parent: SystemNode, bus: str) -> None:
        speed = element.get("link_speed")
        if speed is None:
            self.refuse(f"pci {bus} has no link_speed")
        width = self.number(element, "link_width", 0, f"pci {bus}")
        gbs = pci_link_gbs(speed or "", width)
        connect(node, parent, PCIE, gbs)
        connect(parent, node, PCIE, gbs)

    def add_gpu(self, element: Element, bus: str, ident: int, rank: int) -> SystemNode:
        gpu = self.add(GPU, ident)
        owner = f"gpu {bus}"
        gpu.rank = rank
        gpu.bus_id = bus
        gpu.dev = self.number(element, "dev", gpu.rank, owner)
        gpu.gdr = self.number(element, "gdr", 0, owner) != 0
        if self.version.is_rccl:
            # HIP has no such number: RCCL counts every GPU as 60 (graph/topo.cc:ncclTopoAddGpu).
            gpu.sm = 60
            gpu.units = self.number(element, "sm", 0, owner)
            gcn = element.get("gcn") or ""
            gpu.arch = OLD_ARCHITECTURES.get(gcn, gcn)
        else:
            gpu.sm = self.number(element, "sm", 0, owner)
        return gpu

    def add_nets(self, nic_element: Element, nic: SystemNode, host: int, bus: str) -> None:
        for element in nic_element.each("net"):
            if element.get("dev") is None:
                continue
            dev = strtoll(element.get("dev") or "0")[0]
            net = self.add(NET, host << 56 | dev & (1 << 56) - 1)
            net.dev = dev
            guid = element.get("guid")
            net.asic = hexadecimal(guid) if guid is not None else net.ident
            speed = strtoll(element.get("speed") or "0")[0]
            # Virtual NICs report no speed or -1 (graph/topo.cc:ncclTopoAddNet).
            net.speed_gbs = (speed if speed > 0 else 10000) / 8000.0
            net.latency_us = decimal(element.get("latency"))
            net.port = strtoll(element.get("port") or "0")[0]
            net.gdr = strtoll(element.get("gdr") or "0")[0] != 0
            net.collnet = strtoll(element.get("coll") or "0")[0] != 0
            net.name = element.get("name") or ""
            net.bus_id = bus
            connect(nic, net, LinkKind.NET, net.speed_gbs)
            connect(net, nic, LinkKind.NET, net.speed_gbs)

    def add_nvlink(self, element: Element, bus: str, host: int) -> None:
        gpu = self.node(GPU, host << 56 | bus_number(bus))
        if gpu is None:
            return  # a GPU that takes no part
        count = self.number(element, "count", 0, f"a link of {bus}")
        kind = kind_of_class(element.get("tclass") or "", self.version)
        if kind is GPU:
            target = bus_number(element.get("target") or "")
            remote = self.node(GPU, host << 56 | target)
        elif kind is CPU:
            remote = self.cpu_of(gpu, bus)
        else:
            switches = self.system.nodes[NVS]
            remote = switches[0] if switches else self.add(NVS, 0)
        if remote is None or count <= 0:
            return
        if (gpu.sm, gpu.arch) not in self.link_gbs:
            self.link_gbs[gpu.sm, gpu.arch] = nvlink_gbs(self.version, gpu)
        gbs = count * self.link_gbs[gpu.sm, gpu.arch]
        self.connect_nvlink(gpu, remote, gbs)
        if remote.kind is not GPU:
            self.connect_nvlink(remote, gpu, gbs)

    def connect_nvlink(self, node: SystemNode, to: SystemNode, gbs: float) -> None:
        """Of a mesh there are as many links as pairs: only a second one looks for the first."""
        ends = id(node), id(to)
        connect(node, to, NVLINK, gbs, first=ends not in self.joined)
        self.joined.add(ends)

    def add_c2c(self, element: Element, bus: str, host: int) -> None:
        gpu = self.node(GPU, host << 56 | bus_number(bus))
        kind = self.version.c2c_link
        cpu = self.cpu_of(gpu, bus) if gpu is not None and kind else None
        if gpu is None or cpu is None or not kind:
            return
        count = self.number(element, "count", 0, f"c2c of {bus}")
        gbs = count * self.number(element, "bw", 0, f"c2c of {bus}") / 1000.0
        connect(gpu, cpu, kind, gbs)
        connect(cpu, gpu, kind, gbs)

    def cpu_of(self, gpu: SystemNode, bus: str) -> SystemNode | None:
        """The CPU above a GPU; a version that looks for it in a circle never ends."""
        asked = self.version.cpu_search
        if asked != "upwards" and circles(gpu, switches_only=asked == "switches"):
            self.refuse(f"the search for the CPU of GPU {bus} goes in a circle below PCI switches")
        return cpu_above(gpu, None)

    def add_pci_link(self, element: Element, bus: str, host: int) -> None:
        pci = self.node(PCI, host << 56 | bus_number(bus))
        remote = self.node(PCI, host << 56 | bus_number(element.get("target") or ""))
        if pci is not None and remote is not None:
            connect(pci, remote, LinkKind.LOC, LOCAL_GBS)

    def connect_cpus(self) -> None:
        for cpu in self.system.nodes[CPU]:
            for other in self.system.nodes[CPU]:
                if cpu is not other and cpu.host == other.host:
                    connect(cpu, other, LinkKind.SYS, cpu.speed_gbs)


def _nested(
    root: Element, tag: str, host_of: Callable[[Element], int]
) -> Iterator[tuple[Element, str, int]]:
    """Every element of a tag with the nearest bus id above it and its host."""
    stack: list[tuple[Element, str, int]] = [(root, "", 0)]
    while stack:
        element, bus, host = stack.pop()
        if element.tag == tag:
            yield element, bus, host
        elif element.children:
            if element.tag == "cpu":
                host = host_of(element)
            bus = (element.get("busid") or bus).lower()
            stack.extend([(child, bus, host) for child in reversed(element.children)])


# Broadcom switches that are one chip but show as two levels (graph/topo.cc:getBcmGen).
def generation(device: int, level: int, version: Version) -> int:
    """4 or 5 for such a switch at that level (0 parent, 1 child), else 0."""
    family = device & 0xFFFFFFFFFFFFF000
    if family == GEN4:
        return 4
    return 5 if version.pex_gen5 and family == GEN5 | level << 12 else 0


def flatten_switches(system: System, version: Version) -> None:
    """Dissolve child switches into their parent: GPUs under them become PIX, not PXB."""
    done: set[int] = set()
    while True:
        parent = next(
            (
                node
                for node in system.nodes[PCI]
                if id(node) not in done and generation(node.device, 0, version)
            ),
            None,
        )
        if parent is None:
            return
        _absorb(system, parent, version)
        # The library marks the parent with an id that no longer matches.
        parent.device |= 0xFFFF
        done.add(id(parent))


def _absorb(system: System, parent: SystemNode, version: Version) -> None:
    gen = generation(parent.device, 0, version)
    children = [
        link.to
        for link in parent.links
        if link.to.kind is PCI
        and generation(link.to.device, 1, version) == gen
        and (version.pex_gen5 or link.to.device == parent.device)
    ]
    parent.links = [link for link in parent.links if link.to not in children]
    for child in children:
        for link in child.links:
            if link.to is parent:
                continue
            parent.links.append(SystemLink(link.kind, link.bandwidth_gbs, link.to))
            back = next((back_link for back_link in link.to.links if back_link.to is child), None)
            if back is not None:
                back.to = parent
        system.remove(child)


def connect(
    node: SystemNode, to: SystemNode, kind: LinkKind, gbs: float, *, first: bool = False
) -> None:
    """Add a one-way link, or add bandwidth to an existing one; the widest links come first.

    `first`: there is none of this kind yet.
    """
    links = node.links
    place = len(links)
    if not first:
        known = (i for i, link in enumerate(links) if link.to is to and link.kind == kind)
        place = next(known, place)
    if place == len(links):
        links.append(SystemLink(kind, 0.0, to))
    link = links[place]
    link.bandwidth_gbs += gbs
    while place and links[place - 1].bandwidth_gbs < link.bandwidth_gbs:
        links[place] = links[place - 1]
        place -= 1
    links[place] = link


def cpu_above(node: SystemNode, came_from: SystemNode | None) -> SystemNode | None:
    """The CPU above a device, up the PCI links (graph/topo.cc:findLocalCpu)."""
    if node.kind is CPU:
        return node
    for link in node.links:
        if link.kind is PCIE and link.to is not came_from and link.to.kind in (PCI, CPU):
            found = cpu_above(link.to, node)
            if found is not None:
                return found
    return None


def circles(node: SystemNode, *, switches_only: bool, above: tuple[SystemNode, ...] = ()) -> bool:
    """Whether the search for the CPU above a device comes back to a node that it left.

    It takes the first PCI link of each node, downwards too, to switches and CPUs only or to devices
    as well, and ends at a CPU (graph/topo.cc:findLocalCpu up to 2.25).
    """
    kinds = (PCI, CPU) if switches_only else (PCI, CPU, GPU, NIC)
    for link in node.links:
        if link.kind is PCIE and link.to.kind in kinds:
            if link.to.kind is CPU:
                return False
            below = (*above, node)
            return link.to in below or circles(link.to, switches_only=switches_only, above=below)
    return False


def parents_last(
    node: SystemNode, parent: SystemNode | None, above: tuple[SystemNode, ...] = ()
) -> bool:
    """Move the link upwards behind all others; the search tries links in order.

    False where PCI links lead round in a circle, which the library would follow for ever.
    """
    if node in above:
        return False
    if parent is not None:
        place = next(i for i, link in enumerate(node.links) if link.to is parent)
        node.links.append(node.links.pop(place))
    return all(
        parents_last(link.to, node, (*above, node))
        for link in list(node.links)
        if link.kind is PCIE and link.to is not parent
    )
