"""amdsmi, what moves: load, memory, power, heat, clocks, throttling, traffic, errors, processes.

The raw answer is laid out as that of `amdsmi`. A device holds besides "residencies", the counters
of `amdsmi_get_gpu_metrics_info` that say how long something held the clocks down, and "xgmi_kb",
its byte counters by link, each as {"seconds": s, name: [before, now]} between two readings; and
"ecc", {block: answer of amdsmi_get_gpu_ecc_count}.

`amdsmi_get_violation_status` takes two samples 100 ms apart inside the library, for every GPU:
it is asked only by a single reading, a live session compares the counters itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ...model.part import PartialNode, Raw
from ...model.source import Source
from .handles import AmdsmiDevice, AmdsmiDevices
from .library import AmdsmiLibrary, open_library, refused
from .words import ECC_BLOCKS, RESIDENCIES, XGMI_COUNTERS

_METRICS = "amdsmi_get_gpu_metrics_info"
_VIOLATIONS = "amdsmi_get_violation_status"
_EACH_TIME = (
    (_METRICS,),
    ("amdsmi_get_gpu_activity",),
    ("amdsmi_get_power_info",),
    ("amdsmi_get_gpu_memory_usage", "AmdSmiMemoryType.VRAM"),
    ("amdsmi_get_temp_metric", "AmdSmiTemperatureType.HOTSPOT", "AmdSmiTemperatureMetric.CURRENT"),
    ("amdsmi_get_temp_metric", "AmdSmiTemperatureType.EDGE", "AmdSmiTemperatureMetric.CURRENT"),
    ("amdsmi_get_temp_metric", "AmdSmiTemperatureType.VRAM", "AmdSmiTemperatureMetric.CURRENT"),
    ("amdsmi_get_clock_info", "AmdSmiClkType.GFX"),
    ("amdsmi_get_clock_info", "AmdSmiClkType.MEM"),
    ("amdsmi_get_clock_info", "AmdSmiClkType.VCLK0"),
    ("amdsmi_get_gpu_process_list",),
)
_SLOWLY = (
    ("amdsmi_get_gpu_memory_total", "AmdSmiMemoryType.VRAM"),
    ("amdsmi_get_pcie_info",),
    ("amdsmi_get_gpu_pci_replay_counter",),
    ("amdsmi_get_gpu_total_ecc_count",),
    ("amdsmi_get_gpu_ecc_enabled",),
    ("amdsmi_get_gpu_bad_page_info",),
    ("amdsmi_get_gpu_xgmi_link_status",),
    ("amdsmi_get_link_metrics",),
)
SLOW_EVERY = 10
"""Of so many readings one asks a GPU for all; each GPU has its own turn."""
_FIRST_READING = {"error": "needs a second reading"}


class AmdsmiLastReading:
    """What is kept of one GPU between two readings."""

    def __init__(self) -> None:
        self.when: float | None = None
        self.counters: dict[str, Raw] = {}
        self.unsupported: set[tuple[str, ...]] = set()


class AmdsmiReadingsReader:
    """Asks amdsmi once per call; keeps the counters of the reading before."""

    thorough = False
    """Set for a single reading that has to hold everything, whatever it costs."""

    def __init__(
        self,
        start: Callable[[], AmdsmiLibrary] = open_library,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._devices = AmdsmiDevices(start)
        self._moving: dict[AmdsmiDevice, AmdsmiLastReading] = {}
        self._clock = clock
        self._reads = 0

    def __call__(self) -> Raw:
        """Ask once. Raises SourceAbsent, or RuntimeError when amdsmi stops listing GPUs."""
        library, devices = self._devices.current()
        self._moving = {
            device: self._moving.get(device) or AmdsmiLastReading() for device in devices
        }
        for place, device in enumerate(devices):
            if not device.lasting or (self._reads + place) % SLOW_EVERY == 0:
                device.lasting = library.ask_all(device.handle, _SLOWLY) | {
                    "ecc": _ecc(library, device)
                }
            device.answers = self._fast(library, device)
        self._reads += 1
        return {"devices": [device.raw() for device in devices]}

    def _fast(self, library: AmdsmiLibrary, device: AmdsmiDevice) -> dict[str, Raw]:
        moving = self._moving[device]
        answers = library.ask_all(device.handle, _EACH_TIME)
        if self.thorough:
            answers |= library.ask_all(device.handle, ((_VIOLATIONS,),))
        now, before = self._clock(), moving.when
        metrics = answers[_METRICS]
        counters = metrics if isinstance(metrics, dict) and not refused(metrics) else {}
        seconds = None if before is None else now - before
        for name, wanted in (("residencies", RESIDENCIES), ("xgmi_kb", XGMI_COUNTERS)):
            answers[name] = _FIRST_READING
            if seconds is not None:
                answers[name] = {"seconds": seconds} | {
                    key: [moving.counters.get(key), counters.get(key)] for key in wanted
                }
        moving.when = now
        moving.counters = {key: counters.get(key) for key in (*RESIDENCIES, *XGMI_COUNTERS)}
        return answers


def _ecc(library: AmdsmiLibrary, device: AmdsmiDevice) -> dict[str, Raw]:
    """Count errors block by block; a block that the driver does not count says so."""
    name = "amdsmi_get_gpu_ecc_count"
    return {
        block: library.ask(name, device.handle, f"AmdSmiGpuBlock.{block}") for block in ECC_BLOCKS
    }


def parse(raw: Raw) -> PartialNode:
    """Turn an answer into a part, by what a node without AMD's GPUs has no use for."""
    from .parse_readings import parse as understand

    return understand(raw)


SOURCE = Source(
    id="amdsmi_readings",
    interval_seconds=1.0,
    deadline_seconds=5.0,
    reader=AmdsmiReadingsReader,
    parse=parse,
)
