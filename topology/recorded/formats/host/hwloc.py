"""Objects of hwloc's tree, fed one after the other with their depth, become a part."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ....hardware.vendors import AMD, NVIDIA
from ....model.format import FormatError
from ....model.machine import Gpu, PciDevice
from ....model.part import PartialNode, Raw
from ....model.record import Gap, gaps_of
from ....model.surroundings import NumaNode, RdmaDevice, Socket
from ....sources.pci.devices import parse as parse_devices
from .said import host_of, ranges

MOST_NODES = 1024
MOST_CPUS = 8192
MOST_DEVICES = 16_384
MOST_SOCKETS = 64
_NUMBERED = re.compile(r"(nvml|rsmi)(\d{1,3})\Z")
_GPUS: dict[str, dict[str, Raw]] = {
    "nvml": {"class": "0x030200", "vendor": "0x10de"},
    "rsmi": {"class": "0x120000", "vendor": "0x1002"},
}
_VENDORS = {"nvml": NVIDIA.id, "rsmi": AMD.id}
_RDMA = re.compile(
    r"(?:mlx\d|bnxt_re|rdmap|rocep|roceP|ibp|hfi1|irdma|qedr|efa|hsn|cxi)[\w.-]{0,40}\Z"
)


class _Open(msgspec.Struct):
    """An object on the way down to the one that is read."""

    depth: float
    type: str
    number: int | None = None
    numas: list[int] = []
    """NUMA nodes right below it."""
    address: str = ""


class HwlocTree:
    """What is gathered while the tree is walked."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._way: list[_Open] = []
        self._cpus: dict[int, set[int]] = {}
        self._memory: dict[int, int | None] = {}
        self._sockets: dict[int, set[int]] = {}
        self._devices: dict[str, dict[str, Raw]] = {}
        self._names: dict[str, str] = {}
        """Name of a device of the system -> PCI address."""

    def enter(
        self,
        depth: float,
        kind: str,
        *,
        number: int | None = None,
        memory: int | None = None,
        cpus: frozenset[int] = frozenset(),
        address: str = "",
        said: dict[str, Raw] | None = None,
        name: str = "",
    ) -> None:
        """Read one object; `said` are texts under the names of sysfs."""
        while self._way and self._way[-1].depth >= depth:
            self._way.pop()
        if kind == "OSDev":
            self._name(name)
        elif kind in ("PCIDev", "Bridge"):
            self._device(address, said or {})
        elif kind == "Package" and len(self._sockets) < MOST_SOCKETS:
            self._sockets.setdefault(number or 0, set())
        elif number is not None and kind == "NUMANode":
            self._node(number, memory, cpus)
        elif number is not None and kind == "PU":
            self._processor(number)
        self._way.append(_Open(depth, kind, number, [], address))

    def _name(self, name: str) -> None:
        owner = next((item.address for item in reversed(self._way) if item.address), "")
        if name and owner:
            self._names.setdefault(name, owner)

    def _node(self, number: int, memory: int | None, cpus: frozenset[int]) -> None:
        if len(self._memory) < MOST_NODES:
            self._memory.setdefault(number, memory)
            self._cpus.setdefault(number, set()).update(cpus)
            if self._way:
                self._way[-1].numas.append(number)

    def _processor(self, number: int) -> None:
        if number >= MOST_CPUS:
            return
        near = self._near()
        if near is not None:
            self._cpus.setdefault(near, set()).add(number)
        socket = next((item for item in reversed(self._way) if item.type == "Package"), None)
        if socket is not None:
            self._sockets.setdefault(socket.number or 0, set()).add(number)

    def _near(self) -> int | None:
        """The only NUMA node at the place that is read."""
        for item in reversed(self._way):
            if item.type == "NUMANode":
                return item.number
            if item.numas:
                return item.numas[0] if len(item.numas) == 1 else None
        return None

    def _device(self, address: str, said: dict[str, Raw]) -> None:
        if not address:
            return
        if len(self._devices) >= MOST_DEVICES:
            raise FormatError(f"more than {MOST_DEVICES} PCI devices")
        device = self._devices.setdefault(address, dict(said))
        near = self._near()
        if near is not None:
            device["numa_node"] = str(near)
        above = [item.address for item in self._way if item.address]
        if "root" in said:
            device["path"] = "/".join((str(said["root"]), *above, address))

    def part(self) -> PartialNode:
        """All of it. Raises FormatError where nothing of a machine was in it."""
        if not (self._devices or self._memory or self._sockets):
            raise FormatError("no NUMA node, package or PCI device in it")
        for name, address in self._names.items():
            vendor = _NUMBERED.match(name)
            if vendor is not None and address in self._devices:
                # The management library of a vendor answers for it, so it is a GPU of that vendor.
                self._devices[address] |= _GPUS[vendor[1]]
        found = parse_devices({"absent": f"not in {self._tool}", "devices": self._devices})
        pci = tuple(self._placed(device) for device in found.pci)
        return PartialNode(
            pci=pci,
            gpus=tuple(self._gpus()),
            rdma=tuple(self._rdma()),
            host=host_of(self._tool, numa=tuple(self._nodes()), sockets=tuple(self._packages())),
        )

    def _placed(self, device: PciDevice) -> PciDevice:
        if "path" in self._devices[device.address]:
            return device
        gap = Gap("parent", f"not in {self._tool}")
        return msgspec.structs.replace(device, parent="", gaps=(*device.gaps, gap))

    def _nodes(self) -> Iterator[NumaNode]:
        for number in sorted(self._memory):
            cpus = self._cpus.get(number) or set()
            unknown = ["distances", *([] if cpus else ["gpu_memory"])]
            unknown += ["memory_bytes"] if self._memory[number] is None else []
            yield NumaNode(
                node=number,
                cpus=ranges(sorted(cpus)) if cpus else None,
                memory_bytes=self._memory[number],
                gpu_memory=False if cpus else None,
                gaps=gaps_of(unknown, f"not in {self._tool}"),
            )

    def _packages(self) -> Iterator[Socket]:
        for number, cpus in sorted(self._sockets.items()):
            gap = Gap("cores", f"not in {self._tool}")
            yield Socket(socket=number, threads=len(cpus) or None, gaps=(gap,))

    def _gpus(self) -> Iterator[Gpu]:
        for name, address in self._names.items():
            number = _NUMBERED.match(name)
            if number is not None:
                gaps = gaps_of(("uuid", "memory_bytes"), f"not in {self._tool}")
                index, vendor = int(number[2]), _VENDORS[number[1]]
                yield Gpu(address=address, vendor=vendor, index=index, gaps=gaps)

    def _rdma(self) -> Iterator[RdmaDevice]:
        for name, address in self._names.items():
            if _RDMA.match(name):
                gaps = gaps_of(("driver", "ports"), f"not in {self._tool}")
                node = self._devices.get(address, {}).get("numa_node")
                numa = int(node) if isinstance(node, str) else None
                yield RdmaDevice(name=name, address=address, numa_node=numa, gaps=gaps)
