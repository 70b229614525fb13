"""GPUs that a text names by number, with the addresses that another text of the node gives them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter, is_not

import msgspec

from ..hardware.vendors import BY_PCI_ID, NVIDIA, VENDORS
from ..model.part import Part
from ..model.record import Record
from ..model.snapshot import Measurement

NUMBERED = {f"topo:{vendor.label}": vendor.id for vendor in VENDORS}
"""The prefix of GPU numbers in texts without addresses, and the vendor whose numbers they are."""
ADDRESSED = ("gpus", "pairs", "relations", "gpu_readings")
"""Fields of a part whose records may name GPUs by number."""
IN_ORDER = "GPU numbers are given to the PCI addresses in their order, as the driver numbers them"
_OWN = f"topo:{NVIDIA.label}"
_NUMBER = "topo:"


def known_numbers(parts: Sequence[Part]) -> dict[tuple[str, int], str]:
    """Vendor and number of the management library -> PCI address; each vendor counts from 0.

    Where no text says both, and as many GPUs of NVIDIA have a number as have an address, the
    addresses in their order have the numbers: NVML counts along the bus.
    """
    known: dict[tuple[str, int], str] = {}
    for part in parts:
        for gpu in part.gpus:
            if gpu.index is not None and not gpu.address.startswith("topo:"):
                known.setdefault((gpu.vendor, gpu.index), gpu.address)
    return known or {(NVIDIA.id, place): own for place, own in enumerate(_ordered(parts))}


def in_order(parts: Sequence[Part]) -> tuple[str, ...]:
    """What is taken for granted where numbers follow the order of the addresses."""
    said = any(
        gpu.index is not None and not gpu.address.startswith("topo:")
        for part in parts
        for gpu in part.gpus
    )
    return (IN_ORDER,) if not said and _ordered(parts) else ()


def _ordered(parts: Sequence[Part]) -> list[str]:
    """PCI addresses of NVIDIA's GPUs in order, where a text has as many numbers of GPUs."""
    numbers = {
        int(digits)
        for part in parts
        for gpu in part.gpus
        if (digits := gpu.address.removeprefix(_OWN)) != gpu.address and digits.isdecimal()
    }
    if not numbers:
        return []
    own = {
        gpu.address
        for part in parts
        for gpu in part.gpus
        if gpu.vendor == NVIDIA.id and not gpu.address.startswith("topo:")
    }
    own |= {
        device.address
        for part in parts
        for device in part.pci
        if device.kind == "gpu" and BY_PCI_ID.get(device.vendor_id or 0) is NVIDIA
    }
    return sorted(own) if numbers == set(range(len(own))) else []


def named_in(parts: Sequence[Part]) -> list[Part]:
    """The parts with measurements that name their GPUs by address."""
    if not any(part.measurements for part in parts):
        return list(parts)
    known = known_numbers(parts)
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


def addressed(parts: Sequence[Part], names: Collection[str]) -> list[Part]:
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
