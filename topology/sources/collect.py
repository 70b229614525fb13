"""Merge the parts of all sources into one NodeSnapshot."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..hardware.amd_parts import numbered
from ..hardware.vendor import GPU
from ..hardware.vendors import AMD, BY_PCI_ID, vendor_of
from ..model.machine import Gpu, Machine, PciDevice
from ..model.part import OF_MACHINE, OF_READINGS, OF_SNAPSHOT, Part, merge_fields
from ..model.readings import Readings
from ..model.record import Gap
from ..model.snapshot import NodeSnapshot
from .cross_check import differences
from .numbers import addressed, in_order, named_in

ONLY_PCI = "only PCI shows this GPU; no management library answered for it"
"""Why such a GPU has no UUID, no index and no memory size."""


def merge_machine(parts: Sequence[Part]) -> Machine:
    """The machine from parts in order of precedence."""
    merged = merge_fields(addressed(parts, OF_MACHINE), OF_MACHINE)
    merged["gpus"] = _named(_gpus(merged.get("gpus", ()), merged.get("pci", ())))
    return Machine(**merged)


def merge_readings(parts: Sequence[Part]) -> Readings:
    """The readings from parts in order of precedence."""
    merged = merge_fields(addressed(parts, OF_READINGS), tuple(OF_READINGS))
    return Readings(**{OF_READINGS[name]: value for name, value in merged.items()})


def merge(
    parts: Sequence[Part],
    *,
    taken_at: float,
    source: tuple[str, ...],
    gputop: str,
    machine: Machine | None = None,
) -> NodeSnapshot:
    """One snapshot; `machine` is given when it is known not to have changed."""
    crossed = Part(problems=differences(parts), assumptions=in_order(parts))
    parts = named_in(parts)
    return NodeSnapshot(
        gputop=gputop,
        taken_at=taken_at,
        source=source,
        machine=machine if machine is not None else merge_machine(parts),
        readings=merge_readings(parts),
        **merge_fields([*parts, crossed], OF_SNAPSHOT),
    )


def _gpus(managed: Sequence[Gpu], pci: Sequence[PciDevice]) -> tuple[Gpu, ...]:
    """All GPUs by address, completed from the PCI tree; those that only PCI knows have gaps."""
    gpus = {gpu.address: gpu for gpu in managed}
    for device in pci:
        if device.kind != "gpu" or device.vendor_id not in BY_PCI_ID:
            continue
        gpu = gpus.get(device.address)
        gpus[device.address] = _complete(gpu, device) if gpu else _unmanaged(device)
    gpus = numbered(gpus)
    packages = {device.address: device for device in pci}
    for gpu in tuple(gpus.values()):
        package = packages.get(gpu.parent or "")
        if package is not None and gpu.parent != gpu.address:
            # A part is no PCI function of its own; what PCI says about its package applies to it.
            gpus[gpu.address] = _complete(gpu, package)
    for gpu in gpus.values():
        if gpu.numa_node is None and gpu.memory_affinity and len(gpu.memory_affinity) == 1:
            # A virtual machine's sysfs says -1 where the driver knows the one node there is.
            gaps = tuple(gap for gap in gpu.gaps if gap.field != "numa_node")
            gpus[gpu.address] = msgspec.structs.replace(
                gpu, numa_node=gpu.memory_affinity[0], gaps=gaps
            )
    gpus |= {address: _rated(gpu) for address, gpu in gpus.items() if gpu.xgmi}
    gpus |= {address: _numbered(gpu) for address, gpu in gpus.items() if gpu.serial is not None}
    return tuple(sorted(gpus.values(), key=lambda gpu: (gpu.address, gpu.partition or "")))


def _named(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Give every GPU a name: every vendor counts from 0, and without a library nobody counts.

    Beside those of another vendor GPUs have the label of theirs, if it has one.
    """
    numbered = {gpu.vendor for gpu in gpus if gpu.index is not None}
    shared = len({gpu.vendor for gpu in gpus}) > 1
    places: dict[str, int] = {}
    found = []
    for gpu in gpus:
        place = None
        if gpu.vendor not in numbered:
            place = places[gpu.vendor] = places.get(gpu.vendor, -1) + 1
        apart = shared and vendor_of(gpu).label != GPU
        if (place, apart) != (gpu.place, gpu.index_shared):
            gpu = msgspec.structs.replace(gpu, place=place, index_shared=apart)
        found.append(gpu)
    return tuple(found)


def _complete(gpu: Gpu, device: PciDevice) -> Gpu:
    filled: dict[str, object] = {}
    if gpu.numa_node is None and device.numa_node is not None:
        filled["numa_node"] = device.numa_node
    if gpu.pcie_width_max is None and device.link_width_max is not None:
        filled["pcie_width_max"] = device.link_width_max
    if gpu.name is None and gpu.vendor == AMD.id and device.device_name is not None:
        # amdgpu names only boards whose vendor stored a name in them.
        filled["name"] = device.device_name
    if not filled:
        return gpu
    gaps = tuple(gap for gap in gpu.gaps if gap.field not in filled)
    return msgspec.structs.replace(gpu, **filled, gaps=gaps)


def _numbered(gpu: Gpu) -> Gpu:
    """Drop a serial number that consists of zeros only, which a board without one has."""
    if gpu.serial is None or gpu.serial.strip("0"):
        return gpu
    gap = Gap("serial", f"the board says {gpu.serial}")
    return msgspec.structs.replace(gpu, serial=None, gaps=(*gpu.gaps, gap))


def _rated(gpu: Gpu) -> Gpu:
    """Compute the rate of xGMI links from lanes and speed of one source, the number of another."""
    links = []
    for link in gpu.xgmi:
        if link.raw_gbs is None and link.speed_gts and link.width and link.links:
            gaps = tuple(gap for gap in link.gaps if gap.field != "raw_gbs")
            rate = link.speed_gts * link.width * link.links / 8
            links.append(msgspec.structs.replace(link, raw_gbs=rate, gaps=gaps))
        else:
            links.append(link)
    return msgspec.structs.replace(gpu, xgmi=tuple(links))


def _unmanaged(device: PciDevice) -> Gpu:
    return Gpu(
        address=device.address,
        vendor=BY_PCI_ID[device.vendor_id or 0].id,
        name=device.device_name,
        pci_id=f"{device.vendor_id:04x}:{device.device_id:04x}" if device.device_id else None,
        numa_node=device.numa_node,
        pcie_width_max=device.link_width_max,
        gaps=tuple(Gap(field, ONLY_PCI) for field in ("uuid", "memory_bytes", "index")),
    )
