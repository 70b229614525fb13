"""The PCI tree of a demo: bus numbers as firmware hands them out, depth first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ...hardware.vendors import AMD, BY_ID
from ...model.severity import Word
from .shape import Adapter, DemoShape, RootPort

PORT_IDS = {"GenuineIntel": "8086:352a", "AuthenticAMD": "1022:14ab", "ARM": "10de:22b1"}
MANY_PORTS = 31
"""Most ports of a root complex, which is itself the first of the 32 devices of its bus."""
SWITCH_IDS = {8.0: "10b5:8796", 16.0: "1000:c010", 32.0: "1000:c030"}
NO_IDS = "0000:0000"
ONE_CHIP = {"1000:c010": "1000:a096"}
"""Switches that are one chip where one shows below another -> what both say of themselves: NCCL and
RCCL then take the lower one away (graph/topo.cc: ncclTopoFlattenBcmSwitches)."""
NVSWITCH_IDS = {2: "10de:1af1", 3: "10de:22a3"}
CLASSES = {
    "gpu": 0x030200,
    "nic": 0x020700,
    "eth": 0x020000,
    "nvswitch": 0x068000,
    "nvme": 0x010802,
}
AMD_GPU = 0x120000
"""Class of an Instinct, a processing accelerator without display; MI200 has another class."""
BRIDGE_CLASS = 0x060400
GTS = {3: 8.0, 4: 16.0, 5: 32.0}
"""Rate of one lane by PCIe generation."""


class FunctionKind(Word):
    """What a function is; devices begin their names with it, bridges say what `PciDevice` says."""

    GPU = "gpu"
    NIC = "nic"
    ETHERNET = "eth"
    NVSWITCH = "nvswitch"
    NVME = "nvme"
    ROOT_PORT = "root port"
    UPSTREAM = "switch upstream"
    DOWNSTREAM = "switch downstream"


GPU, NIC, NVSWITCH = FunctionKind.GPU, FunctionKind.NIC, FunctionKind.NVSWITCH


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One PCI function of a demo."""

    address: str
    parent: str
    root: str
    kind: FunctionKind
    name: str
    """Its name in the shape: "gpu0"; "" for a bridge."""
    number: int
    """The number in that name; -1 for a bridge."""
    class_code: int
    pci_id: str
    subsystem_id: str
    driver: str
    numa: int
    gts: float
    width_max: int
    width_now: int

    @property
    def bus(self) -> str:
        """Domain and bus, "0000:15"."""
        return self.address[:-5]


def chain(function: Function, by_address: dict[str, Function]) -> list[str]:
    """List the bridges above a function, nearest first, and its root complex last."""
    above = [function.parent]
    while above[-1] in by_address:
        above.append(by_address[above[-1]].parent)
    return above


class _Buses:
    """Counts the bus numbers below one root complex."""

    def __init__(self, root: str) -> None:
        self.domain, start = root.split(":")
        self.last = int(start, 16)

    def take(self) -> str:
        self.last += 1
        return f"{self.domain}:{self.last:02x}"


def functions(shape: DemoShape) -> tuple[Function, ...]:
    """Lay the tree out: every bridge and device with its address, in address order."""
    found: list[Function] = []
    roots: dict[str, tuple[_Buses, Iterator[int]]] = {}
    for slot in shape.slot:
        buses, ports = roots.setdefault(
            slot.root, (_Buses(slot.root), iter(range(1, MANY_PORTS + 1)))
        )
        port = slot.port or f"{next(ports):02x}.0"
        found.extend(_Below(shape, slot, buses).port(f"{slot.root}:{port}"))
    return tuple(sorted(found, key=lambda function: function.address))


def paths(functions: Iterable[Function]) -> dict[str, str]:
    """The folder of each function in sysfs, by address; what is above comes first."""
    found: dict[str, str] = {}
    for function in functions:
        above = found.get(function.parent, function.parent)
        found[function.address] = f"{above}/{function.address}"
    return found


