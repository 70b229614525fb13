"""Relations in the letters of `nvidia-smi topo -m`: X, NV#, PIX, PXB, PHB, NODE, SYS.

NCCL's path types share some of these letters and mean other things by them. AMD pairs joined by
xGMI read XGMI, as rocm-smi prints it. "?" = the machine does not say enough.
"""

from __future__ import annotations

from itertools import product

import msgspec

from ..hardware.vendors import vendor_of
from ..model.element import BASE_FILE, NOT_IN_XML
from ..model.machine import Gpu, GpuPair, Machine, PciKind
from ..model.page import Basis
from ..model.record import GRANTED, NOT_ASKED, PCIE_ALONE, REFUSED
from .above import CPU_ROOT, climb
from .devices import devices_of
from .ends import LinkEnds, nvlinks

UNKNOWN = "?"
SELF = "X"
_ANCESTORS = {
    "single": "PIX",
    "multiple": "PXB",
    "hostbridge": "PHB",
    "node": "NODE",
    "system": "SYS",
}
"""NVML's common ancestors (nvml.h, nvmlGpuTopologyLevel_t); "internal" is
one board with two GPUs, which says no more about bridges."""
MEANING = {
    "X": "the same device",
    "SYS": "PCIe, and the link between NUMA nodes",
    "NODE": "PCIe, and two host bridges of one NUMA node",
    "PHB": "PCIe, and one host bridge of a CPU",
    "PXB": "several PCIe bridges, no host bridge",
    "PIX": "one PCIe bridge or switch at most",
    "NV#": "# NVLinks together",
    "XGMI": "xGMI links, as rocm-smi prints it",
    UNKNOWN: "the machine does not say enough to tell",
}


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """How two devices are connected, and how that is known."""

    code: str
    """"NV18", "PIX", "SYS"."""
    evidence: tuple[str, ...] = ()
    """What was read, in sentences."""
    basis: Basis = Basis.READ
    """"read", or "assumed" where a part was taken for granted."""

    @property
    def meaning(self) -> str:
        """Say what the letters mean."""
        if self.code.startswith("NV"):
            return MEANING["NV#"].replace("# NVLinks", nvlinks(self.code[2:]))
        return MEANING.get(self.code, self.code)


def has_a_row(gpu: Gpu) -> bool:
    """Whether a GPU is a device of its own: whole, or a part that AMD's tools list like one."""
    return gpu.partition is None or vendor_of(gpu).parts_are_devices


def _joins(one: Gpu, other: Gpu, count: int | None) -> str:
    """Say what the driver calls the `count` xGMI links between two GPUs."""
    if one.partition is not None and one.parent is not None and one.parent == other.parent:
        return f"parts of one package, {one.parent}, which it lists as joined by xGMI"
    many = count is not None and count > 1
    what = f"{count} xGMI links join" if many else "an xGMI link joins"
    return f"{what} {one.address} and {other.address}"


