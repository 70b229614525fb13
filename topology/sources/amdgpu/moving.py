"""Readings of an AMD GPU from the files of amdgpu and KFD's list of processes."""

from __future__ import annotations

import msgspec

from ...model.part import Part, Raw
from ...model.readings import GpuProcess, GpuReading
from ..files.answers import FileAnswers, absent_text, part, whole
from ..pci.devices import SPEED
from .settings import gaps

ORIGIN = "amdgpu"
OTHER_PIDS = "the process numbers that KFD gives are not of this container"
PCIE_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def parse(raw: Raw) -> Part:
    """Turn the answer of the source amdgpu_readings into a reading for each GPU."""
    absent = absent_text(raw)
    listed = raw.get("processes") if isinstance(raw, dict) else None
    return Part(
        gpu_readings=tuple(
            _reading(address, FileAnswers(device, absent), listed)
            for address, device in sorted(part(raw, "devices").items())
        ),
        origin=ORIGIN,
    )


def _reading(address: str, fields: FileAnswers, listed: Raw) -> GpuReading:
    sensors = FileAnswers(fields.raw.get("hwmon"), fields.absent)
    used = fields.count("mem_info_vram_used", "memory_used_bytes")
    total = fields.count("mem_info_vram_total", "memory_free_bytes")
    free = total - used if total is not None and used is not None and total >= used else None
    if free is None:
        fields.gap("memory_free_bytes", fields.absent)
    processes = _processes(address, listed, fields)
    reading = GpuReading(
        address=address,
        utilization_percent=_percent(fields, "gpu_busy_percent", "utilization_percent"),
        memory_utilization_percent=_percent(
            fields, "mem_busy_percent", "memory_utilization_percent"
        ),
        memory_used_bytes=used,
        memory_free_bytes=free,
        power_watts=_watts(sensors, fields),
        temperature_c=_degrees(sensors, fields, ("junction", "edge"), "temperature_c"),
        temperature_memory_c=_degrees(sensors, fields, ("mem",), "temperature_memory_c"),
        clock_graphics_mhz=_clock(sensors, fields, "sclk", "clock_graphics_mhz"),
        clock_memory_mhz=_clock(sensors, fields, "mclk", "clock_memory_mhz"),
        pcie_gen=_generation(fields),
        pcie_width=_width(fields),
        pcie_replays=fields.count("pcie_replay_count", "pcie_replays"),
        processes=processes,
    )
    return msgspec.structs.replace(reading, gaps=gaps(fields, "processes"))


def _percent(fields: FileAnswers, key: str, field: str) -> float | None:
    number = fields.number(key, field)
    if number is not None and not 0 <= number <= 100:
        fields.gap(field, f"the driver says {number} %")
        return None
    return None if number is None else float(number)


def _watts(sensors: FileAnswers, fields: FileAnswers) -> float | None:
    """Watts: an average over a moment where there is one; newer GPUs only give the present."""
    for key in ("power1_average", "power1_input"):
        micro = sensors.number(key)
        if micro is not None and 0 <= micro < 100_000_000_000:
            return micro / 1e6
    fields.gap("power_watts", fields.absent)
    return None


def _degrees(
    sensors: FileAnswers, fields: FileAnswers, labels: tuple[str, ...], field: str
) -> int | None:
    for label in labels:
        for n in (1, 2, 3):
            if sensors.text(f"temp{n}_label") == label:
                milli = sensors.number(f"temp{n}_input")
                if milli is not None and -100_000 < milli < 500_000:
                    return milli // 1000
    fields.gap(field, fields.absent)
    return None


def _clock(sensors: FileAnswers, fields: FileAnswers, label: str, field: str) -> int | None:
    for n in (1, 2):
        if sensors.text(f"freq{n}_label") == label:
            hertz = sensors.number(f"freq{n}_input")
            if hertz is not None and 0 <= hertz < 10**11:
                return hertz // 1_000_000
    fields.gap(field, fields.absent)
    return None


def _generation(fields: FileAnswers) -> int | None:
    text = fields.text("current_link_speed", "pcie_gen")
    match = SPEED.match(text) if text is not None else None
    found = PCIE_GENERATION.get(float(match.group(1))) if match else None
    if found is None and text is not None:
        fields.gap("pcie_gen", f"the kernel says {text[:40]!r}")
    return found


def _width(fields: FileAnswers) -> int | None:
    width = fields.number("current_link_width", "pcie_width")
    if width is not None and not 0 < width <= 32:
        fields.gap("pcie_width", f"the kernel says {width}")
        return None
    return width


def _processes(address: str, listed: Raw, fields: FileAnswers) -> tuple[GpuProcess, ...] | None:
    """List the processes that hold memory of this GPU according to KFD."""
    if not isinstance(listed, dict) or "error" in listed:
        why = listed.get("error") if isinstance(listed, dict) else None
        fields.gap("processes", why[:200] if isinstance(why, str) else fields.absent)
        return None
    found: list[GpuProcess] = []
    for pid, held in listed.items():
        number = whole(pid) if isinstance(pid, str) else None
        text = held.get(address) if isinstance(held, dict) else None
        size = whole(text) if isinstance(text, str) else None
        if number is not None and number > 0 and size is not None and size > 0:
            found.append(GpuProcess(pid=number, kind="compute", memory_bytes=size))
    return tuple(sorted(found, key=lambda process: process.pid))
