"""NVML, what moves: load, memory, power, temperature, clocks, traffic, errors, processes.

The raw answer is laid out as that of `nvml`; a device holds besides: "temp", "clock0".."clock3"
(graphics, SM, memory, video), "fields", "recovery_fields" (as "fields", asked rarely),
"ecc00".."ecc11" (total errors: corrected or not, volatile or aggregate), "retired0" and "retired1"
(page addresses: single bit, double bit),
"links" [{"link", "fields"}], and counters with the reading before:
"nvlink_counters" {"seconds", "tx_kib": [before, now], "rx_kib": [before, now]} and
"pcie_counters" {"seconds", "tx_bytes": [before, now], "rx_bytes": [before, now]}.

What costs much is asked rarely. On an H200 with driver 580 most calls take microseconds, but every
NVLink counter takes about 0.8 ms and a PCIe byte counter 0.2 ms, all of it time on a CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ...model.part import Raw
from ...model.source import Source
from . import recovery
from .answers import RECOVERY_FIELDS
from .devices import NvmlDevice, NvmlDevices
from .library import NvmlLibrary, open_library, refused
from .parse_readings import parse
from .questions import EACH_TIME, SLOWLY
from .traffic import NVLINK_TX_RX, NvmlLastReading, Traffic

_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
_COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
_OTHER_PROCESSES = (
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)
_POWER = "nvmlDeviceGetPowerUsage"
# Power: the instant field answers in microseconds, the averaged one can take milliseconds.
_FIELDS = (
    "NVML_FI_DEV_POWER_INSTANT",
    "NVML_FI_DEV_MEMORY_TEMP",
)
LINK_FIELDS = (
    "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY",
    "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY",
    "NVML_FI_DEV_NVLINK_ERROR_DL_CRC",
    "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS",
    *NVLINK_TX_RX,
)
_CLOCKS = 4
_MAX_LINKS = 64
_SLOW_EVERY = 10
LINKS_EVERY = 120
"""One round over the links of one GPU takes about 18 ms."""


class NvmlReadingsReader:
    """Asks NVML once per call, cheaply; keeps the counters of the previous reading."""

    thorough = False
    """Set for a single reading that has to hold everything, whatever it costs."""

    def __init__(
        self,
        start: Callable[[], NvmlLibrary] = open_library,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._devices = NvmlDevices(start)
        self._moving: dict[NvmlDevice, NvmlLastReading] = {}
        self._traffic = Traffic(clock, sleep)
        self._reads = 0

    def __call__(self) -> Raw:
        """Ask once. Raises SourceAbsent, or RuntimeError when NVML stops counting GPUs."""
        library, devices = self._devices.current()
        self._moving = {device: self._moving.get(device) or NvmlLastReading() for device in devices}
        steps, links = self._states(library, devices), self._links(library, devices)
        if self.thorough:
            self._traffic.read_twice(library, self._moving, steps, links)
        else:
            for _ in (*steps, *links):
                pass
            working = [device for device in devices if _works(device)]
            self._traffic.bring_up_to_date(library, self._moving, working)
        self._reads += 1
        if self.thorough:
            devices = self._devices.confirmed()
        return {"devices": [self._raw(device) for device in devices]}

    def _states(self, library: NvmlLibrary, devices: Sequence[NvmlDevice]) -> Iterator[None]:
        """Ask GPU after GPU, in steps of some milliseconds."""
        for place, device in enumerate(devices):
            moving = self._moving[device]
            if device.lasting is None or (self._reads + place) % _SLOW_EVERY == 0:
                slow = device.guarded(partial(_slow, library, device, moving))
                device.lasting = slow or device.lasting
                yield
            fast = device.guarded(partial(_fast, library, device, moving))
            device.answers = fast or device.answers
            yield

    def _links(self, library: NvmlLibrary, devices: Sequence[NvmlDevice]) -> Iterator[None]:
        """Ask for the links of the GPUs whose turn it is; the first picture waits for none."""
        for place, device in enumerate(devices):
            if self.thorough or (self._reads % LINKS_EVERY) == place + 1:
                moving = self._moving[device]
                moving.links = device.guarded(partial(_links, library, device, moving)) or []
                yield

    def _raw(self, device: NvmlDevice) -> dict[str, Raw]:
        moving = self._moving.get(device) or NvmlLastReading()
        return device.raw() | {
            "links": moving.links,
            "nvlink_counters": moving.nvlink_change,
            "pcie_counters": moving.pcie_change,
        }


def _works(device: NvmlDevice) -> bool:
    """Whether the GPU computes, or a process has a context on it."""
    answers = device.answers or {}
    rates, contexts = answers.get(EACH_TIME[0]), answers.get(_COMPUTE)
    computes = isinstance(rates, dict) and rates.get("gpu")
    return bool(computes or (isinstance(contexts, list) and contexts))


def _fast(library: NvmlLibrary, device: NvmlDevice, moving: NvmlLastReading) -> dict[str, Raw]:
    handle = device.handle
    ask = partial(_ask, library, moving)
    answers: dict[str, Raw] = {name: ask(name, (name,), handle) for name in EACH_TIME}
    answers |= _memory(library, moving, handle)
    temperature = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
    answers["temp"] = ask("temp", temperature, handle, 0)
    for kind in range(_CLOCKS):
        answers[f"clock{kind}"] = ask(f"clock{kind}", ("nvmlDeviceGetClockInfo",), handle, kind)
    answers[_REASONS[0]] = ask(_REASONS[0], _REASONS, handle)
    answers[_COMPUTE] = ask(_COMPUTE, _versions(_COMPUTE), handle)
    answers["fields"] = fields = library.fields(handle, _FIELDS)
    if refused(fields[_FIELDS[0]]):
        answers[_POWER] = ask(_POWER, (_POWER,), handle)
    return answers


def _slow(library: NvmlLibrary, device: NvmlDevice, moving: NvmlLastReading) -> dict[str, Raw]:
    handle = device.handle
    moving.unsupported.clear()
    answers: dict[str, Raw] = {name: library.ask(name, handle) for name in SLOWLY}
    answers[RECOVERY_FIELDS] = library.fields(handle, (recovery.FIELD,))
    for name in _OTHER_PROCESSES:
        answers[name] = library.first(_versions(name), handle)
    for counter in range(2):
        for error in range(2):
            answers[f"ecc{error}{counter}"] = library.ask(
                "nvmlDeviceGetTotalEccErrors", handle, error, counter
            )
    for cause in range(2):
        answers[f"retired{cause}"] = library.ask("nvmlDeviceGetRetiredPages", handle, cause)
    if moving.link_count is None:
        moving.link_count = _count_links(library, handle)
    return answers


def _links(library: NvmlLibrary, device: NvmlDevice, moving: NvmlLastReading) -> list[Raw]:
    links = range(moving.link_count or 0)
    fields = library.fields_of_links(device.handle, LINK_FIELDS, links)
    return [{"link": link, "fields": values} for link, values in zip(links, fields, strict=True)]


def _count_links(library: NvmlLibrary, handle: object) -> int:
    for link in range(_MAX_LINKS):
        if refused(library.ask("nvmlDeviceGetNvLinkState", handle, link)):
            return link
    return _MAX_LINKS


def _memory(library: NvmlLibrary, moving: NvmlLastReading, handle: object) -> dict[str, Raw]:
    """Ask the second version first: it keeps what the driver reserves out of "used"."""
    version = getattr(library.binding, "nvmlMemory_v2", None)
    first, second = "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"
    if version is not None:
        answer = _ask(library, moving, second, (first,), handle, version)
        if not refused(answer):
            return {second: answer}
        return {second: answer, first: library.ask(first, handle)}
    return {first: library.ask(first, handle)}


def _ask(
    library: NvmlLibrary,
    moving: NvmlLastReading,
    key: str,
    names: Sequence[str],
    *arguments: object,
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


SOURCE = Source(
    id="nvml_readings",
    interval_seconds=1.0,
    deadline_seconds=2.0,
    reader=NvmlReadingsReader,
    opening=True,
    parse=parse,
)
