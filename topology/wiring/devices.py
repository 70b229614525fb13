"""The one index of a node's devices: by address, UUID and label, with names, models and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ..hardware.specs import Sku, sku_for
from ..model.english import listing
from ..model.machine import Gpu, Machine, PciDevice
from ..model.surroundings import RdmaDevice
from .above import climb
from .graph import gpu_label


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
        return {gpu.address: gpu for gpu in self.machine.gpus}

    @cached_property
    def functions(self) -> Mapping[str, PciDevice]:
        """PCI functions by address."""
        return {device.address: device for device in self.machine.pci}

    @cached_property
    def parents(self) -> Mapping[str, str]:
        """What is directly above each PCI function."""
        return {device.address: device.parent for device in self.machine.pci}

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The names of GPUs, RDMA devices and network interfaces by address."""
        rdma = {device.address: device.name for device in self.machine.rdma if device.address}
        interfaces = {
            interface.address: interface.name
            for interface in self.machine.interfaces
            if interface.address
        }
        return interfaces | rdma | {gpu.address: gpu_label(gpu) for gpu in self.machine.gpus}

    @cached_property
    def _rdma(self) -> Mapping[str, RdmaDevice]:
        known: dict[str, RdmaDevice] = {}
        for device in self.machine.rdma:
            if device.address:
                known.setdefault(device.address, device)
        return known

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


def devices_of(machine: Machine) -> DeviceIndex:
    """The index of a machine, which is kept with it."""
    kept = vars(machine)
    if "devices" not in kept:
        kept["devices"] = DeviceIndex(machine)
    devices: DeviceIndex = kept["devices"]
    return devices
