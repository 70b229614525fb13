"""Merge the parts of all sources into one NodeSnapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, is_not

import msgspec

from ..hardware.amd_parts import numbered
from ..hardware.vendor import GPU
from ..hardware.vendors import AMD, BY_PCI_ID, NVIDIA, VENDORS, vendor_of
from ..model.gathered import gathered
from ..model.kernel_event import LISTENED
from ..model.machine import Gpu, GpuPair, Machine, PciDevice, PciKind, XgmiLink
from ..model.part import OF_MACHINE, OF_READINGS, OF_SNAPSHOT, PartialNode, merge_fields
from ..model.readings import ProcessReading, Readings
from ..model.record import Gap, Record, by_address, gaps_of
from ..model.snapshot import Measurement, NodeSnapshot, Problem, ProblemKind
from ..model.surroundings import Software
from ..model.versions import RunningLibrary
from .believed import machine_believed, readings_believed

ONLY_PCI = "only PCI shows this GPU; no management library answered for it"
"""Why such a GPU has no UUID, no index and no memory size."""

KERNEL = "kfd"
PAIR_FIELDS = (("link_type", "link"), ("weight", "weight"))
GPU_FIELDS = (
    ("xgmi_hive", "xGMI hive"),
    ("compute_partition", "compute partition"),
    ("memory_partition", "memory partition"),
    ("compute_capability", "target"),
    ("core_count", "compute units"),
    ("kfd_node", "KFD node"),
    ("render_minor", "render node"),
    ("memory_bytes", "memory"),
    ("pci_id", "PCI id"),
)
MOST_KEPT_SHARE = 0.2
"""Of the memory: what one of two sources may leave out of it."""
LIMIT = 8
"""Number of differences of one kind that are spelled out; more are counted."""

NUMBERED = {f"topo:{vendor.label}": vendor.id for vendor in VENDORS}
"""The prefix of GPU numbers in texts without addresses, and the vendor whose numbers they are."""
ADDRESSED = ("gpus", "pairs", "relations", "gpu_readings")
"""Fields of a part whose records may name GPUs by number."""
IN_ORDER = "GPU numbers are given to the PCI addresses in their order, as the driver numbers them"
_OWN = f"topo:{NVIDIA.label}"
_NUMBER = "topo:"


def merge_machine(parts: Sequence[PartialNode]) -> Machine:
    """The machine from parts in order of precedence."""
    merged = merge_fields(addressed(parts, OF_MACHINE), OF_MACHINE)
    merged["gpus"] = _named(_gpus(merged.get("gpus", ()), merged.get("pci", ())))
    return machine_believed(Machine(**merged))


def merge_readings(parts: Sequence[PartialNode]) -> Readings:
    """The readings from parts in order of precedence."""
    merged = merge_fields(addressed(parts, OF_READINGS), tuple(OF_READINGS))
    found = Readings(**{OF_READINGS[name]: value for name, value in merged.items()})
    return readings_believed(found)


def merge(
    parts: Sequence[PartialNode],
    *,
    taken_at: float,
    source: tuple[str, ...],
    gputop: str,
    machine: Machine | None = None,
) -> NodeSnapshot:
    """One snapshot; `machine` is given when it is known not to have changed."""
    crossed = PartialNode(problems=differences(parts), assumptions=in_order(parts))
    parts = once_told(parts)
    parts = named_in(parts)
    readings = merge_readings(parts)
    return NodeSnapshot(
        gputop=gputop,
        taken_at=taken_at,
        source=source,
        machine=with_running(
            machine if machine is not None else merge_machine(parts), readings.processes
        ),
        readings=readings,
        **merge_fields([*parts, crossed], OF_SNAPSHOT),
    )


def once_told(parts: Sequence[PartialNode]) -> Sequence[PartialNode]:
    """The parts without what NVML tells of a fault of which the kernel's log has a line."""
    heard = [part for part in parts if part.origin == LISTENED and part.kernel_events]
    if not heard:
        return parts
    logged = {
        (event.kind, event.code, event.device)
        for part in parts
        if part.origin != LISTENED
        for event in part.kernel_events or ()
    }
    return [
        part
        if part.origin != LISTENED
        else msgspec.structs.replace(
            part,
            kernel_events=tuple(
                event
                for event in part.kernel_events or ()
                if (event.kind, event.code, event.device) not in logged
            ),
        )
        for part in parts
    ]


