"""The parts of all sources become one NodeSnapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from ..hardware.amd_parts import numbered
from ..hardware.vendor import GPU
from ..hardware.vendors import BY_PCI_ID, VENDORS, vendor_of
from ..model.machine import Gpu, Host, Machine, PciDevice, Software
from ..model.merge import merge_by, merge_records
from ..model.readings import GpuReading, HostReading, Readings
from ..model.record import Gap
from ..model.snapshot import NodeSnapshot
from ..model.source import Part
from .cross_check import differences

ONLY_PCI = "only PCI shows this GPU; no management library answered for it"
"""Why such a GPU has no UUID, no index and no memory size."""
NUMBERED = {f"topo:{vendor.label}": vendor.id for vendor in VENDORS}
"""What a text without addresses calls a GPU, before its number, and whose number that is."""
_T = TypeVar("_T", Gpu, GpuReading)


def has_machine(part: Part) -> bool:
    """Whether the part says anything that stays."""
    return bool(
        part.host
        or part.numa
        or part.gpus
        or part.pairs
        or part.pci
        or part.interfaces
        or part.rdma
        or part.relations
        or part.software
        or part.nccl_topology
    )


def merge_machine(parts: Sequence[Part]) -> Machine:
    """What stays, from parts in order of precedence."""
    hosts: list[Host] = [part.host for part in parts if part.host]
    software: list[Software] = [part.software for part in parts if part.software]
    host = merge_records(hosts) if hosts else None
    numa = merge_by(lambda node: node.node, [part.numa for part in parts])
    if numa and not (host and host.numa):
        host = msgspec.structs.replace(host or Host(), numa=numa)
    pci = merge_by(lambda device: device.address, [part.pci for part in parts])
    gpus = _told_apart(_gpus(parts, pci))
    known = _by_index(gpus)

    def real(address: str) -> str:
        return _real_address(address, known)

    pairs = [
        tuple(
            msgspec.structs.replace(pair, src=real(pair.src), dst=real(pair.dst))
            for pair in part.pairs
        )
        for part in parts
    ]
    relations = [
        tuple(
            msgspec.structs.replace(relation, a=real(relation.a), b=real(relation.b))
            for relation in part.relations
        )
        for part in parts
    ]
    return Machine(
        host=host,
        gpus=gpus,
        pairs=merge_by(lambda pair: (pair.src, pair.dst), pairs),
        pci=pci,
        interfaces=merge_by(lambda interface: interface.name, [part.interfaces for part in parts]),
        rdma=merge_by(lambda device: device.name, [part.rdma for part in parts]),
        relations=merge_by(lambda relation: (relation.a, relation.b), relations),
        software=merge_records(software) if software else None,
        nccl_topology=next((part.nccl_topology for part in parts if part.nccl_topology), None),
    )


def merge_readings(parts: Sequence[Part]) -> Readings:
    """What moves, from parts in order of precedence."""
    hosts: list[HostReading] = [part.host_reading for part in parts if part.host_reading]
    known = _by_index(gpu for part in parts for gpu in part.gpus)
    readings = [
        tuple(_real_members(reading, known) for reading in part.gpu_readings) for part in parts
    ]
    return Readings(
        gpus=merge_by(lambda reading: reading.address, readings),
        pci=merge_by(lambda reading: reading.address, [part.pci_readings for part in parts]),
        processes=merge_by(lambda process: process.pid, [part.processes for part in parts]),
        host=merge_records(hosts) if hosts else None,
    )


def merge(
    parts: Sequence[Part],
    *,
    taken_at: float,
    source: tuple[str, ...],
    gputop: str,
    machine: Machine | None = None,
) -> NodeSnapshot:
    """One snapshot; `machine` is passed when it is known not to have changed."""
    return NodeSnapshot(
        gputop=gputop,
        taken_at=taken_at,
        source=source,
        machine=machine if machine is not None else merge_machine(parts),
        readings=merge_readings(parts),
        environment=merge_by(
            lambda variable: (variable.name, variable.origin), [part.environment for part in parts]
        ),
        measurements=tuple(figure for part in parts for figure in part.measurements),
        problems=tuple(
            dict.fromkeys(
                [*(problem for part in parts for problem in part.problems), *differences(parts)]
            )
        ),
        assumptions=tuple(dict.fromkeys(text for part in parts for text in part.assumptions)),
    )


def _gpus(parts: Sequence[Part], pci: Sequence[PciDevice]) -> tuple[Gpu, ...]:
    """All GPUs by address, completed from the PCI tree; what only PCI knows comes with gaps."""
    by_index = _by_index(gpu for part in parts for gpu in part.gpus)
    groups = [tuple(_real_members(gpu, by_index) for gpu in part.gpus) for part in parts]
    gpus = {gpu.address: gpu for gpu in merge_by(lambda gpu: gpu.address, groups)}
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
            # A part is no PCI function of its own; what PCI says of its package holds for it.
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


def _told_apart(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
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
    if gpu.name is None and gpu.vendor == "amd" and device.device_name is not None:
        # amdgpu names only boards whose vendor wrote a name into them.
        filled["name"] = device.device_name
    if not filled:
        return gpu
    gaps = tuple(gap for gap in gpu.gaps if gap.field not in filled)
    return msgspec.structs.replace(gpu, **filled, gaps=gaps)


def _numbered(gpu: Gpu) -> Gpu:
    """Drop a serial number of nothing but zeros, which a board without one has."""
    if gpu.serial is None or gpu.serial.strip("0"):
        return gpu
    gap = Gap("serial", f"the board says {gpu.serial}")
    return msgspec.structs.replace(gpu, serial=None, gaps=(*gpu.gaps, gap))


def _rated(gpu: Gpu) -> Gpu:
    """Give xGMI links their rate where one source told lanes and speed, another their number."""
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


def _is_pci(address: str) -> bool:
    return not address.startswith("topo:")


def _by_index(gpus: Iterable[Gpu]) -> dict[tuple[str, int], str]:
    """Addresses by the number that the management library gives; each vendor counts from 0."""
    return {
        (gpu.vendor, gpu.index): gpu.address
        for gpu in gpus
        if gpu.index is not None and _is_pci(gpu.address)
    }


def _real_address(address: str, by_index: dict[tuple[str, int], str]) -> str:
    """`topo:GPU3`, the name in a text without addresses, becomes the address of GPU 3 if known."""
    for sign, vendor in NUMBERED.items():
        digits = address.removeprefix(sign)
        if digits != address and digits.isdecimal() and len(digits) < 10:
            return by_index.get((vendor, int(digits)), address)
    return address


def _real_members(record: _T, by_index: dict[tuple[str, int], str]) -> _T:
    """Name a GPU, and those at the ends of its xGMI links, by PCI address where that is known."""
    own = _real_address(record.address, by_index)
    ends = [_real_address(link.remote_address, by_index) for link in record.xgmi]
    if own == record.address and all(
        end == link.remote_address for end, link in zip(ends, record.xgmi, strict=True)
    ):
        return record
    links = tuple(
        msgspec.structs.replace(link, remote_address=end)
        for end, link in zip(ends, record.xgmi, strict=True)
    )
    return msgspec.structs.replace(record, address=own, xgmi=links)
