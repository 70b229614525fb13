"""NVML's raw answers as readings. The layout is described in nvml_readings.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from ...model.part import PartialNode, Raw
from ...model.readings import EccCounts, GpuProcess, GpuReading, GpuUse, NvLinkReading
from ...model.record import Gap
from ...model.snapshot import Problem, ProblemKind
from ..files.failures import Unanswered
from ..files.fields import Fields, by, flag, made, whole
from ..files.library_answers import Answers, dicts, is_whole, wrong_shape
from . import recovery
from .answers import FIELDS, NVML, reason, refusal
from .failures import failed, of_links
from .parse_machine import MAX_DEVICES, address, unknown_device
from .possible import plausible, plausible_links
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
    links = plausible_links(links)
    readings: dict[int, NvLinkReading] = {}
    for raw in dicts(links)[:_MAX_LINKS]:
        number = raw.get("link")
        if is_whole(number) and 0 <= number < _MAX_LINKS and ("fields" in raw or "err0" in raw):
            readings[number] = _link(raw, number)
    listed = tuple(readings[number] for number in sorted(readings))
    return LinkCounters(listed, tuple(of_links(links)))


def _link(raw: dict[str, Raw], number: int) -> NvLinkReading:
    return LINK.read(Answers(raw, NVML), link=number)


def _either(a: Answers, field: str, names: tuple[str, ...], counter: str) -> int | None:
    """Read a field value where there is one, else the older counter call."""
    fields = a.raw.get("fields")
    if not isinstance(fields, dict):
        return a.whole(field, counter)
    known = [name for name in names if refusal(fields.get(name)) is None]
    return a.whole(field, (FIELDS, (known or list(names))[0]))


def _kib(a: Answers, field: str, name: str) -> int | None:
    count = a.whole(field, (FIELDS, name))
    return None if count is None else count * 1024


PCIE_WINDOW_SECONDS = 0.025
"""How long the PCIe byte counters are watched. They are 32 bits wide: at 63 GB/s (generation 5, 16
lanes) they wrap after 68 ms, so two readings a second apart would not give the rate."""
_PCIE_SHORTEST_SECONDS = 0.005
PCIE_LONGEST_SECONDS = 0.034
"""Within this time a counter wraps at most once, even at 126 GB/s (generation 6, 16 lanes)."""
_MAX_PROCESSES = 4096
_PSTATE_UNKNOWN = 32
_LINKS = LinkMemory()
_PROCESSES = (
    (GpuUse.COMPUTE, "nvmlDeviceGetComputeRunningProcesses"),
    (GpuUse.GRAPHICS, "nvmlDeviceGetGraphicsRunningProcesses"),
    (GpuUse.MPS, "nvmlDeviceGetMPSComputeRunningProcesses"),
)

_ROWS = "nvmlDeviceGetRemappedRows"
_PENDING = "nvmlDeviceGetRetiredPagesPendingStatus"
_BEYOND = "nvmlDeviceGetUnrepairableMemoryFlag_v1"
_ASKED = ("ecc00", "ecc10", "ecc01", "ecc11", _ROWS, "retired0", "retired1", _PENDING, _BEYOND)
_MOST = 512
"""Different answers that are kept: more than a node has GPUs."""


def parse(raw: Raw) -> PartialNode:
    """Parse what the reader of `nvml_readings` (or nvml.json) holds."""
    top = raw if isinstance(raw, dict) else {}
    readings: dict[str, GpuReading] = {}
    problems: list[Problem] = []
    listed = dicts(top.get("devices"))[:MAX_DEVICES]
    counters = _LINKS.understood([device.get("links") for device in listed])
    devices = [plausible(device, links=False) for device in listed]
    for place, (device, links) in enumerate(zip(devices, counters, strict=True)):
        own = address(device)
        if "refused" in device:
            unknown = unknown_device(device, place, "nvml_readings")
            # One that may not be opened is the same for the source `nvml`, which says it.
            problems += [unknown] * (unknown.kind != ProblemKind.DENIED)
        if own is None or own in readings or "refused" in device:
            continue  # the source `nvml` reports GPUs that have no address
        if "lost" in device:
            why = reason(str(device["lost"]))
            text = f"GPU {own} is gone ({why})"
            problems.append(
                Problem(source="nvml_readings", kind=ProblemKind.LOST, text=text, devices=(own,))
            )
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
    return PartialNode(
        gpu_readings=tuple(readings.values()),
        problems=(*problems, *failed("nvml_readings", None, answered)),
    )


def _reading(device: dict[str, Raw], own: str, links: tuple[NvLinkReading, ...]) -> GpuReading:
    return READING.read(Answers(device, NVML), address=own, nvlinks=links)


def _memory(answers: Answers, field: str, key: str) -> int | None:
    """From the second version of the call where it is answered: it counts the driver's own part."""
    name = "nvmlDeviceGetMemoryInfo"
    newer = name not in answers.raw or refusal(answers.raw.get(f"{name}_v2")) is None
    return answers.whole(field, (f"{name}_v2" if newer else name, key))