def with_running(machine: Machine, processes: Iterable[ProcessReading]) -> Machine:
    """The machine with the libraries that its processes have loaded, most processes' first."""
    by = gathered(
        (process.library, process) for process in processes if process.library is not None
    )
    running = tuple(
        RunningLibrary(
            **msgspec.structs.asdict(library),
            job_names=tuple(dict.fromkeys(one.job for one in users if one.job)),
            programs=tuple(
                dict.fromkeys(one.command or "a program" for one in users if not one.job)
            ),
        )
        for library, users in sorted(by.items(), key=lambda pair: -len(pair[1]))
    )
    software = machine.software or Software()
    if not running or running == software.running:
        return machine
    software = msgspec.structs.replace(software, running=running)
    return msgspec.structs.replace(machine, software=software)


def _gpus(managed: Sequence[Gpu], pci: Sequence[PciDevice]) -> tuple[Gpu, ...]:
    """All GPUs by address, completed from the PCI tree; those that only PCI knows have gaps."""
    gpus = by_address(managed)
    for device in pci:
        if device.kind != PciKind.GPU or device.vendor_id not in BY_PCI_ID:
            continue
        gpu = gpus.get(device.address)
        gpus[device.address] = _complete(gpu, device) if gpu else _unmanaged(device)
    gpus = numbered(gpus)
    packages = by_address(pci)
    for gpu in tuple(gpus.values()):
        package = packages.get(gpu.parent or "")
        if package is not None and gpu.parent != gpu.address:
            # A part is no PCI function of its own; what PCI says about its package applies to it.
            gpus[gpu.address] = _complete(gpu, package)
    found = (_numbered(_rated(_near(gpu))) for gpu in gpus.values())
    return tuple(sorted(found, key=lambda gpu: (gpu.address, gpu.partition or "")))


def _near(gpu: Gpu) -> Gpu:
    """The NUMA node by the driver: sysfs of a virtual machine says -1 where it knows the one."""
    near = gpu.memory_affinity or ()
    if gpu.numa_node is not None or len(near) != 1:
        return gpu
    return gpu.filled(numa_node=near[0])


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
    return gpu.filled(**filled) if filled else gpu


def _numbered(gpu: Gpu) -> Gpu:
    """Drop a serial number that consists of zeros only, which a board without one has."""
    if gpu.serial is None or gpu.serial.strip("0"):
        return gpu
    gap = Gap("serial", f"the board says {gpu.serial}")
    return msgspec.structs.replace(gpu, serial=None, gaps=(*gpu.gaps, gap))


def _rated(gpu: Gpu) -> Gpu:
    """Compute the rate of xGMI links from lanes and speed of one source, the number of another."""
    if not gpu.xgmi:
        return gpu
    links = []
    for link in gpu.xgmi:
        if link.raw_gbs is None and link.speed_gts and link.width and link.links:
            links.append(link.filled(raw_gbs=link.speed_gts * link.width * link.links / 8))
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
        gaps=gaps_of(("uuid", "memory_bytes", "index"), ONLY_PCI),
    )


# Differences between what KFD and another source say about the same AMD GPUs.
#
# The earlier source of `sources.NAMES` wins a field, and the difference is shown as a problem: one
# of the two is wrong, and nothing here shows which.
def differences(parts: Sequence[PartialNode]) -> tuple[Problem, ...]:
    """Compare what KFD says with what every other part says about the same GPUs and pairs."""
    kernel = next((part for part in parts if part.origin == KERNEL), None)
    if kernel is None:
        return ()
    found: list[Problem] = []
    for other in parts:
        if other is kernel or not (other.gpus or other.pairs):
            continue
        who = other.origin or "another source"
        lines = [*_missing(kernel, other, who), *_differing_gpus(kernel, other, who)]
        lines += [*_pairs(kernel, other, who), *_links(kernel, other, who)]
        shown = lines[:LIMIT]
        if more := lines[LIMIT:]:
            text = f"KFD and {who} differ in {len(more)} more points"
            shown.append((text, tuple(sorted({end for _, ends in more for end in ends}))))
        found += [
            Problem(source=KERNEL, kind=ProblemKind.MISMATCH, text=text, devices=devices)
            for text, devices in shown
        ]
    return tuple(found)


