"""Traffic of NVIDIA GPUs: byte counters that are slow to read, and are read in turns.

On an H200 with driver 580 every NVLink counter takes about 0.8 ms and a PCIe byte counter 0.2 ms,
all of it CPU time. So each time one of up to eight busy GPUs is asked, idle ones rarely, and a rate
is the mean over some seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ...model.part import Raw
from .devices import NvmlDevice
from .library import ALL_LINKS, NvmlLibrary
from .parse_readings import PCIE_LONGEST_SECONDS, PCIE_WINDOW_SECONDS

NVLINK_TX_RX = (
    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
)
"""KiB of payload; with the scope of all links, the sum over the links (measured on H200)."""
PCIE_TX_RX = ("NVML_FI_DEV_PCIE_COUNT_TX_BYTES", "NVML_FI_DEV_PCIE_COUNT_RX_BYTES")

_QUIET_EVERY = 5
"""How often, in reads, the traffic of an idle GPU is read."""
_EVERY_GPU_READS = (1, 3)
"""Reads that start the rates of all GPUs; the first picture does not wait for them."""
_SHARE = 8
_STEPS_SECONDS = 0.015
"""So long other questions begin within a window: one takes up to 18 ms, and must end within it."""
_MARGIN_SECONDS = 0.004
"""What reading the counters of some GPUs takes at the end of a window."""

Counters = tuple[float, list[int]]
"""The time (monotonic seconds), and the values."""


class NvmlLastReading:
    """What is kept of one GPU between two readings."""

    def __init__(self) -> None:
        self.unsupported: dict[str, Raw] = {}
        self.link_count: int | None = None
        self.links: list[Raw] = []
        self.nvlink: Counters | None = None
        self.nvlink_change: Raw = {"error": "needs a second reading"}
        self.pcie_change: Raw = {"error": "needs a second reading"}


class Traffic:
    """Keeps the rates of all GPUs up to date, a few GPUs each time."""

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._clock, self._sleep = clock, sleep
        self._reads = 0
        self._turn = 0

    def bring_up_to_date(
        self,
        library: NvmlLibrary,
        gpus: Mapping[NvmlDevice, NvmlLastReading],
        working: Sequence[NvmlDevice],
    ) -> None:
        """Read the counters of the GPUs whose turn it is."""
        due = self._due(gpus, working)
        self._reads += 1
        for device in due:
            self._nvlink(library, device, gpus[device])
        self._pcie(library, {device: gpus[device] for device in due}, iter(()))

    def read_twice(
        self,
        library: NvmlLibrary,
        gpus: Mapping[NvmlDevice, NvmlLastReading],
        steps: Iterator[None],
        links: Iterator[None],
    ) -> None:
        """Read the counters of all GPUs twice, as a single reading needs it.

        Meanwhile the rest is asked: the steps of `steps`, after which it is known which GPUs have
        NVLinks, and then those of `links`.
        """
        self._reads += 1
        self._pcie(library, gpus, steps)
        for _ in steps:
            pass
        begun = self._clock()
        for device, moving in gpus.items():
            self._nvlink(library, device, moving)
        for _ in links:
            pass
        if any(moving.nvlink is not None for moving in gpus.values()):
            self._sleep(max(0.0, begun + PCIE_WINDOW_SECONDS - self._clock()))
            for device, moving in gpus.items():
                self._nvlink(library, device, moving)

    def _due(
        self, gpus: Mapping[NvmlDevice, NvmlLastReading], working: Sequence[NvmlDevice]
    ) -> list[NvmlDevice]:
        if self._reads == 0:
            return []
        if self._reads in _EVERY_GPU_READS:
            return list(gpus)
        # A rate is read again until it is zero.
        busy = [d for d in gpus if d in working or _moved(gpus[d].nvlink_change)]
        quiet = [device for device in gpus if device not in busy]
        due: list[NvmlDevice] = []
        if busy:
            count = -(-len(busy) // _SHARE)
            due += [busy[(self._turn + step) % len(busy)] for step in range(count)]
            self._turn += count
        if quiet and self._reads % _QUIET_EVERY == 1:
            due.append(quiet[self._reads // _QUIET_EVERY % len(quiet)])
        return due

    def _pcie(
        self,
        library: NvmlLibrary,
        gpus: Mapping[NvmlDevice, NvmlLastReading],
        steps: Iterator[None],
    ) -> None:
        """Watch the byte counters for a moment: long enough to mean something, too short to
        wrap twice. Meanwhile some steps are taken; where one lasts too long it watches again.
        """  # noqa: D205
        before = self._all_pcie(library, gpus)
        if not before:
            return
        begun = min(when for when, _ in before.values())
        while self._clock() - begun < _STEPS_SECONDS and next(steps, "none") is None:
            pass
        if self._clock() - begun > PCIE_LONGEST_SECONDS - _MARGIN_SECONDS:
            before = self._all_pcie(library, gpus)
            begun = self._clock()
        left = PCIE_WINDOW_SECONDS - (self._clock() - begun)
        if left > 0:
            self._sleep(left)
        for device, counters in before.items():
            later = self._counters(library, device, gpus[device], "pcie", PCIE_TX_RX, 0)
            if later is not None:
                change = _change(counters, later, ("tx_bytes", "rx_bytes"))
                gpus[device].pcie_change = change

    def _all_pcie(
        self, library: NvmlLibrary, gpus: Mapping[NvmlDevice, NvmlLastReading]
    ) -> dict[NvmlDevice, Counters]:
        return {
            device: counters
            for device, moving in gpus.items()
            if (counters := self._counters(library, device, moving, "pcie", PCIE_TX_RX, 0))
        }

    def _nvlink(self, library: NvmlLibrary, device: NvmlDevice, moving: NvmlLastReading) -> None:
        if not moving.link_count:
            moving.nvlink_change = {"error": "no NVLink"}
            return
        counters = self._counters(library, device, moving, "nvlink", NVLINK_TX_RX, ALL_LINKS)
        last, moving.nvlink = moving.nvlink, counters
        if last is not None and counters is not None:
            moving.nvlink_change = _change(last, counters, ("tx_kib", "rx_kib"))

    def _counters(
        self,
        library: NvmlLibrary,
        device: NvmlDevice,
        moving: NvmlLastReading,
        what: str,
        names: Sequence[str],
        scope: int,
    ) -> Counters | None:
        """Two counters and when they were read; without them None, and the reason is kept."""
        refusal: Raw = moving.unsupported.get(what)
        if refusal is None:
            values = device.guarded(partial(library.fields, device.handle, names, scope=scope))
            if values is None:
                return None
            numbers = _values(values, names)
            if numbers is not None:
                return self._clock(), numbers
            refusal = moving.unsupported[what] = values[names[0]]
        setattr(moving, f"{what}_change", refusal)
        return None


def _moved(change: Raw) -> bool:
    values = change.values() if isinstance(change, dict) else ()
    return any(isinstance(value, list) and value[0] != value[1] for value in values)


def _values(fields: dict[str, Raw], names: Sequence[str]) -> list[int] | None:
    answers = [fields.get(name) for name in names]
    values = [answer.get("value") for answer in answers if isinstance(answer, dict)]
    whole = [value for value in values if isinstance(value, int)]
    return whole if len(whole) == len(names) else None


def _change(before: Counters, after: Counters, names: Sequence[str]) -> Raw:
    pairs = zip(names, before[1], after[1], strict=True)
    return {"seconds": after[0] - before[0]} | {name: [old, new] for name, old, new in pairs}
