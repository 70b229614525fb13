"""NCCL's view of PCI functions and NUMA nodes in /sys, made from a Machine.

NCCL takes the lower of both ends of a link, and of each path only every second port: the upper
ports of switches (graph/xml.cc:ncclTopoGetXmlFromSys).
"""

import re
from functools import cached_property

from ...model.cpulist import members
from ...model.machine import Machine, PciDevice
from ...model.record import by_address
from ...wiring.above import climb
from ...wiring.wires import PCIE_GTS
from .machine import nccl_family

_SAID = re.compile(r"([0-9]{1,3}):")
"""A width that sysfs gave and that means "none": "0: no link is trained"."""
MOST_BRIDGES = 64
"""Limit of bridges above one device; real trees have eight at most."""
NO_NUMA = "The NUMA nodes of the GPUs are not known: all are taken to be on one."
NO_TREE = "The PCI tree is not known: GPUs hang directly on the CPU of their NUMA node."
_ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64", "ppc64le": "ppc64", "ppc64": "ppc64"}


class Bus:
    """PCI functions, GPUs that no PCI tree shows, and NUMA nodes of one machine."""

    def __init__(self, machine: Machine, *, rccl: bool) -> None:
        self._machine, self._rccl = machine, rccl
        self._devices, self._gpus = by_address(machine.pci), by_address(machine.gpus)
        self._parents = {address: device.parent for address, device in self._devices.items()}
        self._classes: dict[str, str | None] = {}
        self.assumptions: list[str] = []

    def shows(self, address: str) -> bool:
        """Whether /sys has this function."""
        return address in self._devices

    def pci_class(self, address: str) -> str | None:
        """The class as sysfs writes it, "0x030200"."""
        if address not in self._classes:
            device = self._devices.get(address)
            code = device.class_code if device is not None else None
            self._classes[address] = None if code is None else f"0x{code:06x}"
        return self._classes[address]

    def attributes(self, address: str) -> dict[str, str]:
        """Ids, link_speed and link_width of a `pci` element, in NCCL's order."""
        device = self._devices.get(address)
        if device is None:
            return self._unseen(address)
        found = {
            "vendor": device.vendor_id,
            "device": device.device_id,
            "subsystem_vendor": device.subsystem_vendor_id,
            "subsystem_device": device.subsystem_device_id,
        }
        written = {name: f"0x{number:04x}" for name, number in found.items() if number is not None}
        port = self._devices.get(device.parent)
        return written | {
            "link_speed": self._speed(device, port),
            "link_width": self._width(device, port),
        }

    def above(self, address: str) -> tuple[str, str]:
        """The parent of a function: ("pci", address of a switch) or ("cpu", NUMA node)."""
        device = self._devices.get(address)
        if device is None:
            gpu = self._gpus.get(address)
            if gpu is not None and gpu.numa_node is None:
                self.assumptions.append(NO_NUMA)
            return "cpu", self._numa(gpu.numa_node if gpu is not None else None)
        way = climb(self._parents, address)
        # A way that ends in no root complex is a ring: no recording of a machine. A text may show
        # a function and not its place.
        whole = 0 < len(way) <= MOST_BRIDGES and way[-1] not in self._devices
        if not whole or len(way) < 2 or way[1] not in self._devices:
            return "cpu", self._numa(device.numa_node)
        return "pci", way[1]

    def way(self, address: str) -> list[str]:
        """The function itself and the switches above it, nearest first."""
        found = [address]
        kind, above = self.above(address)
        while kind == "pci" and above not in found:
            found.append(above)
            kind, above = self.above(above)
        return found

    def cpu(self, numaid: str) -> dict[str, str]:
        """Attributes of a `cpu` element (ncclTopoGetXmlFromCpu); x86 alone has a vendor."""
        mask = self._mask(numaid)
        found = {} if mask is None else {"affinity": mask}
        found["arch"] = self._architecture()
        return found | self._cpu_model() if found["arch"] == "x86_64" else found

    def _architecture(self) -> str:
        """The CPU's architecture in NCCL's words."""
        host = self._machine.host
        known = None if host is None else host.architecture
        if known is not None:
            return _ARCHITECTURES.get(known or "x86_64", known)
        if any(gpu.c2c_enabled for gpu in self._machine.gpus):
            known, why = "aarch64", "arm64 is assumed, as C2C is on."
        else:
            known, why = "x86_64", "x86_64 is assumed."
        self.assumptions.append(f"The CPU's architecture is not known: {why}")
        return _ARCHITECTURES[known]

    def _cpu_model(self) -> dict[str, str]:
        """Vendor, family and model of an x86 CPU; "" and 0 where they are not known."""
        host = self._machine.host
        vendor, family, model = (
            (None, None, None)
            if host is None
            else (host.cpu_vendor, host.cpu_family, host.cpu_model)
        )
        if None in (vendor, family, model):
            self.assumptions.append(
                "The CPU's vendor, family or model is not known: no CPU-specific figures are used."
            )
        return {
            "vendor": vendor or "",
            "familyid": str(nccl_family(family or 0)),
            "modelid": str(model or 0),
        }

    def _speed(self, device: PciDevice, port: PciDevice | None) -> str:
        ends = [end.link_speed_max_gts for end in (device, port) if end is not None]
        known = [gts for gts in ends if gts is not None]
        return f"{min(known):.1f} GT/s PCIe" if known else ""

    def _width(self, device: PciDevice, port: PciDevice | None) -> str:
        lanes = _lanes(device)
        if port is None:
            # Nothing is read above a root complex: NCCL counts 0 lanes there, RCCL the device's.
            return str(lanes if self._rccl else 0)
        # A port without the file counts as 0 lanes too, and RCCL takes the device's word again.
        port_lanes = _lanes(port)
        return str(lanes if self._rccl and port_lanes == 0 else min(lanes, port_lanes))

    def _unseen(self, address: str) -> dict[str, str]:
        gpu = self._gpus.get(address)
        if gpu is not None:
            self.assumptions.append(NO_TREE)
        gts = PCIE_GTS.get(gpu.pcie_gen_max or 0) if gpu is not None else None
        lanes = gpu.pcie_width_max if gpu is not None else None
        return {
            "link_speed": "" if gts is None else f"{gts:.1f} GT/s PCIe",
            "link_width": "" if lanes is None else str(lanes),
        }

    def _numa(self, node: int | None) -> str:
        if node is None:
            # RCCL takes "-1" for a mistake of the kernel (its graph/xml.cc).
            return "0" if self._rccl else "-1"
        return str(node)

    def _mask(self, numaid: str) -> str | None:
        """The CPUs of a NUMA node as `cpumap` has them: base 16, words of 32 with commas."""
        return self._masks.get(numaid)

    @cached_property
    def _masks(self) -> dict[str, str]:
        nodes = self._machine.host.numa if self._machine.host is not None else ()
        lists = {str(node.node): members(node.cpus) for node in nodes}
        highest = max((max(cpus) for cpus in lists.values() if cpus), default=0)
        masks = {}
        for numaid, cpus in lists.items():
            if cpus is None:
                continue
            bits = sum(1 << cpu for cpu in cpus)
            words = [bits >> 32 * i & 0xFFFFFFFF for i in range(highest // 32 + 1)]
            masks[numaid] = ",".join(f"{word:08x}" for word in reversed(words))
        return masks


def _lanes(device: PciDevice) -> int:
    """`max_link_width` as strtol reads the file; 0 where there is none."""
    if device.link_width_max is not None:
        return device.link_width_max
    said = _SAID.match(device.why("link_width_max") or "")
    return int(said[1]) if said is not None else 0
