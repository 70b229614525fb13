"""One GPU of `amd-smi metric` or `process --json` as a reading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .....model.readings import EccBlock, EccCounts, GpuProcess, GpuReading, GpuUse
from .....model.record import Gap
from .....sources.amd.smi_values import (
    AMD_SMI,
    BYTES,
    CELSIUS,
    MEGABYTES,
    MEGAHERTZ,
    PERCENT,
    WATTS,
    at,
    plain,
)
from .....sources.files.fields import Fields, by, made, number, whole
from .....sources.files.printed import Printed
from .gpu import generation

SECTIONS = ("usage", "power", "clock", "temperature", "pcie", "ecc", "ecc_blocks", "mem_usage",
            "throttle", "process_list")  # fmt: skip
PAGES = ("retired", "pending", "un_res")
"""Lists of `amd-smi bad-pages`: retired, to be retired at the next start, and not retirable."""
_NO_PAGES = "no bad pages found"
REASONS = (
    ("prochot_violation_status", "prochot"),
    ("ppt_violation_status", "sw power cap"),
    ("socket_thermal_violation_status", "socket thermal"),
    ("vr_thermal_violation_status", "vr thermal"),
    ("hbm_thermal_violation_status", "hbm thermal"),
)
"""Violations of `metric --throttle` in the words that words.py has for those of amdsmi."""
_THROTTLED = "throttled, reason not told"
_MEGABITS = {"": 125_000.0, "Mb/s": 125_000.0}
_BLOCK = re.compile(r"\A[A-Z0-9_]{2,24}\Z")
_ENGINES = 8
"""Clocks of the graphics engine, one for each XCD."""
_MOST_PAGES = 65_536
_MAX_PROCESSES = 4096


def has_reading(entry: Mapping[str, Any]) -> bool:
    """Whether the entry holds any reading."""
    if any(isinstance(entry.get(name), (Mapping, list)) for name in SECTIONS if name != "clock"):
        return True
    if any(name in entry for name in PAGES):
        return True
    clock = entry.get("clock")
    return isinstance(clock, Mapping) and any(str(name).startswith("gfx_") for name in clock)


def reading(entry: Mapping[str, Any], own: str) -> GpuReading:
    """The reading at the moment of the output."""
    return READING.read(Printed(entry, AMD_SMI), address=own)


def _degrees(v: Printed, field: str, *names: str) -> int | None:
    """The temperature of the hottest place where there is one; Instincts have no edge sensor."""
    return v.whole(field, *(f"temperature/{name}" for name in names), units=CELSIUS, most=300)


def _clock(v: Printed, field: str, *names: str) -> int | None:
    return v.whole(field, *(f"clock/{name}/clk" for name in names), units=MEGAHERTZ, most=100_000)


def _throttle(v: Printed) -> tuple[str, ...] | None:
    """Names of the active violations; None when none of them is answered."""
    states = {word: _state(at(v.raw, f"throttle/{name}")) for name, word in REASONS}
    if any(state is not None for state in states.values()):
        return tuple(word for word, state in states.items() if state)
    legacy = (plain(at(v.raw, "power/throttle_status")) or "").upper()
    if legacy == "UNTHROTTLED":
        return ()
    if legacy == "THROTTLED":
        return (_THROTTLED,)
    v.gap("throttle_reasons", "no violation status in this output of amd-smi")
    return None


def _state(value: Any) -> bool | None:
    """ACTIVE and NOT ACTIVE; a list holds one for each XCD, an object one list for each part."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        states = [_state(inner) for inner in value[:64]]
        return True if True in states else False if False in states else None
    return {"ACTIVE": True, "NOT ACTIVE": False}.get((plain(value) or "").upper())


def _ecc(v: Printed) -> EccCounts | None:
    has_pages = any(name in v.raw for name in PAGES)
    if not isinstance(at(v.raw, "ecc"), Mapping) and not has_pages:
        v.gap("ecc", "not in this output of amd-smi")
        return None
    own = Printed(v.raw, AMD_SMI)
    corrected = own.whole("corrected_volatile", "ecc/total_correctable_count")
    uncorrected = own.whole("uncorrected_volatile", "ecc/total_uncorrectable_count")
    pages, pending = _pages(own) if has_pages else (None, None)
    return EccCounts(
        corrected_volatile=corrected,
        uncorrected_volatile=uncorrected,
        pages_retired_double=pages,
        retirement_pending=pending,
        gaps=own.gaps,
    )


