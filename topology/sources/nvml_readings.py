"""NVML, what moves: load, memory, power, temperature, clocks, traffic, errors, processes.

The raw answer is laid out as that of `nvml`; a device holds besides: "temp", "clock0".."clock3"
(graphics, SM, memory, video), "fields", "ecc00".."ecc11" (total errors: corrected or not,
volatile or aggregate), "retired0" and "retired1" (page addresses: single bit, double bit),
"links" [{"link", "fields"}], and counters with the reading before:
"nvlink_counters" {"seconds", "tx_kib": [before, now], "rx_kib": [before, now]} and
"pcie_counters" {"seconds", "tx_bytes": [before, now], "rx_bytes": [before, now]}.
What moves slowly or costs much is asked every tenth time, GPU after GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from ..nvml_devices import Device, Devices
from ..nvml_library import ALL_LINKS, Library, open_library, refused
from ..nvml_moving import PCIE_WINDOW_SECONDS, parse
from .source import Raw, Source

_EACH_TIME = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
)
_SLOWLY = (
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus",
)
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
_COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
_OTHER_PROCESSES = (
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)
# Power: the instant field answers in microseconds, the averaged one can take milliseconds.
_FIELDS = (
    "NVML_FI_DEV_POWER_INSTANT",
    "NVML_FI_DEV_MEMORY_TEMP",
    "NVML_FI_DEV_PCIE_REPLAY_COUNTER",
)
_TX_RX = ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX")
_PCIE_TX_RX = ("NVML_FI_DEV_PCIE_COUNT_TX_BYTES", "NVML_FI_DEV_PCIE_COUNT_RX_BYTES")
_LINK_FIELDS = (
    "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY",
    "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY",
    "NVML_FI_DEV_NVLINK_ERROR_DL_CRC",
    "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS",
    *_TX_RX,
)
_CLOCKS = 4
_MAX_LINKS = 64
_SLOW_EVERY = 10
_PCIE_GPUS_AT_ONCE = 2
"""The PCIe byte counters cost up to 0.4 ms a call, so a few GPUs are sampled each time."""

Counters = tuple[float, list[int]]
"""When (monotonic seconds), and the values."""


class Moving:
    """What one GPU needs between two readings."""

    def __init__(self) -> None:
        self.unsupported: dict[str, Raw] = {}
        self.links: int | None = None
        self.nvlink: Counters | None = None
        self.pcie: Raw = {"error": "needs a second reading"}


class Reader:
    """Asks NVML once per call, cheaply; keeps the counters of the reading before."""

    def __init__(
        self,
        start: Callable[[], Library] = open_library,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._devices = Devices(start)
        self._moving: dict[Device, Moving] = {}
        self._clock, self._sleep = clock, sleep
        self._reads = 0

    def __call__(self) -> Raw:
        """Ask once. Raises SourceAbsent, or RuntimeError when NVML stops counting GPUs."""
        library, devices = self._devices.current()
        self._moving = {device: self._moving.get(device) or Moving() for device in devices}
        for place, device in enumerate(devices):
            if device.lasting is None or (self._reads + place) % _SLOW_EVERY == 0:
                slow = device.guarded(partial(_slow, library, device, self._moving[device]))
                device.lasting = slow or device.lasting
        sampled = self._due(devices)
        before = self._pcie(library, sampled)
        for device in devices:
            fast = device.guarded(partial(self._fast, library, device))
            device.answers = fast or device.answers
        if before and self._reads:
            self._wait(min(when for when, _ in before.values()))
            for device, counters in self._pcie(library, sampled).items():
                if device in before:
                    names = ("tx_bytes", "rx_bytes")
                    self._moving[device].pcie = _change(before[device], counters, names)
        self._reads += 1
        return {
            "devices": [
                device.raw() | {"pcie_counters": self._moving[device].pcie} for device in devices
            ]
        }

    def _due(self, devices: Sequence[Device]) -> list[Device]:
        start = self._reads * _PCIE_GPUS_AT_ONCE
        count = min(_PCIE_GPUS_AT_ONCE, len(devices))
        return [devices[(start + step) % len(devices)] for step in range(count)]

    def _pcie(self, library: Library, devices: Sequence[Device]) -> dict[Device, Counters]:
        found: dict[Device, Counters] = {}
        for device in devices:
            moving = self._moving[device]
            if "pcie" in moving.unsupported:
                moving.pcie = moving.unsupported["pcie"]
                continue
            values = device.guarded(partial(library.fields, device.handle, _PCIE_TX_RX))
            if values is None:
                continue
            counters = _values(values, _PCIE_TX_RX)
            if counters is None:
                moving.pcie = moving.unsupported["pcie"] = values[_PCIE_TX_RX[0]]
            else:
                found[device] = (self._clock(), counters)
        return found

    def _wait(self, since: float) -> None:
        """Let the counters run long enough to mean something and too short to wrap twice."""
        left = PCIE_WINDOW_SECONDS - (self._clock() - since)
        if left > 0:
            self._sleep(left)

    def _fast(self, library: Library, device: Device) -> dict[str, Raw]:
        handle, moving = device.handle, self._moving[device]
        ask = partial(_ask, library, moving)
        answers: dict[str, Raw] = {name: ask(name, (name,), handle) for name in _EACH_TIME}
        answers |= _memory(library, moving, handle)
        temperature = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
        answers["temp"] = ask("temp", temperature, handle, 0)
        for kind in range(_CLOCKS):
            clock = f"clock{kind}"
            answers[clock] = _ask(library, moving, clock, ("nvmlDeviceGetClockInfo",), handle, kind)
        answers[_REASONS[0]] = ask(_REASONS[0], _REASONS, handle)
        answers[_COMPUTE] = ask(_COMPUTE, _versions(_COMPUTE), handle)
        answers["fields"] = fields = library.fields(handle, _FIELDS)
        if refused(fields[_FIELDS[0]]):
            name = "nvmlDeviceGetPowerUsage"
            answers[name] = ask(name, (name,), handle)
        if refused(fields[_FIELDS[2]]):
            name = "nvmlDeviceGetPcieReplayCounter"
            answers[name] = ask(name, (name,), handle)
        answers["nvlink_counters"] = self._nvlink(library, handle, moving)
        return answers

    def _nvlink(self, library: Library, handle: object, moving: Moving) -> Raw:
        if not moving.links:
            return {"error": "no NVLink"}
        if "nvlink" in moving.unsupported:
            return moving.unsupported["nvlink"]
        values = library.fields(handle, _TX_RX, scope=ALL_LINKS)
        counters = _values(values, _TX_RX)
        if counters is None:
            moving.unsupported["nvlink"] = values[_TX_RX[0]]
            return values[_TX_RX[0]]
        last, moving.nvlink = moving.nvlink, (self._clock(), counters)
        if last is None:
            return {"error": "needs a second reading"}
        return _change(last, moving.nvlink, ("tx_kib", "rx_kib"))


def _slow(library: Library, device: Device, moving: Moving) -> dict[str, Raw]:
    handle = device.handle
    moving.unsupported.clear()
    answers: dict[str, Raw] = {name: library.ask(name, handle) for name in _SLOWLY}
    for name in _OTHER_PROCESSES:
        answers[name] = library.first(_versions(name), handle)
    for counter in range(2):
        for error in range(2):
            answers[f"ecc{error}{counter}"] = library.ask(
                "nvmlDeviceGetTotalEccErrors", handle, error, counter
            )
    for cause in range(2):
        answers[f"retired{cause}"] = library.ask("nvmlDeviceGetRetiredPages", handle, cause)
    if moving.links is None:
        moving.links = _count_links(library, handle)
    answers["links"] = [
        {"link": link, "fields": library.fields(handle, _LINK_FIELDS, scope=link)}
        for link in range(moving.links)
    ]
    return answers


def _count_links(library: Library, handle: object) -> int:
    for link in range(_MAX_LINKS):
        if refused(library.ask("nvmlDeviceGetNvLinkState", handle, link)):
            return link
    return _MAX_LINKS


def _memory(library: Library, moving: Moving, handle: object) -> dict[str, Raw]:
    """Ask the second version first: it keeps what the driver reserves out of "used"."""
    version = getattr(library.binding, "nvmlMemory_v2", None)
    second = "nvmlDeviceGetMemoryInfo_v2"
    if version is not None:
        names = ("nvmlDeviceGetMemoryInfo",)
        answer = _ask(library, moving, second, names, handle, version)
        if not refused(answer):
            return {second: answer}
    return {"nvmlDeviceGetMemoryInfo": library.ask("nvmlDeviceGetMemoryInfo", handle)}


def _ask(
    library: Library, moving: Moving, key: str, names: Sequence[str], *arguments: object
) -> Raw:
    """Ask, and remember a "not supported" until the next slow round."""
    if key in moving.unsupported:
        return moving.unsupported[key]
    answer = library.first(names, *arguments)
    if refused(answer):
        moving.unsupported[key] = answer
    return answer


def _versions(name: str) -> tuple[str, ...]:
    return (f"{name}_v3", f"{name}_v2", name)


def _values(fields: dict[str, Raw], names: Sequence[str]) -> list[int] | None:
    answers = [fields.get(name) for name in names]
    values = [answer.get("value") for answer in answers if isinstance(answer, dict)]
    whole = [value for value in values if isinstance(value, int)]
    return whole if len(whole) == len(names) else None


def _change(before: Counters, after: Counters, names: Sequence[str]) -> Raw:
    pairs = zip(names, before[1], after[1], strict=True)
    return {"seconds": after[0] - before[0]} | {name: [old, new] for name, old, new in pairs}


SOURCE = Source(
    id="nvml_readings",
    interval_seconds=1.0,
    deadline_seconds=2.0,
    reader=Reader,
    parse=parse,
)
