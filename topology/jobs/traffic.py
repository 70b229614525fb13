"""What the links of GPUs carried: between two looks at the driver's counters, and lately.

A hint, never a proof by itself: ranks that compute between two collectives send nothing either.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ..model.source import SourceAbsent
from ..sources.nvidia.library import ALL_LINKS, GpuLost, NvmlLibrary, open_library
from ..sources.nvidia.traffic import NVLINK_TX_RX

DEADLINE_SECONDS = 1.0
"""How long the driver is waited for; one that hangs must not stop the answer."""
MOST_GPUS = 64
LINKS, PCIE = "links", "PCIe"
"""Kinds of traffic: over NVLink or xGMI, and over PCIe."""
KIB = 1024


class TrafficLook(msgspec.Struct, frozen=True):
    """The counters at one moment."""

    at: float
    """Seconds of a clock that only counts up."""
    nvlink_kib: Mapping[str, int]
    """Payload sent and received over all NVLinks of a GPU, by PCI address."""


class CarriedTraffic(msgspec.Struct, frozen=True):
    """What changed between two looks."""

    seconds: float
    nvlink_bytes: Mapping[str, int]
    """Sent and received, by PCI address; without those whose counters the driver does not give."""


class GpuPast(msgspec.Struct, frozen=True):
    """One kind of traffic of one GPU, as it was read lately."""

    quiet_seconds: float
    """For how long it has carried nothing; 0 where it carries something now."""
    watched_seconds: float
    """How far back the readings go."""
    before: float | None = None
    """Bytes a second, both ways, in its last reading that was not silent; None without any."""


TrafficPast = Mapping[str, Mapping[str, GpuPast]]
"""Kind of traffic -> PCI address -> what was read; without GPUs of which nothing was."""


def look(
    addresses: Sequence[str],
    start: Callable[[], NvmlLibrary] = open_library,
    clock: Callable[[], float] = time.monotonic,
    deadline: float = DEADLINE_SECONDS,
) -> TrafficLook | None:
    """Read the counters of these NVIDIA GPUs; None where the driver does not answer in time."""
    found: list[TrafficLook] = []

    def work() -> None:
        try:
            library = start()
        except SourceAbsent:
            return
        counted: dict[str, int] = {}
        for address in addresses[:MOST_GPUS]:
            try:
                handle = library.handle("nvmlDeviceGetHandleByPciBusId", address.encode())
                if handle is None:
                    continue
                fields = library.fields(handle, NVLINK_TX_RX, scope=ALL_LINKS)
            except GpuLost:
                continue
            values = [field.get("value") for field in fields.values() if isinstance(field, dict)]
            whole = [value for value in values if isinstance(value, int)]
            if len(whole) == len(NVLINK_TX_RX):
                counted[address] = sum(whole)
        found.append(TrafficLook(clock(), counted))

    thread = threading.Thread(target=work, name="traffic of jobs", daemon=True)
    thread.start()
    thread.join(deadline)
    return found[0] if found else None


def traffic_delta(first: TrafficLook | None, second: TrafficLook | None) -> CarriedTraffic | None:
    """What was carried between two looks; a counter that went back is left out."""
    if first is None or second is None or second.at <= first.at:
        return None
    carried = {
        address: (now - first.nvlink_kib[address]) * KIB
        for address, now in second.nvlink_kib.items()
        if address in first.nvlink_kib and now >= first.nvlink_kib[address]
    }
    return CarriedTraffic(second.at - first.at, carried) if carried else None
