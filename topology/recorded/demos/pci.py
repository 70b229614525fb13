"""A demo's answers for the source `pci`: sysfs texts of every function."""

from __future__ import annotations

from typing import Any

from ...model.record import by_address
from .pci_tree import GPU, Function, paths
from .readings import busy
from .shape import DemoShape

ABSENT = "left out of the demo"
NO_NVIDIA = {"error": "no driver of NVIDIA's on this node"}
PORT_TYPES = {"root port": "4", "switch upstream": "5", "switch downstream": "6"}
ASLEEP_GTS = 2.5
_MEMORY = 0x14220C
"""Flags of a 64-bit prefetchable memory region, as Linux prints them."""


def answer(shape: DemoShape, functions: tuple[Function, ...]) -> dict[str, Any]:
    """What sysfs would say about a demo's PCI functions."""
    below = {function.parent: function for function in functions}
    asleep = {function.address for function in functions if _sleeps(shape, function)}
    places = paths(functions)
    return {
        "demo": True,
        "absent": ABSENT,
        "names": _names(shape),
        "devices": {
            address: {
                "path": places[address],
                **_device(shape, function),
                **_link(function, below.get(address), asleep),
                "iommu_group": str(group),
                "iommu_type": "identity",
            }
            for group, (address, function) in enumerate(by_address(functions).items())
        },
    }


def _sleeps(shape: DemoShape, function: Function) -> bool:
    return function.kind is GPU and shape.gpu.pcie_gen == 4 and not (
        shape.nvlink or shape.xgmi or busy(shape, function)
    )  # fmt: skip


def _device(shape: DemoShape, function: Function) -> dict[str, Any]:
    vendor, device = function.pci_id.split(":")
    sub_vendor, sub_device = function.subsystem_id.split(":")
    texts = {
        "class": f"0x{function.class_code:06x}",
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "subsystem_vendor": f"0x{sub_vendor}",
        "subsystem_device": f"0x{sub_device}",
        "numa_node": str(function.numa),
        "local_cpulist": shape.node.numa_cpus[function.numa],
        "resource": _resource(shape, function),
        "driver": function.driver,
    }
    if function.kind in PORT_TYPES:
        texts |= {"acs": "0x0000", "port_type": PORT_TYPES[function.kind]}
    return texts


def _link(function: Function, child: Function | None, asleep: set[str]) -> dict[str, Any]:
    """Describe the link of a device, or the one below a port that has a link below."""
    ports = ("root port", "switch downstream")
    other = child.gts if child is not None and function.kind in ports else function.gts
    now = min(function.gts, other)
    if function.address in asleep or (child is not None and child.address in asleep):
        now = ASLEEP_GTS
    return {
        "max_link_speed": f"{function.gts:.1f} GT/s PCIe",
        "max_link_width": str(function.width_max),
        "current_link_speed": f"{now:.1f} GT/s PCIe",
        "current_link_width": str(function.width_now),
    }


def _resource(shape: DemoShape, function: Function) -> str:
    start = 0x20_0000_0000 + (int(function.bus[-2:], 16) << 40)
    size = shape.gpu.bar1_bytes if function.kind is GPU else 0x10_0000
    return f"0x{start:016x} 0x{start + size - 1:016x} 0x{_MEMORY:016x}"


def _names(shape: DemoShape) -> dict[str, str]:
    """Names for the ids of the devices that people look at."""
    names = {"10de": "NVIDIA Corporation", "1002": "Advanced Micro Devices, Inc. [AMD/ATI]"}
    names[shape.gpu.pci_id] = shape.gpu.name
    for adapter in (shape.nic, shape.ethernet):
        names[adapter.pci_id.split(":")[0]] = adapter.vendor_name
        names[adapter.pci_id] = adapter.device_name
    return names