_Line = tuple[str, tuple[str, ...]]
"""A difference, and the addresses of the GPUs of which it leaves open what is true."""


def _amd(part: PartialNode) -> dict[str, Gpu]:
    return by_address(gpu for gpu in part.gpus if gpu.vendor == AMD.id)


def _missing(kernel: PartialNode, other: PartialNode, who: str) -> list[_Line]:
    """GPUs that one of the two has: a container shows a library fewer, and rules count them."""
    mine = {address for address, gpu in _amd(kernel).items() if gpu.kfd_node is not None}
    theirs = set(_amd(other))
    if not theirs or any(address.startswith("topo:") for address in theirs):
        return []
    found: list[_Line] = [
        (f"KFD shows {address}, {who} does not", ()) for address in sorted(mine - theirs)
    ]
    found += [(f"{who} shows {address}, KFD does not", ()) for address in sorted(theirs - mine)]
    return found


def _differing_gpus(kernel: PartialNode, other: PartialNode, who: str) -> list[_Line]:
    theirs = _amd(other)
    return [
        (f"{address}: {what} is {ours} by KFD and sysfs, {said} by {who}", (address,))
        for address, gpu in _amd(kernel).items()
        if address in theirs
        for field, what in GPU_FIELDS
        if (ours := getattr(gpu, field)) is not None
        and (said := getattr(theirs[address], field)) is not None
        and not _alike(field, ours, said)
    ]


def _alike(field: str, ours: object, said: object) -> bool:
    """Whether both say the same; of the memory each may leave out what firmware keeps."""
    if field == "memory_bytes" and isinstance(ours, int) and isinstance(said, int):
        return abs(ours - said) <= MOST_KEPT_SHARE * max(ours, said)
    return ours == said


def _pairs(kernel: PartialNode, other: PartialNode, who: str) -> list[_Line]:
    said = {(pair.src, pair.dst): pair for pair in other.pairs}
    found: list[_Line] = []
    for pair in kernel.pairs:
        theirs = said.get((pair.src, pair.dst))
        # Both directions are listed; a difference in both is reported once.
        if theirs is None or (pair.src > pair.dst and (pair.dst, pair.src) in said):
            continue
        found += [(line, (pair.src, pair.dst)) for line in _pair(pair, theirs, who)]
    return found


def _pair(ours: GpuPair, theirs: GpuPair, who: str) -> list[str]:
    return [
        f"{ours.src} and {ours.dst}: {what} {mine} by KFD, {said} by {who}"
        for field, what in PAIR_FIELDS
        if (mine := getattr(ours, field)) is not None
        and (said := getattr(theirs, field)) is not None
        and mine != said
    ]


def _links(kernel: PartialNode, other: PartialNode, who: str) -> list[_Line]:
    theirs = {address: _by_peer(gpu) for address, gpu in _amd(other).items() if gpu.xgmi}
    found: list[_Line] = []
    for address, gpu in _amd(kernel).items():
        for peer, link in _by_peer(gpu).items():
            said = theirs.get(address, {}).get(peer)
            if said is None or address > peer or link.links is None or said.links is None:
                continue
            if link.links != said.links:
                line = (
                    f"{address} and {peer}: {link.links} xGMI links by KFD, {said.links} by {who}"
                )
                found.append((line, (address, peer)))
    return found


def _by_peer(gpu: Gpu) -> dict[str, XgmiLink]:
    return {link.remote_address: link for link in gpu.xgmi}


# GPUs that a text names by number, with the addresses that another text of the node gives them.
def known_numbers(parts: Sequence[PartialNode]) -> dict[tuple[str, int], str]:
    """Vendor and number of the management library -> PCI address; each vendor counts from 0.

    Where no text says both, and as many GPUs of NVIDIA have a number as have an address, the
    addresses in their order have the numbers: NVML counts along the bus.
    """
    known: dict[tuple[str, int], str] = {}
    for gpu in _with_address(parts):
        if gpu.index is not None:
            known.setdefault((gpu.vendor, gpu.index), gpu.address)
    return known or {(NVIDIA.id, place): own for place, own in enumerate(_ordered(parts))}


def in_order(parts: Sequence[PartialNode]) -> tuple[str, ...]:
    """What is taken for granted where numbers follow the order of the addresses."""
    said = any(gpu.index is not None for gpu in _with_address(parts))
    return (IN_ORDER,) if not said and _ordered(parts) else ()