class _Below:
    """Everything below one root port."""

    def __init__(self, shape: DemoShape, slot: RootPort, buses: _Buses) -> None:
        self.shape, self.slot, self.buses = shape, slot, buses
        self.switch_id = SWITCH_IDS[slot.gts]
        if len(slot.switch) == 1:  # an adapter's own switch has nothing else below it
            adapter = shape.nic if slot.switch[0].startswith("nic") else shape.ethernet
            self.switch_id = adapter.pcie_bridge or self.switch_id

    def port(self, address: str) -> Iterator[Function]:
        slot = self.slot
        width = self._width_now(slot.device)
        yield self._bridge(address, f"pci{slot.root}", FunctionKind.ROOT_PORT, width)
        if slot.device:
            yield self._device(slot.device, address)
        else:
            yield from self._switch(address, slot.switch, slot.switches)

    def _switch(
        self, above: str, members: Sequence[str], nested: Sequence[Sequence[str]] = ()
    ) -> Iterator[Function]:
        up = f"{self.buses.take()}:00.0"
        yield self._bridge(up, above, FunctionKind.UPSTREAM, 16)
        inner = self.buses.take()
        for number, member in enumerate((*members, *nested)):
            down = f"{inner}:{number:02x}.0"
            yield self._bridge(down, up, FunctionKind.DOWNSTREAM, self._width_now(member))
            if isinstance(member, str):
                yield self._device(member, down)
            else:
                yield from self._switch(down, member)

    def _width_now(self, member: object) -> int:
        """Count the lanes that are up below a port with this device."""
        if not isinstance(member, str):
            return 16
        kind = FunctionKind(member.rstrip("0123456789"))
        fault = self.shape.fault_of(int(member[len(kind) :])) if kind is GPU else None
        if fault is not None and fault.width is not None:
            return fault.width
        return _Facts.of(self.shape, kind, self.slot.gts).width

    def _bridge(self, address: str, parent: str, kind: FunctionKind, width_now: int) -> Function:
        ids = self.switch_id
        if kind is FunctionKind.ROOT_PORT:
            ids = PORT_IDS[self.shape.node.cpu_vendor]
        own = ONE_CHIP.get(ids, NO_IDS) if self.slot.switches else NO_IDS
        return Function(
            address=address, parent=parent, root=self.slot.root, kind=kind, name="", number=-1,
            class_code=BRIDGE_CLASS, pci_id=ids, subsystem_id=own, driver="pcieport",
            numa=self.slot.numa, gts=self.slot.gts, width_max=16, width_now=width_now,
        )  # fmt: skip

    def _device(self, name: str, parent: str) -> Function:
        kind = FunctionKind(name.rstrip("0123456789"))
        facts = _Facts.of(self.shape, kind, self.slot.gts)
        width = self._width_now(name)
        return Function(
            address=f"{self.buses.take()}:00.0", parent=parent, root=self.slot.root,
            kind=kind, name=name, number=int(name[len(kind) :]),
            class_code=self._class_code(kind),
            pci_id=facts.pci_id, subsystem_id=facts.subsystem_id, driver=facts.driver,
            numa=self.slot.numa, gts=facts.gts, width_max=facts.width, width_now=width,
        )  # fmt: skip

    def _class_code(self, kind: FunctionKind) -> int:
        if kind is GPU and self.shape.gpu.vendor == AMD.id:
            return self.shape.gpu.class_code or AMD_GPU
        if kind is NIC and not self.shape.nic.infiniband:
            return CLASSES["eth"]
        return CLASSES[kind]


class _Facts(msgspec.Struct, frozen=True):
    pci_id: str
    subsystem_id: str
    driver: str
    gts: float
    width: int

    @classmethod
    def of(cls, shape: DemoShape, kind: FunctionKind, slot_gts: float) -> _Facts:
        if kind is GPU:
            driver = BY_ID[shape.gpu.vendor].module
            gts = GTS[shape.gpu.pcie_gen]
            return cls(shape.gpu.pci_id, shape.gpu.subsystem_id, driver, gts, 16)
        if kind is NVSWITCH:
            generation = 2 if shape.gpu.pcie_gen == 4 else 3
            return cls(NVSWITCH_IDS[generation], "10de:0000", "nvidia-nvswitch", 16.0, 2)
        if kind is FunctionKind.NVME:
            return cls("144d:a824", "144d:aa1e", "nvme", min(slot_gts, 16.0), 4)
        adapter: Adapter = shape.nic if kind is NIC else shape.ethernet
        lanes = adapter.lanes or (16 if kind is NIC else 4)
        return cls(adapter.pci_id, "15b3:0000", adapter.driver, adapter.gts, lanes)
