"""The raw answer of the source pci becomes PciDevice records."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...model.machine import PciDevice, PciKind
from ...model.part import PartialNode, Raw
from ...model.readings import PciReading
from ..files.answers import FileAnswers, absent_text, cut_off, part, under, whole

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
"""The kernel's name of a root complex."""
SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) GT/s")

NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086
DISPLAY = (0x0300, 0x0302, 0x0380)
ACCELERATOR = 0x1200
"""PCI class of an AMD Instinct without a display engine."""
BRIDGE = 0x0604
PORT_TYPES = {"4": "root port", "5": "switch upstream", "6": "switch downstream"}
BRIDGES = (*PORT_TYPES.values(), "bridge")
CONVENTIONAL = ("7", "8")
"""PCIe to PCI bridges, and PCI to PCIe bridges."""
ACS_CONTROLS = (
    "SrcValid",
    "TransBlk",
    "ReqRedir",
    "CmpltRedir",
    "UpstreamFwd",
    "EgressCtrl",
    "DirectTrans",
)
"""Bits 0 to 6 of the ACS control register, with lspci's names."""
NO_WIDTHS = (0, 63, 255)
"""Widths that a missing link, or a device that does not answer, reports."""
MEMORY_FLAG = 0x200
"""IORESOURCE_MEM of Linux ioport.h."""
BAR_COUNT = 6


def parse(raw: Raw) -> PartialNode:
    """Turn the answer of the source pci into devices and the present speed of their links."""
    absent = absent_text(raw)
    devices = {
        address: device for address, device in part(raw, "devices").items() if _is_address(address)
    }
    names = under(raw, "names")
    parents = {address: _parent(address, device) for address, device in devices.items()}
    kinds = _kinds(devices, parents)
    found = [
        _device(address, FileAnswers(device, absent), parents[address], kinds[address], names)
        for address, device in sorted(devices.items())
    ]
    return PartialNode(
        pci=tuple(found),
        pci_readings=tuple(
            _reading(address, FileAnswers(device, absent))
            for address, device in sorted(devices.items())
            if isinstance(device, dict) and "max_link_speed" in device
        ),
        problems=cut_off(raw, "pci"),
    )


def _is_address(address: str) -> bool:
    return ADDRESS.fullmatch(address) is not None


def _parent(address: str, device: Raw) -> str:
    """The bridge above or the root complex, from the resolved path in sysfs."""
    path = under(device, "path")
    parts = path.split("/") if isinstance(path, str) else []
    above = parts[: parts.index(address)] if address in parts else []
    # Hosts behind a platform device have folders before the root complex; VMD has some within.
    for name in reversed(above):
        if _is_address(name) or ROOT.fullmatch(name):
            return name
    return f"pci{address[:-5]}"


