"""Readings of an AMD GPU from the files of amdgpu and KFD's list of processes."""

from __future__ import annotations

from ...model.part import PartialNode, Raw
from ...model.readings import GpuProcess, GpuReading, GpuUse
from ..files.answers import absent_text, part, under, whole
from ..files.fields import Fields, by, file_count, made
from ..pci.devices import SPEED
from .files import ORIGIN
from .settings import DeviceAnswers, watts

PCIE_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def parse(raw: Raw) -> PartialNode:
    """Turn the answer of the source amdgpu_readings into a reading for each GPU."""
    absent = absent_text(raw)
    listed = under(raw, "processes")
    readings = []
    for address, device in sorted(part(raw, "devices").items()):
        fields = DeviceAnswers(device, absent)
        used = fields.count("mem_info_vram_used", "memory_used_bytes")
        total = fields.count("mem_info_vram_total", "memory_free_bytes")
        free = total - used if total is not None and used is not None and total >= used else None
        if free is None:
            fields.gap("memory_free_bytes", absent)
        known = {"memory_used_bytes": used, "memory_free_bytes": free}
        processes = _processes(address, listed, fields)
        readings.append(READING.read(fields, address=address, processes=processes, **known))
    return PartialNode(gpu_readings=tuple(readings), origin=ORIGIN)


def _percent(fields: DeviceAnswers, field: str, key: str) -> float | None:
    number = fields.number(key, field)
    if number is not None and not 0 <= number <= 100:
        fields.gap(field, f"the driver says {number} %")
        return None
    return None if number is None else float(number)


def _degrees(fields: DeviceAnswers, field: str, *labels: str) -> int | None:
    milli = fields.sensor(field, fields.labelled("temp", "input", labels), -99_999, 500_000)
    return None if milli is None else milli // 1000


def _clock(fields: DeviceAnswers, field: str, label: str) -> int | None:
    hertz = fields.sensor(field, fields.labelled("freq", "input", (label,)), 0, 10**11)
    return None if hertz is None else hertz // 1_000_000


def _generation(fields: DeviceAnswers) -> int | None:
    text = fields.text("current_link_speed", "pcie_gen")
    match = SPEED.match(text) if text is not None else None
    found = PCIE_GENERATION.get(float(match.group(1))) if match else None
    if found is None and text is not None:
        fields.gap("pcie_gen", f"the kernel says {text[:40]!r}")
    return found


def _width(fields: DeviceAnswers) -> int | None:
    width = fields.number("current_link_width", "pcie_width")
    if width is not None and not 0 < width <= 32:
        fields.gap("pcie_width", f"the kernel says {width}")
        return None
    return width


def _positive(text: Raw) -> int:
    """A number in a text; 0 for anything else."""
    return max(0, whole(text) or 0) if isinstance(text, str) else 0


def _processes(address: str, listed: Raw, fields: DeviceAnswers) -> tuple[GpuProcess, ...] | None:
    """List the processes that hold memory of this GPU according to KFD."""
    if not isinstance(listed, dict) or "error" in listed:
        why = under(listed, "error")
        fields.gap("processes", why[:200] if isinstance(why, str) else fields.absent)
        return None
    found: list[GpuProcess] = []
    for pid, held in listed.items():
        number = _positive(pid)
        size = _positive(under(held, address))
        if number and size:
            found.append(GpuProcess(pid=number, kind=GpuUse.COMPUTE, memory_bytes=size))
    return tuple(sorted(found, key=lambda process: process.pid))


READING = Fields(
    GpuReading,
    utilization_percent=by(_percent, "gpu_busy_percent"),
    memory_utilization_percent=by(_percent, "mem_busy_percent"),
    # An average over a moment where there is one; newer GPUs only give the present.
    power_watts=by(watts, "power1_average", "power1_input"),
    temperature_c=by(_degrees, "junction", "edge"),
    temperature_memory_c=by(_degrees, "mem"),
    clock_graphics_mhz=by(_clock, "sclk"),
    clock_memory_mhz=by(_clock, "mclk"),
    pcie_gen=made(_generation),
    pcie_width=made(_width),
    pcie_replays=file_count("pcie_replay_count"),
)
