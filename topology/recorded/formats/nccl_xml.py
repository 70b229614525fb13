"""A topology XML of NCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE) or RCCL."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...hardware.specs import sku_for
from ...model.format import Format
from ...model.machine import Gpu, PciDevice
from ...model.part import PartialNode
from ...model.record import by_address
from ...nccl.xml.machine import part_of_topology
from ...nccl.xml.read import read_topology, root_name
from ...sources.files.tree import live_tree
from ...sources.pci.names import look_up


def _recognises(head: bytes, path: Path) -> bool:
    return root_name(head) == "system"


def _parse(data: bytes, path: Path) -> PartialNode:
    return _named(part_of_topology(read_topology(data, path.name)))


def _named(part: PartialNode) -> PartialNode:
    """Name the devices after pci.ids, as for a recording of sysfs: ids mean the same everywhere."""
    ids = {
        (f"{device.vendor_id:04x}", f"{device.device_id:04x}")
        for device in part.pci
        if device.vendor_id and device.device_id
    }
    names = look_up(live_tree(), ids) or {}
    devices = []
    for device in part.pci:
        vendor = f"{device.vendor_id or 0:04x}"
        found = {
            "vendor_name": names.get(vendor),
            "device_name": names.get(f"{vendor}:{device.device_id or 0:04x}"),
        }
        known = {field: name for field, name in found.items() if name is not None}
        devices.append(device.filled(**known))
    places = by_address(devices)
    gpus = [_gpu(gpu, places.get(gpu.address)) for gpu in part.gpus]
    return msgspec.structs.replace(part, pci=tuple(devices), gpus=tuple(gpus))


def _gpu(gpu: Gpu, device: PciDevice | None) -> Gpu:
    """Name a GPU after pci.ids, else after the table of models."""
    name = None if device is None else device.device_name
    sku = sku_for(gpu) if name is None else None
    name = sku.name if sku is not None else name
    return gpu if name is None else gpu.filled(name=name)


FORMAT = Format(id="NCCL topology XML", recognises=_recognises, parse=_parse)
