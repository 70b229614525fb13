"""What NVIDIA's driver tells of itself while somebody listens: events of NVML, and their meaning.

The raw answer: {"listening": {address: mask}, "refused": {address: why}, "operational": true or
why not, "events": [{"at": seconds since the epoch, "address", "type", "data", "instance"} or {"at",
"address", "severity", "module", "code"}]}. An event set holds what came since it was made: a single
reading makes none. A call never waits: what has not come yet comes with the next one.

Types and structures: nvml.h of CUDA 13 and nvidia-ml-py 13.615, whose GPU operational events need
driver 615; where the binding or the driver lacks them, nothing of them is asked.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ...model.kernel_event import HEARD, LISTENED, KernelEvent, KernelSource, counted
from ...model.part import PartialNode, Raw
from ...model.source import Source, SourceAbsent
from ..files.answers import items_of, part
from ..pci.address import pci_address
from .devices import NvmlDevice, NvmlDevices
from .library import GpuLost, NvmlLibrary, open_library, refused

XID = 0x8
WANTED = {
    0x2: "nvmlEventTypeDoubleBitEccError",
    XID: "nvmlEventTypeXidCriticalError",
    0x80: "nvmlEventTypePowerSourceChange",
    0x100: "nvmlEventMigConfigChange",
    0x200: "nvmlEventTypeSingleBitEccErrorStorm",
    0x400: "nvmlEventTypeDramRetirementEvent",
    0x800: "nvmlEventTypeDramRetirementFailure",
    0x1000: "nvmlEventTypeNonFatalPoisonError",
    0x2000: "nvmlEventTypeFatalPoisonError",
    0x4000: "nvmlEventTypeGpuUnavailableError",
}
"""Types that are registered. Clocks and power states change with every job; single-bit errors and
what the driver asks for are read as counters and states."""
OF_MEMORY = (0x2, 0x400, 0x800, 0x1000, 0x2000)
MEMORY_XIDS = ("48", "63", "64", "94", "95")
"""Xids that come with an event about memory: the Xid says more, and one of the two is told."""
MOST_AT_ONCE, MOST_KEPT = 64, 500
WARNING, CORRECTED = 40, 20
"""NVML_GPU_OPERATIONAL_EVENT_LOG_LEVEL_WARNING, NVML_OPERATIONAL_EVENT_SEVERITY_CORRECTED."""
_OPERATIONAL = 1
"""NVML_EVENT_DATA_TYPE_GPU_OPERATIONAL_EVENT."""
SEVERITIES = {20: "corrected", 30: "recoverable", 40: "fatal"}


def parse(raw: Raw) -> PartialNode:
    """The events as those of the kernel's log, which the same catalogue explains."""
    found = [event for one in items_of(part({"": raw}, "").get("events")) if (event := _event(one))]
    xids = {(event.device, event.code) for event in found if event.kind is KernelSource.XID}
    doubled = {device for device, code in xids if code in MEMORY_XIDS}
    kept = [one for one in found if not (_of_memory(one) and one.device in doubled)]
    return PartialNode(kernel_events=counted(kept), origin=LISTENED)


def _of_memory(event: KernelEvent) -> bool:
    return event.kind is KernelSource.NVML and event.code in {str(one) for one in OF_MEMORY}


def _event(raw: Raw) -> KernelEvent | None:
    said = part({"": raw}, "")
    address, at = said.get("address"), said.get("at")
    when = _clock(at) if isinstance(at, (int, float)) else ""
    device = address if isinstance(address, str) else None
    if isinstance(severity := said.get("severity"), int):
        words = f"{str(said.get('module') or 'driver')[:16]} {said.get('code')}"
        return KernelEvent(
            kind=KernelSource.OPERATIONAL,
            code=str(severity),
            device=device,
            said=words,
            details=(words,),
            text=f"{HEARD}operational event {words}, {SEVERITIES.get(severity, severity)}",
            first=when,
            last=when,
        )
    number, data = said.get("type"), said.get("data")
    if not isinstance(number, int):
        return None
    xid = number == XID
    name = WANTED.get(number, f"event type {number:#x}")
    instance = said.get("instance")
    return KernelEvent(
        kind=KernelSource.XID if xid else KernelSource.NVML,
        code=str(data if xid else number),
        device=device,
        name=f"GPU instance {instance}" if isinstance(instance, int) else "",
        text=f"{HEARD}Xid {data}" if xid else f"{HEARD}{name}",
        first=when,
        last=when,
    )


def _clock(at: float) -> str:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at))
    except (OverflowError, ValueError, OSError):
        return ""


