"""The one index of a node's devices: by address, UUID and label, with names, models and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ..hardware.specs import WIRED, BoardLinks, Sku, sku_for
from ..model.english import listing
from ..model.machine import Gpu, Machine, PciDevice
from ..model.record import by_address
from ..model.surroundings import Interface, RdmaDevice
from .above import climb
from .gpu_names import gpu_label


class DeviceIndex:
    """The devices of a machine. Get it with `devices_of`: it is made once for each machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def gpu(self, key: str | None) -> Gpu | None:
        """Find a GPU by PCI address, UUID or label."""
        if not key:
            return None
        return self.gpus.get(key) or self._keys.get(key.lower())

    def pci(self, address: str) -> PciDevice | None:
        """Find a PCI function by its address."""
        return self.functions.get(address)

    def rdma(self, address: str) -> RdmaDevice | None:
        """Find an RDMA device by its PCI address; of several ports the first."""
        return self._rdma.get(address)

    def name(self, address: str) -> str:
        """The name of a device for people: "GPU3", "mlx5_0", else its address."""
        return self.labels.get(address, address)

    def names(self, addresses: Sequence[str]) -> str:
        """The names of devices in one phrase: "GPU0, GPU1 and GPU3"."""
        return listing([self.name(address) for address in addresses])

    def sku(self, gpu: Gpu) -> Sku | None:
        """The model of a GPU; None where it is not in the table or the GPU is a part of one."""
        return sku_for(gpu)

    def siblings(self, gpu: Gpu) -> tuple[Gpu, ...]:
        """The other GPUs of the same model, by address."""
        alike = self._by_model.get((gpu.vendor, gpu.name), ())
        return tuple(other for other in alike if other.address != gpu.address)

    def expected_links(self, gpu: Gpu) -> tuple[int, str]:
        """Count the NVLinks of a GPU that should be up, and say by what: its siblings or its model.

        MIG takes links down, and a board that takes bridges may have none fitted (DCGM#49).
        """
        sku, up = self.sku(gpu), self.links_up[gpu.address]
        if gpu.mig_enabled or self.part_of_mesh(gpu) or not (up or self.wired(gpu)):
            return 0, "the design of the board"
        of_model = 0 if sku is None else sku.links_always
        beside = max(
            (self.links_up[o.address] for o in self.siblings(gpu) if not o.mig_enabled), default=0
        )
        if beside >= of_model:
            return beside, "the other GPUs of this model here"
        return of_model, "the model's data sheet"

    def links_missing(self, gpu: Gpu) -> int:
        """Count the NVLinks or xGMI links of a GPU that should be up and are not.

        0 where no NVLink of the machine is up: that is a fault of a whole board, or the design of
        an instance, and the rule nvlink-down tells the two apart.
        """
        return self._missing[gpu.address]

    def links_most(self, gpu: Gpu) -> int:
        """Count the NVLinks or xGMI links that could be up: those listed, and what is missing."""
        missing = self.links_missing(gpu)
        up = self.links_up[gpu.address] if gpu.nvlinks else _xgmi_up(gpu)
        return up + missing if missing else len(gpu.nvlinks) or len(gpu.xgmi)

    def wired(self, gpu: Gpu) -> bool:
        """Whether its board always has all its links, by its model or by NVSwitches seen here."""
        sku = self.sku(gpu)
        if sku is not None:
            return sku.fabric in WIRED
        return any(
            link.active and link.to_switch
            for other in (gpu, *self.siblings(gpu))
            for link in other.nvlinks
        )

    def part_of_mesh(self, gpu: Gpu) -> bool:
        """Whether a guest has some GPUs of a mesh: the links to the others are down."""
        sku = self.sku(gpu)
        if sku is None or sku.fabric != BoardLinks.POINT_TO_POINT or self.machine.in_vm is False:
            return False
        return len(self.machine.gpus) < (sku.world_size or 0)

    def above(self, address: str) -> tuple[str, ...]:
        """Addresses above a PCI function, nearest first, the root complex ("pci0000:00") last.

        Empty when the function is not in the tree.
        """
        known = self._above.get(address)
        if known is None:
            known = self._above[address] = climb(self.parents, address)
        return known

    def way_up(self, address: str) -> tuple[PciDevice, ...]:
        """A PCI function and the bridges above it, up to its root port; () without a tree."""
        steps = (address, *self.above(address))
        return tuple(found for step in steps if (found := self.functions.get(step)))

    @cached_property
    def gpus(self) -> Mapping[str, Gpu]:
        """GPUs by PCI address."""
        return by_address(self.machine.gpus)

    @cached_property
    def links_up(self) -> Mapping[str, int]:
        """The number of active NVLinks of each GPU, by address."""
        return {
            address: sum(1 for link in gpu.nvlinks if link.active)
            for address, gpu in self.gpus.items()
        }

    @cached_property
    def _missing(self) -> Mapping[str, int]:
        meshed: dict[str | None, int] = {}
        for gpu in self.machine.gpus:
            meshed[gpu.name] = max(meshed.get(gpu.name, 0), _xgmi_up(gpu))
        any_up = any(self.links_up.values())
        return {
            address: max(
                0,
                self.expected_links(gpu)[0] - self.links_up[address] if any_up else 0,
                # A guest may be shown fewer than its siblings have (ROCm/rocm-systems#5763).
                (len(gpu.xgmi) if self.machine.in_vm else meshed[gpu.name]) - _xgmi_up(gpu)
                if gpu.xgmi
                else 0,
            )
            for address, gpu in self.gpus.items()
        }

    @cached_property
    def functions(self) -> Mapping[str, PciDevice]:
        """PCI functions by address."""
        return by_address(self.machine.pci)

    @cached_property
    def parents(self) -> Mapping[str, str]:
        """What is directly above each PCI function."""
        return {address: device.parent for address, device in self.functions.items()}

    @cached_property
    def numa_of_root(self) -> Mapping[str, int]:
        """The NUMA node of each root complex: that of the first device below which says one."""
        found: dict[str, int] = {}
        for device in self.machine.pci:
            if device.numa_node is not None and (above := self.above(device.address)):
                found.setdefault(above[-1], device.numa_node)
        return found

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The names of GPUs, drives, RDMA devices and network interfaces by address."""
        drives = by_address(self.machine.drives)
        known = {address: drive.name for address, drive in drives.items()}
        known |= {address: interface.name for address, interface in self._interfaces.items()}
        known |= {address: device.name for address, device in self._rdma.items()}
        return known | {address: gpu_label(gpu) for address, gpu in self.gpus.items()}

    @cached_property
    def _rdma(self) -> Mapping[str, RdmaDevice]:
        return by_address(self.machine.rdma)

    @cached_property
    def _interfaces(self) -> Mapping[str, Interface]:
        return by_address(self.machine.interfaces)

    @cached_property
    def _keys(self) -> Mapping[str, Gpu]:
        """GPUs by whatever else names them, in small letters; the first of several."""
        known: dict[str, Gpu] = {}
        for gpu in self.machine.gpus:
            for key in (gpu.address, gpu.uuid, gpu_label(gpu)):
                if key:
                    known.setdefault(key.lower(), gpu)
        return known

    @cached_property
    def _by_model(self) -> Mapping[tuple[str, str | None], tuple[Gpu, ...]]:
        known: dict[tuple[str, str | None], tuple[Gpu, ...]] = {}
        for gpu in self.machine.gpus:
            key = (gpu.vendor, gpu.name)
            known[key] = (*known.get(key, ()), gpu)
        return known

    @cached_property
    def _above(self) -> dict[str, tuple[str, ...]]:
        return {}


def _xgmi_up(gpu: Gpu) -> int:
    return sum(1 for link in gpu.xgmi if link.active)


def devices_of(machine: Machine) -> DeviceIndex:
    """The index of a machine, which is kept with it."""
    kept = vars(machine)
    if "devices" not in kept:
        kept["devices"] = DeviceIndex(machine)
    devices: DeviceIndex = kept["devices"]
    return devices