class Relations:
    """Finds relations in one machine; keeps what every pair needs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        index = devices_of(machine)
        self.gpus = {address: gpu for address, gpu in index.gpus.items() if has_a_row(gpu)}
        self.pairs = {(pair.src, pair.dst): pair for pair in machine.pairs}
        self.devices, self.parents = index.functions, dict(index.parents)
        for gpu in self.gpus.values():
            # A part of a package is no PCI function, and hangs where its package does.
            if gpu.parent in self.parents:
                self.parents.setdefault(gpu.address, self.parents[gpu.parent])
        self.reported = {frozenset((item.a, item.b)): item.code for item in machine.relations}
        # Only sysfs knows the driver of a device, so a machine with drivers was read there.
        drawn = all(device.why("driver") == NOT_IN_XML for device in machine.pci)
        self.tree_source = "topology XML" if machine.pci and drawn else "sysfs"
        self.index = index
        self._ends = {address: LinkEnds(gpu) for address, gpu in self.gpus.items()}
        self._above: dict[str, dict[str, int]] = {}
        """By device: what is above it, with its height."""
        self._apart: dict[tuple[str, str, int | None, int | None], Relation] = {}
        """Relations by the root complexes and NUMA nodes that both ends are below."""

    def between(self, a: str, b: str) -> Relation:
        """Find the relation of two devices by PCI address."""
        if a == b:
            return Relation(code=SELF)
        one, other = self.gpus.get(a), self.gpus.get(b)
        found = None if one is None or other is None else self._of_gpus(one, other)
        return found or self._reported(a, b) or self._tree(a, b)

    def _of_gpus(self, one: Gpu, other: Gpu) -> Relation | None:
        """The relation of two GPUs; None where nothing but the tree and other texts tells it."""
        a, b = one.address, other.address
        found = self._gpu_links(one, other)
        if found is None and (_denied(one) or _denied(other)):
            return self._reported(a, b) or _unknown(
                "NVML tells no NVLink of one of them, but of others of its model"
            )
        pair = self._pair(a, b)
        if found := found or self._ancestor(pair):
            alone = pair is not None and pair.why("nvlinks_reported") == PCIE_ALONE
            unread = alone and not one.nvlinks and not found.code.startswith("NV")
            return _without_links(found, "NVLinks") if unread else found
        if _unasked(one) or _unasked(other):
            why = f"the driver was not asked for {_links_of(one)} yet"
            return self._reported(a, b) or _unknown(why)
        if self._links_known(one, other, pair):
            return None
        return self._reported(a, b) or _without_links(self._tree(a, b), _links_of(one))

    def _links_known(self, one: Gpu, other: Gpu, pair: GpuPair | None) -> bool:
        """Whether a driver or a topology XML would have told of links between two GPUs."""
        in_xml = self.machine.nccl_topology is not None and one.why("nvlinks") != BASE_FILE
        of_pair = pair is not None and pair.link_type is not None
        return in_xml or of_pair or (one.uuid is not None and other.uuid is not None)

    def _gpu_links(self, one: Gpu, other: Gpu) -> Relation | None:
        here, there = self._ends[one.address], self._ends[other.address]
        direct = _both_ways(here.direct.get(other.address, 0), there.direct.get(one.address, 0))
        if direct:
            said = f"{nvlinks(direct)} of {one.address} to {other.address} active"
            return Relation(code=f"NV{direct}", evidence=(f"{here.source}: {said}",))
        if here.to_switches and there.to_switches:
            count = min(here.to_switches, there.to_switches)
            return Relation(code=f"NV{count}", evidence=(here.switched, there.switched))
        if other.address in here.xgmi:
            said = _joins(one, other, here.xgmi_links.get(other.address))
            return Relation(code="XGMI", evidence=(f"{here.source}: {said}",))
        pair = self._pair(one.address, other.address)
        if pair is not None and pair.over_xgmi:
            words = [f"{pair.hops} hops"] if (pair.hops or 0) > 1 else []
            words += [] if pair.weight is None else [f"weight {pair.weight}"]
            said = ", ".join([f"{here.source}: link type xGMI", *words])
            return Relation(code="XGMI", evidence=(said,))
        if pair is not None and pair.nvlinks_reported:
            code = f"NV{pair.nvlinks_reported}"
            return Relation(code=code, evidence=(f"nvidia-smi topo -m: {code}",))
        return None

    def _pair(self, a: str, b: str) -> GpuPair | None:
        return self.pairs.get((a, b)) or self.pairs.get((b, a))

    def _ancestor(self, pair: GpuPair | None) -> Relation | None:
        code = _ANCESTORS.get(pair.ancestor or "") if pair is not None else None
        if pair is None or code is None:
            return None
        return Relation(code=code, evidence=(f"NVML common ancestor: {pair.ancestor}",))

    def _reported(self, a: str, b: str) -> Relation | None:
        if not self.reported:
            return None
        for ends in product(self._names(a), self._names(b)):
            code = self.reported.get(frozenset(ends))
            if code is not None:
                return Relation(code=code, evidence=(f"nvidia-smi topo -m: {code}",))
        return None

    def _names(self, address: str) -> tuple[str, ...]:
        device = self.index.rdma(address)
        return (address,) if device is None else (address, device.name)

    def _tree(self, a: str, b: str) -> Relation:
        mine, theirs = self._way_up(a), self._way_up(b)
        if not mine or not theirs:
            lost = a if not mine else b
            return _unknown(f"{self.tree_source}: {lost} is not in the PCI tree")
        shared = next((node for node in mine if node in theirs), None)
        if shared is None:
            return self._across(a, b, next(reversed(mine)), next(reversed(theirs)))
        if shared.startswith(CPU_ROOT):
            return _below_cpu(shared)
        if shared not in self.parents:
            return Relation(
                code="PHB",
                evidence=(f"{self.tree_source}: both are below the root complex {shared}",),
            )
        depth = max(mine[shared], theirs[shared])
        # A switch consists of an upstream port and a downstream port per device: it counts as one.
        single = depth == 0 or (depth == 1 and self._is_upstream(shared))
        what = "one PCIe switch or bridge" if single else "several bridges"
        return Relation(
            code="PIX" if single else "PXB",
            evidence=(f"{self.tree_source}: both are below {shared}, {what} between them",),
        )

    def _way_up(self, address: str) -> dict[str, int]:
        """What is above a device, nearest first, with its height."""
        known = self._above.get(address)
        if known is None:
            way = climb(self.parents, address)
            known = self._above[address] = {node: height for height, node in enumerate(way)}
        return known

    def _is_upstream(self, address: str) -> bool:
        device = self.devices.get(address)
        return device is not None and device.kind == PciKind.UPSTREAM

    def _across(self, a: str, b: str, root_a: str, root_b: str) -> Relation:
        here, there = self.numa(a), self.numa(b)
        key = root_a, root_b, here, there
        known = self._apart.get(key)
        if known is None:
            known = self._apart[key] = self._far(*key)
        return known

    def _far(self, root_a: str, root_b: str, here: int | None, there: int | None) -> Relation:
        roots = f"{self.tree_source}: root complexes {root_a} and {root_b}"
        if root_a.startswith(CPU_ROOT) or root_b.startswith(CPU_ROOT):
            roots = f"{self.tree_source}: one is below {root_a}, the other below {root_b}"
        if here is not None and there is not None:
            code = "NODE" if here == there else "SYS"
            return Relation(code=code, evidence=(roots, f"NUMA nodes {here} and {there}"))
        host = self.machine.host
        nodes = [node for node in host.numa if not node.without_cpus] if host is not None else []
        if len(nodes) == 1:
            return Relation(code="NODE", evidence=(roots, "the host has one NUMA node"))
        return _unknown(roots, "the NUMA node is not known")

    def numa(self, address: str) -> int | None:
        """Find the NUMA node next to a device; None when the machine does not say."""
        device = self.devices.get(address)
        if device is not None and device.numa_node is not None:
            return device.numa_node
        gpu = self.gpus.get(address)
        if gpu is None or gpu.numa_node is not None or gpu.parent in (None, address):
            return gpu.numa_node if gpu is not None else None
        return self.numa(gpu.parent)


def _unknown(*evidence: str) -> Relation:
    return Relation(code=UNKNOWN, evidence=evidence, basis=Basis.ASSUMED)


def _below_cpu(name: str) -> Relation:
    """Relate two devices of one NUMA node of a topology XML, which names no host bridge."""
    said = f"topology XML: both are below {name}; whether by one host bridge (PHB) is not in it"
    return Relation(code="NODE", evidence=(said,), basis=Basis.ASSUMED)


def _unasked(gpu: Gpu) -> bool:
    """Whether the driver knows this GPU and was not asked for its links: PCIe would mislead."""
    return gpu.uuid is not None and gpu.why("nvlinks") == NOT_ASKED


def _links_of(gpu: Gpu) -> str:
    return vendor_of(gpu).links


def _without_links(found: Relation, links: str) -> Relation:
    """Mark a relation of GPUs without an answer of a driver: links may join them nevertheless."""
    unasked = f"no driver told of {links}; these letters are for PCIe alone"
    return msgspec.structs.replace(found, evidence=(*found.evidence, unasked), basis=Basis.ASSUMED)


def _both_ways(forth: int, back: int) -> int:
    # Where one end could not be read the other one counts alone.
    return min(forth, back) if forth and back else max(forth, back)


def _denied(gpu: Gpu) -> bool:
    """Whether the driver reports no link of this GPU, and something else shows that it has some."""
    return (gpu.why("nvlinks") or "").endswith((REFUSED, GRANTED))
