"""One card of `rocm-smi --json`: every value is a text under a long name that versions change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

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
from .....sources.files.fields import Fields, by, made, matching, number, text, whole
from .....sources.files.printed import PLAIN, Printed
from .gpu import COMPUTE_MODE, GENERATIONS, GFX, MEMORY_MODE, mode, target

TOOL = "rocm-smi"
MOST_NAMES = 1000
_HEX = re.compile(r"\A0x([0-9a-fA-F]{4})\Z")
_SPEED = re.compile(r"(\d{1,2}(?:\.\d)?)GT/s x(\d{1,2})\b")
_CLOCK = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)\s*MHz", re.IGNORECASE)
_MOVING = re.compile(
    r"gpu use|memory use|used memory|allocated|activity|temperature|power \(w\)|clock|replay"
)
_LASTING = re.compile(r"\Amax graphics package power")


def card_values(card: Mapping[str, Any]) -> Printed:
    """The card with names in lower case and no slash: "Card Series" was "Card series"."""
    found = {
        " ".join(name.lower().replace("/", " ").split()).rstrip(":"): plain(value)
        for name, value in list(card.items())[:MOST_NAMES]
    }
    return Printed(found, ROCM_SMI)


def gpu(card: Printed, own: str, index: int) -> Gpu:
    """The lasting properties of one card."""
    found = GPU.read(card, address=own, vendor="amd", index=index)
    modes = Printed({name: at(card.raw, name.replace("_", " ")) for name in MODES}, ROCM_SMI)
    both = MODE.read(modes, address=own, vendor="amd")
    return msgspec.structs.replace(
        found,
        compute_partition=both.compute_partition,
        memory_partition=both.memory_partition,
        gaps=found.gaps + both.gaps,
    )


def _name(card: Printed, field: str) -> str | None:
    name = card.text(field, "device name", "card series")
    if name is None or not _HEX.match(name):
        return name
    card.gap(field, "rocm-smi prints the device id")
    return None


def _unprinted(card: Printed, field: str, why: str = "not in this output of rocm-smi") -> None:
    card.gap(field, why)


def has_reading(v: Printed) -> bool:
    """Whether any of the card's names belongs to a reading."""
    return any(_MOVING.search(name) and not _LASTING.match(name) for name in v.raw)


def reading(v: Printed, own: str) -> GpuReading:
    """The reading at the moment of the output."""
    card = Printed(v.raw, ROCM_SMI)
    total = card.whole("memory_free_bytes", "vram total memory (b)", units=BYTES)
    used = card.whole("memory_used_bytes", "vram total used memory (b)", units=BYTES)
    free = total - used if total is not None and used is not None and used <= total else None
    if free is None:
        card.gap("memory_free_bytes", "not in this output of rocm-smi")
    link = _SPEED.search(card.text("pcie_gen", "pcie clock level", "pcie clock speed") or "")
    if link is None:
        card.gap("pcie_gen", "not understood")
        card.gap("pcie_width", "not in this output of rocm-smi")
    return READING.read(
        card,
        address=own,
        memory_used_bytes=used,
        memory_free_bytes=free,
        pcie_gen=GENERATIONS.get(float(link[1])) if link else None,
        pcie_width=int(link[2]) if link else None,
    )


def _limit(v: Printed) -> float | None:
    """The power limit; the second die of a package shows 0 because the first holds the limit."""
    watts = v.number("power_limit_watts", "max graphics package power (w)", units=WATTS)
    if watts == 0:
        v.gap("power_limit_watts", "rocm-smi prints 0, as for the second die of a package")
    return watts or None


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
    v.gap("pci_id", "not in this output of rocm-smi")
    return None


def _mhz(found: re.Match[str]) -> int:
    return round(float(MEGAHERTZ["MHz"]) * float(found[1]))


MODES = ("compute_partition", "memory_partition")
MODE = Fields(
    Gpu,
    compute_partition=matching(COMPUTE_MODE, mode, MODES[0]),
    memory_partition=matching(MEMORY_MODE, mode, MODES[1]),
)
GPU = Fields(
    Gpu,
    name=by(_name),
    serial=text("serial number"),
    vbios=text("vbios version"),
    board_part_number=text("card sku"),
    compute_capability=matching(GFX, target, "gfx version"),
    pci_id=made(_pci_id),
    memory_bytes=whole("vram total memory (b)", units=BYTES),
    bar1_bytes=whole("vis_vram total memory (b)", units=BYTES),
    power_limit_watts=made(_limit),
    numa_node=whole("(topology) numa node", most=4095),
    kfd_node=whole("node id", most=4095),
    uuid=by(_unprinted, "rocm-smi prints no UUID"),
    pcie_gen_max=by(_unprinted),
    pcie_width_max=by(_unprinted),
    core_count=by(_unprinted),
    ecc_enabled=by(_unprinted),
)
_SENSOR = "temperature (sensor {}) (c)"
_DEGREES: dict[str, Any] = {"units": CELSIUS, "most": 300}
READING = Fields(
    GpuReading,
    utilization_percent=number("gpu use (%)", units=PERCENT, most=100),
    memory_utilization_percent=number(
        "gpu memory read write activity (%)", units=PERCENT, most=100
    ),
    bar1_used_bytes=whole("vis_vram total used memory (b)", units=BYTES),
    power_watts=number(
        "current socket graphics package power (w)",
        "average graphics package power (w)",
        units=WATTS,
    ),
    temperature_c=whole(_SENSOR.format("junction"), _SENSOR.format("edge"), **_DEGREES),
    temperature_memory_c=whole(_SENSOR.format("memory"), _SENSOR.format("hbm 0"), **_DEGREES),
    # "(132Mhz)" or "1 (132Mhz)"
    clock_graphics_mhz=matching(_CLOCK, _mhz, "sclk clock speed", "sclk clock level"),
    clock_memory_mhz=matching(_CLOCK, _mhz, "mclk clock speed", "mclk clock level"),
    pcie_replays=whole("pcie replay count", units=PLAIN),
    processes=by(_unprinted, "rocm-smi counts the GPUs of a process and does not name them"),
    throttle_reasons=by(_unprinted, "rocm-smi prints none"),
)
