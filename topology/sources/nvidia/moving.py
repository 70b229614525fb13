"""NVML's raw answers as readings. The layout is described in nvml_readings.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ...model.part import Part, Raw
from ...model.readings import EccCounts, GpuProcess, GpuReading, NvLinkReading
from ...model.record import Gap
from ...model.snapshot import Problem
from ..files.failures import Unanswered
from ..files.library_answers import Answers, dicts, is_whole, odd
from . import recovery
from .answers import FIELDS, NVML, reason, refusal
from .failures import failed, of_links
from .machine import MAX_DEVICES, address
from .possible import believed, believed_links
from .words import throttle_reasons

# What each NVLink of a GPU has counted: errors and bytes.
#
# A GPU has up to 18 links with six counters each, and the reader asks for them once in two minutes:
# what was understood is kept as long as the answers stay equal.
_MAX_LINKS = 64


class LinkCounters(msgspec.Struct, frozen=True):
    """The answers of all links of one GPU, understood."""

    readings: tuple[NvLinkReading, ...]
    failures: tuple[Unanswered, ...]
    """What the driver failed to answer, without the address of the GPU."""


class LinkMemory:
    """Keeps what was understood of the GPUs of one call until the next call."""

    def __init__(self) -> None:
        self._last: dict[bytes, LinkCounters] = {}

    def understood(self, answers: Sequence[Raw]) -> list[LinkCounters]:
        """The "links" of each GPU; those equal to some of the last call are not read again."""
        last, found = self._last, []
        kept: dict[bytes, LinkCounters] = {}
        for links in answers:
            key = _key(links)
            counters = last.get(key) or kept.get(key) or _link_counters(links)
            if key:
                kept[key] = counters
            found.append(counters)
        self._last = kept
        return found


def _key(links: Raw) -> bytes:
    """The value of an answer, whatever becomes of the list itself; b"" where it has no short form.

    Comparing the lists would not notice a list that was changed in place.
    """
    try:
        return msgspec.msgpack.encode(links)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b""  # a number beyond 64 bits, text that is not UTF-8


def _link_counters(links: Raw) -> LinkCounters:
    links = believed_links(links)
    readings: dict[int, NvLinkReading] = {}
    for raw in dicts(links)[:_MAX_LINKS]:
        number = raw.get("link")
        if is_whole(number) and 0 <= number < _MAX_LINKS and ("fields" in raw or "err0" in raw):
            readings[number] = _link(raw, number)
    listed = tuple(readings[number] for number in sorted(readings))
    return LinkCounters(listed, tuple(of_links(links)))


def _link(raw: dict[str, Raw], number: int) -> NvLinkReading:
    a = Answers(raw, NVML)
    dl = "NVML_FI_DEV_NVLINK_ERROR_DL_"
    # NVLink 5 has no such counter of recoveries but one of recovery events.
    events = "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS"
    values: dict[str, int | None] = {
        "replay_errors": _either(a, "replay_errors", (f"{dl}REPLAY",), "err0"),
        "recovery_errors": _either(a, "recovery_errors", (f"{dl}RECOVERY", events), "err1"),
        "crc_errors": _either(a, "crc_errors", (f"{dl}CRC",), "err2"),
        "tx_bytes": _kib(a, "tx_bytes", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX"),
        "rx_bytes": _kib(a, "rx_bytes", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX"),
    }
    return NvLinkReading(link=number, gaps=a.gaps, **values)


def _either(a: Answers, field: str, names: tuple[str, ...], counter: str) -> int | None:
    """Read a field value where there is one, else the older counter call."""
    fields = a.raw.get("fields")
    if not isinstance(fields, dict):
        return a.number(field, counter)
    known = [name for name in names if refusal(fields.get(name)) is None]
    return a.number(field, (FIELDS, (known or list(names))[0]))


def _kib(a: Answers, field: str, name: str) -> int | None:
    count = a.number(field, (FIELDS, name))
    return None if count is None else count * 1024


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

_ROWS = "nvmlDeviceGetRemappedRows"
_PENDING = "nvmlDeviceGetRetiredPagesPendingStatus"
_BEYOND = "nvmlDeviceGetUnrepairableMemoryFlag_v1"
_ASKED = ("ecc00", "ecc10", "ecc01", "ecc11", _ROWS, "retired0", "retired1", _PENDING, _BEYOND)
_MOST = 512
"""Different answers that are kept: more than a node has GPUs."""


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
        "ecc": counts(a),
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


# Memory errors as NVML counts them: ECC totals, remapped rows, retired pages.
#
# They are asked every tenth time and hardly ever change, so equal answers are understood once.
def counts(a: Answers) -> EccCounts | None:
    """The counts of one GPU; None and a gap where nobody asked."""
    answers = [a.raw.get(name) for name in _ASKED]
    if answers[0] is answers[4] is answers[7] is None:
        a.miss("ecc", "not asked")
        return None
    try:
        encoded = msgspec.msgpack.encode(answers)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _understood(answers)  # a number beyond 64 bits, text that is not UTF-8
    return _remembered(encoded)


@lru_cache(_MOST)
def _remembered(encoded: bytes) -> EccCounts:
    return _understood(msgspec.msgpack.decode(encoded))


def _understood(answers: list[Raw]) -> EccCounts:
    own = Answers(dict(zip(_ASKED, answers, strict=True)), NVML)
    values: dict[str, Any] = {
        "corrected_volatile": own.number("corrected_volatile", "ecc00"),
        "uncorrected_volatile": own.number("uncorrected_volatile", "ecc10"),
        "corrected_aggregate": own.number("corrected_aggregate", "ecc01"),
        "uncorrected_aggregate": own.number("uncorrected_aggregate", "ecc11"),
        "rows_remapped_corrected": own.number("rows_remapped_corrected", (_ROWS, 0)),
        "rows_remapped_uncorrected": own.number("rows_remapped_uncorrected", (_ROWS, 1)),
        "remap_pending": own.flag("remap_pending", (_ROWS, 2)),
        "remap_failed": own.flag("remap_failed", (_ROWS, 3)),
        "pages_retired_single": _length(own, "pages_retired_single", "retired0"),
        "pages_retired_double": _length(own, "pages_retired_double", "retired1"),
        "retirement_pending": own.flag("retirement_pending", _PENDING),
        "unrepairable": own.flag("unrepairable", _BEYOND),
    }
    return EccCounts(gaps=own.gaps, **values)


def _length(a: Answers, field: str, name: str) -> int | None:
    pages = a.get(field, name)
    if isinstance(pages, list):
        return len(pages)
    if pages is not None:
        a.miss(field, odd(pages))
    return None