def _pages(v: Printed) -> tuple[int | None, bool | None]:
    """Bad pages of all three lists, as amdsmi counts them, and whether one waits for a start."""
    counts = {name: _listed(at(v.raw, name)) for name in PAGES if name in v.raw}
    if None in counts.values():
        v.gap("pages_retired_double", "amd-smi prints no pages")
    elif len(counts) < len(PAGES):
        v.gap("pages_retired_double", "not in this output of amd-smi, which lists some kinds")
    waiting = counts.get("pending")
    if waiting is None:
        v.gap("retirement_pending", "not in this output of amd-smi")
    known = [count for count in counts.values() if count is not None]
    return sum(known) if len(known) == len(
        PAGES
    ) else None, None if waiting is None else waiting > 0


def _listed(value: Any) -> int | None:
    """Pages in one list: words where there is none, the page itself where there is one."""
    if isinstance(value, Mapping):
        return 1 if "page_address" in value else None
    if isinstance(value, list):
        return sum(isinstance(page, Mapping) for page in value[:_MOST_PAGES])
    return 0 if _NO_PAGES in (plain(value) or "").lower() else None


def _blocks(v: Printed) -> Iterator[EccBlock]:
    blocks = at(v.raw, "ecc_blocks")
    if not isinstance(blocks, Mapping):
        return
    for name, counts in list(blocks.items())[:64]:
        if not isinstance(counts, Mapping) or not _BLOCK.match(name):
            continue
        own = Printed(counts, AMD_SMI)
        yield EccBlock(
            block=name,
            corrected=own.whole("corrected", "correctable_count"),
            uncorrected=own.whole("uncorrected", "uncorrectable_count"),
            deferred=own.whole("deferred", "deferred_count"),
            gaps=own.gaps,
        )


def _processes(v: Printed) -> tuple[GpuProcess, ...] | None:
    listed = at(v.raw, "process_list")
    if not isinstance(listed, list):
        v.gap("processes", "not in this output of amd-smi")
        return None
    found: dict[int, GpuProcess] = {}
    for item in listed[:_MAX_PROCESSES]:
        info = item.get("process_info", item) if isinstance(item, Mapping) else item
        if not isinstance(info, Mapping):
            text = plain(info) or ""
            if "no running" not in text.lower():
                v.gap("processes", f"amd-smi prints {text[:80] or 'nothing'}")
            continue
        own = Printed(info, AMD_SMI)
        pid = own.whole("pid", "pid", most=2**32 - 1)
        used = own.whole("memory_bytes", "memory_usage/vram_mem", "mem_usage", "mem", units=BYTES)
        if pid:
            gaps = () if used is not None else (Gap("memory_bytes", _why(own)),)
            found[pid] = GpuProcess(pid=pid, kind=GpuUse.COMPUTE, memory_bytes=used, gaps=gaps)
    return tuple(found.values())


def _why(own: Printed) -> str:
    return next((gap.why for gap in own.gaps if gap.field == "memory_bytes"), "not printed")


READING = Fields(
    GpuReading,
    utilization_percent=number("usage/gfx_activity", units=PERCENT, most=100),
    memory_utilization_percent=number("usage/umc_activity", units=PERCENT, most=100),
    memory_used_bytes=whole("mem_usage/used_vram", units=MEGABYTES),
    memory_free_bytes=whole("mem_usage/free_vram", units=MEGABYTES),
    bar1_used_bytes=whole("mem_usage/used_visible_vram", units=MEGABYTES),
    power_watts=number("power/socket_power", units=WATTS),
    temperature_c=by(_degrees, "hotspot", "edge"),
    temperature_memory_c=by(_degrees, "mem"),
    clock_graphics_mhz=by(_clock, *(f"gfx_{engine}" for engine in range(_ENGINES))),
    clock_memory_mhz=by(_clock, "mem_0"),
    clock_video_mhz=by(_clock, "vclk_0"),
    throttle_reasons=made(_throttle),
    pcie_gen=by(generation, "pcie/speed"),
    pcie_width=whole("pcie/width", most=32),
    pcie_replays=whole("pcie/replay_count"),
    ecc=made(_ecc),
    ecc_blocks=made(lambda printed: tuple(_blocks(printed))),
    processes=made(_processes),
    pcie_tx_bytes_per_second=number("pcie/current_bandwidth_sent", units=_MEGABITS),
    pcie_rx_bytes_per_second=number("pcie/current_bandwidth_received", units=_MEGABITS),
)
