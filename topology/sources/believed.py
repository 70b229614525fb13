"""What cannot be true is a gap: every snapshot passes here, a driver's answer as well as a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ..hardware.vendors import AMD, NVIDIA
from ..model.machine import Gpu, GpuPair, Machine, NvLink, PciDevice, XgmiLink
from ..model.readings import (
    EccBlock,
    EccCounts,
    GpuReading,
    NvLinkReading,
    Readings,
    XgmiReading,
)
from ..model.record import Gap, Record
from ..model.snapshot import NodeSnapshot
from .files.limits import BYTES, COUNT, DEGREES, MEGAHERTZ, THRESHOLD

IMPOSSIBLE = "an answer that no GPU can give"
"""How such a gap begins."""
_MEMORY = (2**24, 2**42)
"""Bytes of a whole GPU's memory: a processor's own GPU may keep little for itself."""
_LIMIT = (1, 20_000)
"""Watts that a board may take."""
_GENERATION = (1, 15)
_LANES = frozenset((1, 2, 4, 8, 12, 16, 24, 32))
_GBS = (0.1, 10**4)
_PERCENT = (0, 100)
_MANY = (0, 10**6)
_BYTES_PER_SECOND = (0, 10**14)
_UUIDS = {
    NVIDIA.id: re.compile(r"(GPU|MIG)-\w{8}(-\w{4}){3}-\w{12}|MIG-GPU-[\w/-]+"),
    AMD.id: re.compile(r"(GPU-|0x)?[\da-fA-F-]{8,36}"),
}
_CLOCKS = dict.fromkeys(
    ("clock_graphics_max_mhz", "clock_sm_max_mhz", "clock_memory_max_mhz", "clock_video_max_mhz"),
    (100, MEGAHERTZ[1]),
)
_HOT = dict.fromkeys(
    (
        "temperature_slowdown_c",
        "temperature_shutdown_c",
        "temperature_gpu_max_c",
        "temperature_memory_max_c",
    ),
    THRESHOLD,
)
_RATES = dict.fromkeys(
    (name for name in GpuReading.__struct_fields__ if name.endswith("_bytes_per_second")),
    _BYTES_PER_SECOND,
)


def _counts(kind: type[Record], most: int, *names: str) -> dict[str, Any]:
    """The limits of all fields of a record but these names: they count something."""
    return dict.fromkeys(set(kind.__struct_fields__) - {"gaps", *names}, (0, most))


_LIMITS: Mapping[type[Record], Mapping[str, Any]] = {
    Gpu: {
        "memory_bytes": _MEMORY,
        "bar1_bytes": (2**20, 2**42),
        "core_count": (1, 10**7),
        "memory_bus_bits": (1, 10**6),
        "pcie_gen_max": _GENERATION,
        "pcie_gen_max_device": _GENERATION,
        "pcie_width_max": _LANES,
        "power_limit_watts": _LIMIT,
        "power_limit_default_watts": _LIMIT,
        "power_limit_min_watts": (0, _LIMIT[1]),
        "power_limit_max_watts": _LIMIT,
        "numa_node": _MANY,
        "c2c_gbs": _GBS,
    }
    | _CLOCKS
    | _HOT,
    NvLink: {"raw_gbs": _GBS},
    XgmiLink: {
        "links": (0, 64),
        "raw_gbs": _GBS,
        "hops": (0, 64),
        "speed_gts": (0, 1000),
        "width": _LANES,
        "bandwidth_min_gbs": (0, _GBS[1]),
        "bandwidth_max_gbs": (0, _GBS[1]),
    },
    GpuPair: {"hops": (0, 64), "weight": _MANY, "nvlinks_reported": (0, 64)},
    PciDevice: {
        "link_speed_max_gts": (0, 1000),
        "link_width_max": {0} | _LANES,
        "link_width_now": {0} | _LANES,
    },
    GpuReading: {
        "utilization_percent": _PERCENT,
        "memory_utilization_percent": _PERCENT,
        "memory_used_bytes": BYTES,
        "memory_free_bytes": BYTES,
        "bar1_used_bytes": BYTES,
        "power_watts": (0, 10**5),
        "temperature_c": DEGREES,
        "temperature_memory_c": DEGREES,
        "clock_graphics_mhz": MEGAHERTZ,
        "clock_sm_mhz": MEGAHERTZ,
        "clock_memory_mhz": MEGAHERTZ,
        "clock_video_mhz": MEGAHERTZ,
        "performance_state": (0, 32),
        "pcie_gen": _GENERATION,
        "pcie_width": _LANES,
        "pcie_replays": COUNT,
    }
    | _RATES,
    NvLinkReading: _counts(NvLinkReading, 2**64, "link"),
    XgmiReading: _counts(XgmiReading, 2**64, "remote_address"),
    EccCounts: _counts(EccCounts, COUNT[1]),
    EccBlock: _counts(EccBlock, COUNT[1], "block"),
}
"""Field: the least and the most that it can be, or the only values."""
_INSIDE: Mapping[type[Record], tuple[str, ...]] = {
    Gpu: ("nvlinks", "xgmi"),
    GpuReading: ("nvlinks", "xgmi", "ecc", "ecc_blocks"),
}
R = TypeVar("R", bound=Record)


def believed(snapshot: NodeSnapshot) -> NodeSnapshot:
    """A snapshot of a file with gaps in place of what no device can have."""
    parts = {
        "machine": machine_believed(snapshot.machine),
        "readings": readings_believed(snapshot.readings),
    }
    return _with(snapshot, parts)


def machine_believed(machine: Machine) -> Machine:
    """The machine with gaps in place of what no device can have."""
    parts = {name: _all(getattr(machine, name)) for name in ("gpus", "pairs", "pci")}
    return _with(machine, parts)


def readings_believed(readings: Readings) -> Readings:
    """The readings with gaps in place of what no GPU can have."""
    return _with(readings, {"gpus": _all(readings.gpus)})


def _with(record: R, parts: Mapping[str, Any]) -> R:
    changed = {name: part for name, part in parts.items() if part is not getattr(record, name)}
    return msgspec.structs.replace(record, **changed) if changed else record


def _all(records: tuple[R, ...]) -> tuple[R, ...]:
    found = tuple(map(_believed, records))
    return found if any(map(_other, found, records)) else records


def _other(one: object, other: object) -> bool:
    return one is not other


def _believed(record: R) -> R:
    kind = type(record)
    parts: dict[str, Any] = {}
    for name in _INSIDE.get(kind, ()):
        inside = getattr(record, name)
        if inside:
            parts[name] = _all(inside) if isinstance(inside, tuple) else _believed(inside)
    record = _with(record, parts) if parts else record
    wrong = {
        name: value
        for name, within in _LIMITS[kind].items()
        if (value := getattr(record, name)) is not None and not _possible(value, within)
    }
    if isinstance(record, Gpu) and not _named(record):
        wrong["uuid"] = record.uuid
    if not wrong:
        return record
    gaps = tuple(Gap(name, f"{IMPOSSIBLE}: {str(value)[:60]}") for name, value in wrong.items())
    kept = tuple(gap for gap in record.gaps if gap.field not in wrong)
    return msgspec.structs.replace(record, **dict.fromkeys(wrong), gaps=(*kept, *gaps))


def _possible(value: float, within: Any) -> bool:
    return within[0] <= value <= within[1] if type(within) is tuple else value in within


def _named(gpu: Gpu) -> bool:
    form = _UUIDS.get(gpu.vendor)
    return gpu.uuid is None or form is None or form.fullmatch(gpu.uuid) is not None