def _with_address(parts: Sequence[PartialNode]) -> Iterator[Gpu]:
    return (gpu for part in parts for gpu in part.gpus if not gpu.address.startswith(_NUMBER))


def _ordered(parts: Sequence[PartialNode]) -> list[str]:
    """PCI addresses of NVIDIA's GPUs in order, where a text has as many numbers of GPUs."""
    numbers = {
        int(digits)
        for part in parts
        for gpu in part.gpus
        if (digits := gpu.address.removeprefix(_OWN)) != gpu.address and digits.isdecimal()
    }
    if not numbers:
        return []
    own = {gpu.address for gpu in _with_address(parts) if gpu.vendor == NVIDIA.id}
    own |= {
        device.address
        for part in parts
        for device in part.pci
        if device.kind == PciKind.GPU and BY_PCI_ID.get(device.vendor_id or 0) is NVIDIA
    }
    return sorted(own) if numbers == set(range(len(own))) else []


def named_in(parts: Sequence[PartialNode]) -> list[PartialNode]:
    """The parts with measurements that name their GPUs by address."""
    if not any(part.measurements for part in parts):
        return list(parts)
    known = known_numbers(parts)
    known |= {(NVIDIA.id, number): own for part in parts for number, own in part.numbers}
    return [
        msgspec.structs.replace(
            part, measurements=tuple(_measured(figure, known) for figure in part.measurements)
        )
        if part.measurements
        else part
        for part in parts
    ]


def _measured(figure: Measurement, known: Mapping[tuple[str, int], str]) -> Measurement:
    changed: dict[str, object] = {
        name: address
        for name in ("src", "dst")
        if (said := getattr(figure, name)) and (address := _address(said, known)) != said
    }
    devices = figure.details.get("devices")
    if isinstance(devices, list):
        own = [_address(name, known) if isinstance(name, str) else name for name in devices]
        if own != devices:
            changed["details"] = figure.details | {"devices": own}
    return msgspec.structs.replace(figure, **changed) if changed else figure


def addressed(parts: Sequence[PartialNode], names: Collection[str]) -> list[PartialNode]:
    """The parts with PCI addresses in these fields instead of names such as `topo:GPU3`.

    The number is that of the management library; each vendor counts from 0.
    """
    known = known_numbers(parts)
    fields = [name for name in ADDRESSED if name in names]
    found = []
    for part in parts:
        changed = {}
        for name in fields:
            records = getattr(part, name)
            if (named := _all_readdressed(records, known)) is not records:
                changed[name] = named
        found.append(msgspec.structs.replace(part, **changed) if changed else part)
    return found


def _all_readdressed(
    records: tuple[Record, ...], known: Mapping[tuple[str, int], str]
) -> tuple[Record, ...]:
    """Records, and the xGMI links in them, with the addresses of their GPUs."""
    if not any(name.startswith(_NUMBER) for name in _names(records)):
        return records  # no live node has any, and asks each second
    found = [_readdressed(record, known) for record in records]
    return tuple(found) if any(map(is_not, found, records)) else records


def _names(records: tuple[Record, ...]) -> set[str]:
    """By what names records, and the xGMI links in them, say which GPUs they are about."""
    names: set[str] = set()
    if records and records[0].identity:
        names.update(*(map(attrgetter(name), records) for name in records[0].identity))
        for record in records if hasattr(records[0], "xgmi") else ():
            names |= _names(getattr(record, "xgmi", ()))
    return names


def _readdressed(record: Record, known: Mapping[tuple[str, int], str]) -> Record:
    changed: dict[str, object] = {}
    for name in record.identity or ():
        said = getattr(record, name)
        if (address := _address(said, known)) != said:
            changed[name] = address
    if links := getattr(record, "xgmi", None):
        named = _all_readdressed(links, known)
        if named is not links:
            changed["xgmi"] = named
    return msgspec.structs.replace(record, **changed) if changed else record


def _address(name: str, known: Mapping[tuple[str, int], str]) -> str:
    """The address of a GPU that is named by its number; any other name unchanged."""
    if not name.startswith(_NUMBER):
        return name
    for sign, vendor in NUMBERED.items():
        digits = name.removeprefix(sign)
        if digits != name and digits.isdecimal() and len(digits) < 10:
            return known.get((vendor, int(digits)), name)
    return name