def _power(a: Answers) -> float | None:
    """Watts right now; older drivers give the mean of the last second."""
    fields = a.raw.get("fields")
    name = "NVML_FI_DEV_POWER_INSTANT"
    if isinstance(fields, dict) and refusal(fields.get(name)) is None:
        milliwatts = a.whole("power_watts", (FIELDS, name))
    else:
        milliwatts = a.whole("power_watts", "nvmlDeviceGetPowerUsage")
    return None if milliwatts is None else milliwatts * 0.001


def _memory_temperature(a: Answers) -> int | None:
    degrees = a.whole("temperature_memory_c", (FIELDS, "NVML_FI_DEV_MEMORY_TEMP"))
    if degrees == 0:  # boards without the sensor answer 0 instead of "not supported"
        a.gap("temperature_memory_c", "the driver says 0")
        return None
    return degrees


def _replays(a: Answers) -> int | None:
    if refusal(a.raw.get("nvmlDeviceGetPcieReplayCounter")) is None:
        return a.whole("pcie_replays", "nvmlDeviceGetPcieReplayCounter")
    return a.whole("pcie_replays", (FIELDS, "NVML_FI_DEV_PCIE_REPLAY_COUNTER"))


def _throttle(a: Answers) -> tuple[str, ...] | None:
    mask = a.whole(
        "throttle_reasons",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    )
    if mask is not None and mask < 0:
        a.gap("throttle_reasons", "not understood")
        return None
    return None if mask is None else throttle_reasons(mask)


def _performance_state(a: Answers) -> int | None:
    state = a.whole("performance_state", "nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerState")
    if state == _PSTATE_UNKNOWN:
        a.gap("performance_state", "the driver says unknown")
        return None
    return state


def _pcie_rate(answers: Answers, field: str, key: str) -> float | None:
    """Bytes a second from 32-bit counters; a single wrap is corrected."""
    change = _counters(answers, field, "pcie_counters", key)
    if change is None:
        return None
    seconds, before, now = change
    if not _PCIE_SHORTEST_SECONDS <= seconds <= PCIE_LONGEST_SECONDS:
        why = f"the counters were read {seconds * 1000:.0f} ms apart, which is no measure"
        answers.gap(field, why)
        return None
    return ((now - before) % 2**32) / seconds


def _nvlink_rate(answers: Answers, field: str, key: str) -> float | None:
    """Payload bytes a second over all NVLinks of the GPU, from KiB counters."""
    change = _counters(answers, field, "nvlink_counters", key)
    if change is None:
        return None
    seconds, before, now = change
    if now < before:
        answers.gap(field, "the counter went back (the driver was reloaded?)")
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
    a.gap(field, wrong_shape(change))
    return None


def _processes(a: Answers) -> tuple[GpuProcess, ...] | None:
    """All processes that the driver names; None when it does not say who computes."""
    found: dict[tuple[int, str], GpuProcess] = {}
    for kind, name in _PROCESSES:
        listed = a.raw.get(name)
        if kind is GpuUse.COMPUTE and not isinstance(listed, list):
            a.gap("processes", refusal(listed) or wrong_shape(listed))
            return None
        for raw in dicts(listed)[:_MAX_PROCESSES]:
            pid = raw.get("pid")
            if is_whole(pid) and 0 <= pid < 2**32:
                found[pid, kind] = _process(raw, pid, kind)
    return tuple(found.values())