class NvmlEventsReader:
    """Makes an event set at the first call, and takes out of it what has come at each."""

    thorough = False
    """A single reading has no time in which an event could come: it asks nothing."""

    def __init__(
        self,
        start: Callable[[], NvmlLibrary] = open_library,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._devices, self._clock = NvmlDevices(start), clock
        self._library: NvmlLibrary | None = None
        self._set: object | None = None
        self._listening: dict[str, int] = {}
        self._refused: dict[str, str] = {}
        self._operational: Raw = False
        self._events: deque[Raw] = deque(maxlen=MOST_KEPT)

    def __call__(self) -> Raw:
        """Take what has come. Raises RuntimeError when NVML stops counting.

        Where there is no NVML there is nothing to hear, and the source nvml says why.
        """
        with suppress(SourceAbsent):
            self._hear()
        return {
            "listening": dict(self._listening),
            "refused": dict(self._refused),
            "operational": self._operational,
            "events": list(self._events),
        }

    def _hear(self) -> None:
        if not self.thorough:
            library, devices = self._devices.current()
            if library is not self._library or len(devices) != len(self._known(devices)):
                self._listen(library, devices)
            self._take(library, devices)

    def _known(self, devices: list[NvmlDevice]) -> list[str]:
        asked = {*self._listening, *self._refused}
        return [one for device in devices if (one := _address(device)) in asked]

    def _listen(self, library: NvmlLibrary, devices: list[NvmlDevice]) -> None:
        """Register every GPU for what its driver supports of what is wanted."""
        if self._set is not None and self._library is library:
            library.ask("nvmlEventSetFree", self._set)
        self._library, self._listening, self._refused = library, {}, {}
        self._set = library.handle("nvmlEventSetCreate")
        for device in devices:
            address = _address(device)
            answer = device.guarded(partial(self._register, library, device.handle))
            if isinstance(answer, int):
                self._listening[address] = answer
            else:
                self._refused[address] = str(answer or device.lost or "no answer")
        self._operational = self._ask_operational(library) if self._listening else False

    def _register(self, library: NvmlLibrary, handle: object) -> int | str:
        if self._set is None:
            return "the driver makes no event set"
        supported = library.ask("nvmlDeviceGetSupportedEventTypes", handle)
        if not isinstance(supported, int):
            return str(part({"": supported}, "").get("error", "no answer"))
        mask = supported & sum(WANTED)
        answer = library.ask("nvmlDeviceRegisterEvents", handle, mask, self._set)
        return str(answer["error"]) if refused(answer) else mask

    def _ask_operational(self, library: NvmlLibrary) -> Raw:
        """Register for operational events of all GPUs: True, or why there are none."""
        make = getattr(library.binding, "c_nvmlGpuOperationalEventConfig_v1_t", None)
        if make is None:
            return "not in the installed nvidia-ml-py"
        config = make(b"", WARNING, CORRECTED)
        answer = library.ask("nvmlEventSetRegisterGpuOperationalEvents_v1", self._set, config)
        return part({"": answer}, "").get("error") or True

    def _take(self, library: NvmlLibrary, devices: list[NvmlDevice]) -> None:
        wait = self._next_operational if self._operational is True else self._next
        for _ in range(MOST_AT_ONCE if self._listening else 0):
            try:
                event = wait(library, devices)
            except GpuLost:
                return  # the readings say so; the other GPUs' events come with the next call
            if event is None:
                return
            self._events.append({"at": self._clock(), **event})

    def _next(self, library: NvmlLibrary, devices: list[NvmlDevice]) -> dict[str, Raw] | None:
        """The oldest event that waits; None where none does."""
        data = _waited(library, ("nvmlEventSetWait_v2", "nvmlEventSetWait"), self._set, 0)
        if data is None:
            return None
        return {
            "address": _of_handle(library, devices, data.device),
            "type": int(data.eventType),
            "data": int(data.eventData),
            "instance": _instance(data),
        }

    def _next_operational(
        self, library: NvmlLibrary, devices: list[NvmlDevice]
    ) -> dict[str, Raw] | None:
        """The same of a set that gives operational events too, of drivers since 615."""
        make: Any = library.binding.c_nvmlEventSetWait_v3_t
        data = make(timeoutMs=0)
        answer = library.ask("nvmlEventSetWait_v3", self._set, data)
        if refused(answer):
            return None
        uuid = bytes(data.uuid).split(b"\0")[0].decode("utf-8", "replace")
        address = _of_uuid(library, devices, uuid)
        if data.dataType != _OPERATIONAL:
            number = int(data.eventType)
            known = {"type": number, "data": int(data.eventData), "instance": _instance(data)}
            return {"address": address, **known}
        xid = self._legacy_xid(library)
        if xid is not None:
            return {"address": address, "type": XID, "data": xid}
        module = bytes(data.sourceModule).split(b"\0")[0].decode("utf-8", "replace")
        return {
            "address": address,
            "severity": int(data.severity),
            "module": module,
            "code": int(data.moduleEventCode),
        }

    def _legacy_xid(self, library: NvmlLibrary) -> int | None:
        """The Xid that an operational event is another form of."""
        make: Any = getattr(
            library.binding, "c_nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1_t", None
        )
        name = "nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1"
        data = make(index=0) if make is not None else None
        if data is None or refused(library.ask(name, self._set, data)):
            return None
        return int(data.xidCode)


def _waited(library: NvmlLibrary, names: tuple[str, ...], *arguments: object) -> Any:
    """What a wait gives; None where nothing came in time, or the driver has no such call."""
    for name in names:
        data = library.handle(name, *arguments)
        if data is not None:
            return data
    return None


def _instance(data: Any) -> int | None:
    """The GPU instance; all bits are set where it is of the whole GPU."""
    found = int(getattr(data, "gpuInstanceId", 0xFFFFFFFF))
    return found if found < 0xFFFFFFFF else None


def _address(device: NvmlDevice) -> str:
    """The address of a GPU as the rest of gputop writes it."""
    said = pci_address(part({"": device.pci}, "").get("busId"))
    return said or f"nvml:{device.index}"


def _of_handle(library: NvmlLibrary, devices: list[NvmlDevice], handle: object) -> str | None:
    """The GPU of a handle, which may be another object for the same GPU."""
    said = part({"": library.ask("nvmlDeviceGetPciInfo_v3", handle)}, "").get("busId")
    known = {str(part({"": one.pci}, "").get("busId")): _address(one) for one in devices}
    return known.get(str(said))


def _of_uuid(library: NvmlLibrary, devices: list[NvmlDevice], uuid: str) -> str | None:
    for device in devices:
        if device.guarded(partial(library.ask, "nvmlDeviceGetUUID", device.handle)) == uuid:
            return _address(device)
    return None


SOURCE = Source(
    id=LISTENED, interval_seconds=5.0, deadline_seconds=5.0, reader=NvmlEventsReader, parse=parse
)
