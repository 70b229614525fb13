"""NVML's raw answers as readings. The layout is described in nvml_readings.py."""

from __future__ import annotations

from typing import Any

from ...model.part import Part, Raw
from ...model.readings import GpuProcess, GpuReading, NvLinkReading
from ...model.record import Gap
from ...model.snapshot import Problem
from ..files.library_answers import Answers, dicts, is_whole, odd
from . import ecc, recovery
from .answers import FIELDS, NVML, reason, refusal
from .failures import failed
from .link_counters import LinkMemory
from .machine import MAX_DEVICES, address
from .possible import believed
from .words import throttle_reasons

PCIE_WINDOW_SECONDS = 0.025
"""How long the PCIe byte counters are watched. They are 32 bits wide: at 63 GB/s (generation 5, 16
lanes) they wrap after 68 ms, so two readings a second apart would not give the rate."""
_PCIE_SHORTEST_SECONDS = 0.005
_PCIE_LONGEST_SECONDS = 0.034
"""Within this time a counter wraps at most once, even at 126 GB/s (generation 6, 16 lanes)."""
_MAX_PROCESSES = 4096
_PSTATE_UNKNOWN = 32
_LINKS = LinkMemory()
_PROCESSES = (
    ("compute", "nvmlDeviceGetComputeRunningProcesses"),
    ("graphics", "nvmlDeviceGetGraphicsRunningProcesses"),
    ("mps", "nvmlDeviceGetMPSComputeRunningProcesses"),
)


def parse(raw: Raw) -> Part:
    """Parse what the reader of `nvml_readings` (or nvml.json) holds."""
    top = raw if isinstance(raw, dict) else {}
    readings: dict[str, GpuReading] = {}
    problems: list[Problem] = []
    listed = dicts(top.get("devices"))[:MAX_DEVICES]
    counters = _LINKS.understood([device.get("links") for device in listed])
    devices = [believed(device, links=False) for device in listed]
    for device, links in zip(devices, counters, strict=True):
        own = address(device)
        if own is None or own in readings or "refused" in device:
            continue  # the source `nvml` reports GPUs that have no address
        if "lost" in device:
            why = reason(str(device["lost"]))
            text = f"GPU {own} is gone ({why})"
            problems.append(Problem(source="nvml_readings", kind="lost", text=text, devices=(own,)))
            gap = Gap("lost", why)
            readings[own] = GpuReading(address=own, lost=True, gaps=(gap,))
        else:
            readings[own] = _reading(device, own, links.readings)
    # The GPUs that are lost have their problem already.
    answered = [
        (address(device), device, links.failures)
        for device, links in zip(devices, counters, strict=True)
        if "lost" not in device
    ]
    return Part(
        gpu_readings=tuple(readings.values()),
        problems=(*problems, *failed("nvml_readings", None, answered)),
    )