def _process(raw: dict[str, Raw], pid: int, kind: GpuUse) -> GpuProcess:
    a = Answers(raw, NVML)
    used = raw.get("usedGpuMemory")
    if used is None:
        a.gap("memory_bytes", "the driver does not say")
        return GpuProcess(pid=pid, kind=kind, gaps=a.gaps)
    return GpuProcess(
        pid=pid,
        kind=kind,
        memory_bytes=a.whole("memory_bytes", "usedGpuMemory"),
        gaps=a.gaps,
    )


# Memory errors as NVML counts them: ECC totals, remapped rows, retired pages.
#
# They are asked every tenth time and hardly ever change, so equal answers are understood once.
def counts(a: Answers) -> EccCounts | None:
    """The counts of one GPU; None and a gap where nobody asked."""
    answers = [a.raw.get(name) for name in _ASKED]
    if answers[0] is answers[4] is answers[7] is None:
        a.gap("ecc", "not asked")
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
    return ECC.read(Answers(dict(zip(_ASKED, answers, strict=True)), NVML))


def _length(a: Answers, field: str, name: str) -> int | None:
    pages = a.get(field, name)
    if isinstance(pages, list):
        return len(pages)
    if pages is not None:
        a.gap(field, wrong_shape(pages))
    return None


_DL = "NVML_FI_DEV_NVLINK_ERROR_DL_"
_EVENTS = "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS"
"""NVLink 5 has no counter of recoveries but this one of recovery events."""
LINK = Fields(
    NvLinkReading,
    replay_errors=by(_either, (f"{_DL}REPLAY",), "err0"),
    recovery_errors=by(_either, (f"{_DL}RECOVERY", _EVENTS), "err1"),
    crc_errors=by(_either, (f"{_DL}CRC",), "err2"),
    tx_bytes=by(_kib, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX"),
    rx_bytes=by(_kib, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX"),
)
ECC = Fields(
    EccCounts,
    corrected_volatile=whole("ecc00"),
    uncorrected_volatile=whole("ecc10"),
    corrected_aggregate=whole("ecc01"),
    uncorrected_aggregate=whole("ecc11"),
    rows_remapped_corrected=whole((_ROWS, 0)),
    rows_remapped_uncorrected=whole((_ROWS, 1)),
    remap_pending=flag((_ROWS, 2)),
    remap_failed=flag((_ROWS, 3)),
    pages_retired_single=by(_length, "retired0"),
    pages_retired_double=by(_length, "retired1"),
    retirement_pending=flag(_PENDING),
    unrepairable=flag(_BEYOND),
)
READING = Fields(
    GpuReading,
    utilization_percent=whole(("nvmlDeviceGetUtilizationRates", "gpu")),
    memory_utilization_percent=whole(("nvmlDeviceGetUtilizationRates", "memory")),
    memory_used_bytes=by(_memory, "used"),
    memory_free_bytes=by(_memory, "free"),
    bar1_used_bytes=whole(("nvmlDeviceGetBAR1MemoryInfo", "bar1Used")),
    power_watts=made(_power),
    temperature_c=whole("temp"),
    temperature_memory_c=made(_memory_temperature),
    clock_graphics_mhz=whole("clock0"),
    clock_sm_mhz=whole("clock1"),
    clock_memory_mhz=whole("clock2"),
    clock_video_mhz=whole("clock3"),
    throttle_reasons=made(_throttle),
    performance_state=made(_performance_state),
    pcie_gen=whole("nvmlDeviceGetCurrPcieLinkGeneration"),
    pcie_width=whole("nvmlDeviceGetCurrPcieLinkWidth"),
    pcie_replays=made(_replays),
    ecc=made(counts),
    processes=made(_processes),
    recovery_action=made(recovery.answered),
    pcie_tx_bytes_per_second=by(_pcie_rate, "tx_bytes"),
    nvlink_tx_bytes_per_second=by(_nvlink_rate, "tx_kib"),
    pcie_rx_bytes_per_second=by(_pcie_rate, "rx_bytes"),
    nvlink_rx_bytes_per_second=by(_nvlink_rate, "rx_kib"),
)