def _kinds(devices: Mapping[str, Raw], parents: Mapping[str, str]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    bridges = {address for address, device in devices.items() if _class(device) == BRIDGE}
    carriers = {parents[address] for address in bridges}
    for address in sorted(devices, key=lambda device: _depth(device, parents)):
        device = devices[address]
        if address not in bridges:
            kinds[address] = _endpoint(device)
            continue
        above = kinds.get(parents[address])
        kinds[address] = _bridge(device.get("port_type"), above, carries=address in carriers)
    return kinds


def _bridge(said: Raw, above: str | None, *, carries: bool) -> str:
    """The kind of a bridge; `carries`: there are bridges below it."""
    type_ = said if isinstance(said, str) else None
    if type_ in PORT_TYPES:
        return PORT_TYPES[type_]
    if type_ in CONVENTIONAL or above == "bridge":
        return "bridge"
    if above is None:
        return "root port"
    if above == "switch upstream":
        return "switch downstream"
    # The upper side of a switch always has ports below it; what has none is a bridge to
    # conventional PCI, as in front of a board's management chip.
    return "switch upstream" if carries else "bridge"


def _depth(address: str, parents: Mapping[str, str]) -> tuple[int, str]:
    depth, above = 0, address
    while above in parents and depth < len(parents):
        above = parents[above]
        depth += 1
    return depth, address


def _class(device: Raw) -> int | None:
    text = under(device, "class")
    code = whole(text, 16) if isinstance(text, str) else None
    return None if code is None else code >> 8


def _endpoint(device: Raw) -> str:
    code = _class(device)
    vendor = under(device, "vendor")
    maker = whole(vendor, 16) if isinstance(vendor, str) else None
    if code in DISPLAY and maker in (NVIDIA, AMD, INTEL):
        return "gpu"
    if code == ACCELERATOR and maker == AMD:
        return "gpu"
    if code == 0x0680 and maker == NVIDIA:
        return "nvswitch"
    if code == 0x0108:
        return "nvme"
    return "nic" if code is not None and code >> 8 == 0x02 else "other"


def _device(address: str, fields: FileAnswers, parent: str, kind: str, names: Raw) -> PciDevice:
    vendor = fields.number("vendor", "vendor_id", base=16)
    device = fields.number("device", "device_id", base=16)
    has_link = "max_link_speed" in fields.raw
    if not has_link:
        for field in ("link_speed_max_gts", "link_width_max", "link_width_now"):
            fields.gap(field, f"no PCIe link: {fields.absent}")
    return PciDevice(
        address=address,
        parent=parent,
        class_code=fields.number("class", "class_code", base=16),
        kind=PciKind(kind),
        vendor_id=vendor,
        device_id=device,
        subsystem_vendor_id=fields.number("subsystem_vendor", "subsystem_vendor_id", base=16),
        subsystem_device_id=fields.number("subsystem_device", "subsystem_device_id", base=16),
        vendor_name=_name(fields, names, "vendor_name", vendor),
        device_name=_name(fields, names, "device_name", vendor, device),
        driver=_driver(fields),
        numa_node=numa_node(fields),
        local_cpus=fields.text("local_cpulist", "local_cpus"),
        link_speed_max_gts=speed(fields, "max_link_speed", "link_speed_max_gts")
        if has_link
        else None,
        link_width_max=_width(fields, "max_link_width", "link_width_max") if has_link else None,
        link_width_now=_width(fields, "current_link_width", "link_width_now") if has_link else None,
        sriov_total=fields.number("sriov_totalvfs", "sriov_total", quiet=True),
        sriov_enabled=fields.number("sriov_numvfs", "sriov_enabled", quiet=True),
        physical_function=fields.text("physfn", "physical_function", quiet=True),
        iommu_group=fields.text("iommu_group", "iommu_group"),
        iommu_type=fields.text("iommu_type", "iommu_type"),
        acs=_acs(fields, kind),
        bars=_bars(fields),
        gaps=fields.gaps,
    )


def _driver(fields: FileAnswers) -> str | None:
    if "driver" not in fields.raw:
        fields.gap("driver", "no driver is bound")
    return fields.text("driver", "driver")


def _name(fields: FileAnswers, names: Raw, field: str, *ids: int | None) -> str | None:
    if None in ids:
        fields.gap(field, "the id is unknown")
        return None
    key = ":".join(f"{number:04x}" for number in ids)
    answers = FileAnswers(names, "not in this pci.ids")
    if "error" in answers.raw:
        fields.gap(field, str(answers.raw["error"]))
        return None
    name = answers.text(key, field)
    if name is None:
        fields.gap(field, answers.gaps[0].why)
    return name


def numa_node(fields: FileAnswers) -> int | None:
    """The NUMA node of a device; a gap where the firmware names none."""
    node = fields.number("numa_node", "numa_node")
    if node is not None and node < 0:
        fields.gap("numa_node", f"{node}: the firmware does not say")
        return None
    return node


def speed(fields: FileAnswers, key: str, field: str) -> float | None:
    """GT/s from "32.0 GT/s PCIe"; "Unknown" becomes a gap."""
    text = fields.text(key, field)
    if text is None:
        return None
    match = SPEED.match(text)
    if match is None:
        fields.gap(field, f"the kernel says {text[:40]!r}")
        return None
    return float(match.group(1))


def _width(fields: FileAnswers, key: str, field: str) -> int | None:
    width = fields.number(key, field)
    if width is not None and (width in NO_WIDTHS or not 0 < width <= 64):
        fields.gap(field, f"{width}: no link is trained, or the device does not answer")
        return None
    return width


def _acs(fields: FileAnswers, kind: str) -> tuple[str, ...] | None:
    if fields.raw.get("acs") == "":
        return ()
    if "acs" not in fields.raw and kind not in BRIDGES:
        fields.gap("acs", "asked of bridges alone")
        return None
    control = fields.number("acs", "acs", base=16)
    if control is None:
        return None
    return tuple(name for bit, name in enumerate(ACS_CONTROLS) if control >> bit & 1)


def _bars(fields: FileAnswers) -> tuple[int, ...] | None:
    """Sizes from lines of "start end flags"; the first six are the device's own regions."""
    text = fields.text("resource", "bars")
    if text is None:
        return None
    sizes: list[int] = []
    for line in text.splitlines()[:BAR_COUNT]:
        numbers = [_unsigned(word) for word in line.split()]
        if len(numbers) != 3 or None in numbers:
            fields.gap("bars", f"not three numbers: {line[:60]!r}")
            return None
        start, end, flags = (number or 0 for number in numbers)
        if flags & MEMORY_FLAG and end > start:
            sizes.append(min(end - start + 1, (1 << 63) - 1))
    return tuple(sizes)


def _unsigned(word: str) -> int | None:
    return int(word, 16) if re.fullmatch(r"0x[0-9a-f]{1,16}", word) else None


def _reading(address: str, fields: FileAnswers) -> PciReading:
    gts = speed(fields, "current_link_speed", "link_speed_gts")
    return PciReading(address=address, link_speed_gts=gts, gaps=fields.gaps)