def _reading(device: dict[str, Raw], own: str, links: tuple[NvLinkReading, ...]) -> GpuReading:
    a = Answers(device, NVML)
    memory = "nvmlDeviceGetMemoryInfo"
    if refusal(device.get(f"{memory}_v2")) is None:
        memory = f"{memory}_v2"
    values: dict[str, Any] = {
        "utilization_percent": a.number(
            "utilization_percent", ("nvmlDeviceGetUtilizationRates", "gpu")
        ),
        "memory_utilization_percent": a.number(
            "memory_utilization_percent", ("nvmlDeviceGetUtilizationRates", "memory")
        ),
        "memory_used_bytes": a.number("memory_used_bytes", (memory, "used")),
        "memory_free_bytes": a.number("memory_free_bytes", (memory, "free")),
        "bar1_used_bytes": a.number("bar1_used_bytes", ("nvmlDeviceGetBAR1MemoryInfo", "bar1Used")),
        "power_watts": _power(a),
        "temperature_c": a.number("temperature_c", "temp"),
        "temperature_memory_c": _memory_temperature(a),
        "clock_graphics_mhz": a.number("clock_graphics_mhz", "clock0"),
        "clock_sm_mhz": a.number("clock_sm_mhz", "clock1"),
        "clock_memory_mhz": a.number("clock_memory_mhz", "clock2"),
        "clock_video_mhz": a.number("clock_video_mhz", "clock3"),
        "throttle_reasons": _throttle(a),
        "performance_state": _performance_state(a),
        "pcie_gen": a.number("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration"),
        "pcie_width": a.number("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
        "pcie_replays": _replays(a),
        "nvlinks": links,
        "ecc": ecc.counts(a),
        "processes": _processes(a),
        "recovery_action": recovery.answered(a),
    }
    for way in ("tx", "rx"):
        values[f"pcie_{way}_bytes_per_second"] = _pcie_rate(a, way)
        values[f"nvlink_{way}_bytes_per_second"] = _nvlink_rate(a, way)
    return GpuReading(address=own, gaps=a.gaps, **values)


def _power(a: Answers) -> float | None:
    """Watts right now; older drivers give the mean of the last second."""
    fields = a.raw.get("fields")
    name = "NVML_FI_DEV_POWER_INSTANT"
    if isinstance(fields, dict) and refusal(fields.get(name)) is None:
        milliwatts = a.number("power_watts", (FIELDS, name))
    else:
        milliwatts = a.number("power_watts", "nvmlDeviceGetPowerUsage")
    return None if milliwatts is None else milliwatts * 0.001


def _memory_temperature(a: Answers) -> int | None:
    degrees = a.number("temperature_memory_c", (FIELDS, "NVML_FI_DEV_MEMORY_TEMP"))
    if degrees == 0:  # boards without the sensor answer 0 instead of "not supported"
        a.miss("temperature_memory_c", "the driver says 0")
        return None
    return degrees


def _replays(a: Answers) -> int | None:
    if refusal(a.raw.get("nvmlDeviceGetPcieReplayCounter")) is None:
        return a.number("pcie_replays", "nvmlDeviceGetPcieReplayCounter")
    return a.number("pcie_replays", (FIELDS, "NVML_FI_DEV_PCIE_REPLAY_COUNTER"))


def _throttle(a: Answers) -> tuple[str, ...] | None:
    mask = a.number(
        "throttle_reasons",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    )
    if mask is not None and mask < 0:
        a.miss("throttle_reasons", "not understood")
        return None
    return None if mask is None else throttle_reasons(mask)


def _performance_state(a: Answers) -> int | None:
    state = a.number(
        "performance_state", "nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerState"
    )
    if state == _PSTATE_UNKNOWN:
        a.miss("performance_state", "the driver says unknown")
        return None
    return state


def _pcie_rate(a: Answers, way: str) -> float | None:
    """Bytes a second from 32-bit counters; a single wrap is corrected."""
    field = f"pcie_{way}_bytes_per_second"
    change = _counters(a, field, "pcie_counters", f"{way}_bytes")
    if change is None:
        return None
    seconds, before, now = change
    if not _PCIE_SHORTEST_SECONDS <= seconds <= _PCIE_LONGEST_SECONDS:
        a.miss(field, f"the counters were read {seconds * 1000:.0f} ms apart, which is no measure")
        return None
    return ((now - before) % 2**32) / seconds


def _nvlink_rate(a: Answers, way: str) -> float | None:
    """Payload bytes a second over all NVLinks of the GPU, from KiB counters."""
    field = f"nvlink_{way}_bytes_per_second"
    change = _counters(a, field, "nvlink_counters", f"{way}_kib")
    if change is None:
        return None
    seconds, before, now = change
    if now < before:
        a.miss(field, "the counter went back (the driver was reloaded?)")
        return None
    return (now - before) * 1024 / seconds


def _counters(a: Answers, field: str, name: str, key: str) -> tuple[float, int, int] | None:
    change = a.raw.get(name)
    if refusal(change) is not None:
        a.get(field, name)  # notes why
        return None
    if isinstance(change, dict):
        seconds, values = change.get("seconds"), change.get(key)
        if isinstance(seconds, int | float) and isinstance(values, list) and len(values) == 2:
            before, now = values
            whole = is_whole(before) and is_whole(now)
            if whole and 0 < seconds < 1e6 and 0 <= before < 2**64 and 0 <= now < 2**64:
                return float(seconds), before, now
    a.miss(field, odd(change))
    return None


def _processes(a: Answers) -> tuple[GpuProcess, ...] | None:
    """All processes that the driver names; None when it does not say who computes."""
    found: dict[tuple[int, str], GpuProcess] = {}
    for kind, name in _PROCESSES:
        listed = a.raw.get(name)
        if kind == "compute" and not isinstance(listed, list):
            a.miss("processes", refusal(listed) or odd(listed))
            return None
        for raw in dicts(listed)[:_MAX_PROCESSES]:
            pid = raw.get("pid")
            if is_whole(pid) and 0 <= pid < 2**32:
                found[pid, kind] = _process(raw, pid, kind)
    return tuple(found.values())


def _process(raw: dict[str, Raw], pid: int, kind: str) -> GpuProcess:
    a = Answers(raw, NVML)
    used = raw.get("usedGpuMemory")
    if used is None:
        a.miss("memory_bytes", "the driver does not say")
        return GpuProcess(pid=pid, kind=kind, gaps=a.gaps)
    return GpuProcess(
        pid=pid,
        kind=kind,
        memory_bytes=a.number("memory_bytes", "usedGpuMemory"),
        gaps=a.gaps,
    )
