"""One card of `rocm-smi --json`: every value is a text under a long name that versions change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .....model.machine import Gpu
from .....model.readings import GpuReading
from .....sources.amd.smi_values import (
    BYTES,
    CELSIUS,
    MEGAHERTZ,
    PERCENT,
    ROCM_SMI,
    WATTS,
    at,
    plain,
)
from .....sources.amd.words import gfx_name
from .....sources.files.printed import PLAIN, Printed
from .gpu import GENERATIONS, partitions

TOOL = "rocm-smi"
MOST_NAMES = 1000
_HEX = re.compile(r"\A0x([0-9a-fA-F]{4})\Z")
_SPEED = re.compile(r"(\d{1,2}(?:\.\d)?)GT/s x(\d{1,2})\b")
_CLOCK = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)\s*MHz", re.IGNORECASE)
_MOVING = re.compile(
    r"gpu use|memory use|used memory|allocated|activity|temperature|power \(w\)|clock|replay"
)
_LASTING = re.compile(r"\Amax graphics package power")


def values_of(card: Mapping[str, Any]) -> Printed:
    """The card with names in lower case and no slash: "Card Series" was "Card series"."""
    found = {
        " ".join(name.lower().replace("/", " ").split()).rstrip(":"): plain(value)
        for name, value in list(card.items())[:MOST_NAMES]
    }
    return Printed(found, ROCM_SMI)


def gpu(v: Printed, own: str, number: int) -> Gpu:
    """The lasting properties of one card."""
    values: dict[str, Any] = {
        "name": v.text("name", "device name", "card series"),
        "serial": v.text("serial", "serial number"),
        "vbios": v.text("vbios", "vbios version"),
        "board_part_number": v.text("board_part_number", "card sku"),
        "compute_capability": _gfx(v),
        "pci_id": _pci_id(v),
        "memory_bytes": v.whole("memory_bytes", "vram total memory (b)", units=BYTES),
        "bar1_bytes": v.whole("bar1_bytes", "vis_vram total memory (b)", units=BYTES),
        "power_limit_watts": _limit(v),
        "numa_node": v.whole("numa_node", "(topology) numa node", most=4095),
        "kfd_node": v.whole("kfd_node", "node id", most=4095),
    }
    if values["name"] is not None and _HEX.match(values["name"]):
        values["name"] = None
        v.miss("name", "rocm-smi prints the device id")
    v.miss("uuid", "rocm-smi prints no UUID")
    modes = Printed(
        {
            "compute_partition": at(v.raw, "compute partition"),
            "memory_partition": at(v.raw, "memory partition"),
        },
        ROCM_SMI,
    )
    values |= partitions(modes, own)
    for field in ("pcie_gen_max", "pcie_width_max", "core_count", "ecc_enabled"):
        v.miss(field, "not in this output of rocm-smi")
    return Gpu(address=own, vendor="amd", index=number, gaps=(*v.gaps, *modes.gaps), **values)


def has_reading(v: Printed) -> bool:
    """Whether any of the card's names belongs to a reading."""
    return any(_MOVING.search(name) and not _LASTING.match(name) for name in v.raw)


def reading(v: Printed, own: str) -> GpuReading:
    """The reading at the moment of the output."""
    r = Printed(v.raw, ROCM_SMI)
    total = r.whole("memory_free_bytes", "vram total memory (b)", units=BYTES)
    used = r.whole("memory_used_bytes", "vram total used memory (b)", units=BYTES)
    free = total - used if total is not None and used is not None and used <= total else None
    if free is None:
        r.miss("memory_free_bytes", "not in this output of rocm-smi")
    link = _SPEED.search(r.text("pcie_gen", "pcie clock level", "pcie clock speed") or "")
    if link is None:
        r.miss("pcie_gen", "not understood")
        r.miss("pcie_width", "not in this output of rocm-smi")
    values: dict[str, Any] = {
        "utilization_percent": _percent(r, "utilization_percent", "gpu use (%)"),
        "memory_utilization_percent": _percent(
            r, "memory_utilization_percent", "gpu memory read write activity (%)"
        ),
        "memory_used_bytes": used,
        "memory_free_bytes": free,
        "bar1_used_bytes": r.whole("bar1_used_bytes", "vis_vram total used memory (b)",
                                   units=BYTES),
        "power_watts": r.number(
            "power_watts",
            "current socket graphics package power (w)",
            "average graphics package power (w)",
            units=WATTS,
        ),
        "temperature_c": _degrees(r, "temperature_c", "junction", "edge"),
        "temperature_memory_c": _degrees(r, "temperature_memory_c", "memory", "hbm 0"),
        "clock_graphics_mhz": _clock(r, "clock_graphics_mhz", "sclk"),
        "clock_memory_mhz": _clock(r, "clock_memory_mhz", "mclk"),
        "pcie_replays": r.whole("pcie_replays", "pcie replay count", units=PLAIN),
        "pcie_gen": GENERATIONS.get(float(link[1])) if link else None,
        "pcie_width": int(link[2]) if link else None,
    }  # fmt: skip
    r.miss("processes", "rocm-smi counts the GPUs of a process and does not name them")
    r.miss("throttle_reasons", "rocm-smi prints none")
    return GpuReading(address=own, gaps=r.gaps, **values)


def _limit(v: Printed) -> float | None:
    """The power limit; the second die of a package shows 0 because the first holds the limit."""
    watts = v.number("power_limit_watts", "max graphics package power (w)", units=WATTS)
    if watts == 0:
        v.miss("power_limit_watts", "rocm-smi prints 0, as for the second die of a package")
    return watts or None


def _gfx(v: Printed) -> str | None:
    text = v.text("compute_capability", "gfx version")
    if text is None:
        return None
    if not re.fullmatch(r"gfx[0-9a-f]{3,5}", text.lower()):
        v.miss("compute_capability", f"not understood: {text[:40]}")
        return None
    return gfx_name(text.lower())


def _pci_id(v: Printed) -> str | None:
    """The device id: "Card model" is that of the board until ROCm 5.

    From ROCm 6 on it is the device's, and the board's stands beside it. An unnamed model has its
    device id for "Card series".
    """
    names = ["device id", "gpu id", "card series"]
    names += ["card model"] if at(v.raw, "subsystem id") is not None else []
    for name in names:
        match = _HEX.match(plain(at(v.raw, name)) or "")
        if match is not None:
            return f"1002:{match[1].lower()}"
    v.miss("pci_id", "not in this output of rocm-smi")
    return None


def _percent(v: Printed, field: str, name: str) -> float | None:
    value = v.number(field, name, units=PERCENT)
    if value is not None and not 0 <= value <= 100:
        v.miss(field, f"not understood: {value:g} %")
        return None
    return value


def _degrees(v: Printed, field: str, *sensors: str) -> int | None:
    names = [f"temperature (sensor {sensor}) (c)" for sensor in sensors]
    value = v.number(field, *names, units=CELSIUS)
    if value is not None and not 0 <= value <= 300:
        v.miss(field, f"not understood: {value:g} C")
        return None
    return None if value is None else round(value)


def _clock(v: Printed, field: str, name: str) -> int | None:
    """A clock from "(132Mhz)" or "1 (132Mhz)"."""
    text = v.text(field, f"{name} clock speed", f"{name} clock level")
    if text is None:
        return None
    match = _CLOCK.search(text)
    if match is None:
        v.miss(field, f"not understood: {text[:40]}")
        return None
    return round(float(MEGAHERTZ["MHz"]) * float(match[1]))
