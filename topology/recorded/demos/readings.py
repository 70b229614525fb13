"""A demo's moving figures: a training-like load, smooth and repeatable.

Every figure is a pure function of the GPU's number and the tick (about a second): slow waves
around a level that a busy GPU of the model would show, and rest for the idle ones.
"""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any

from ...sources.nvidia import recovery
from ...wiring.wires import NVLINK_PAYLOAD_GBS
from .nvml import HIDDEN_MIB, NOT_SUPPORTED, pci_info
from .pci_tree import Function
from .shape import DemoShape
from .work import work_of

PCIE_SECONDS = 0.025
"""How long the reader watches the PCIe byte counters."""
BASE_KIB = 10**12
"""Values of the NVLink counters before the demo starts."""
FIRST_PID = 41000
_NVLINK_SHARE = 0.55
"""Share of the payload rate that the load uses, on average."""
_GENERATION = {2: 2, 4: 3, 5: 3, 6: 4, 7: 5}
"""NVML's number of an NVLink version -> generation."""
_ASKS_SINCE = 565
"""Major version of the first driver that says what it asks for to clear a fault."""
_IDLE = 0x1
_POWER_CAP = 0x4


def readings(shape: DemoShape, gpus: tuple[Function, ...], tick: int) -> dict[str, Any]:
    """What the reader of `nvml_readings` would find at a tick."""
    devices = [Load(shape, gpu, tick).answers() for gpu in gpus]
    return {"demo": True, "devices": devices}


def busy(shape: DemoShape, gpu: Function) -> bool:
    """Whether a GPU of a demo has work."""
    return gpu.number not in shape.idle


class Wave:
    """A level that swings slowly: its value at a tick, and its sum up to then."""

    def __init__(self, level: float, swing: float, period: float, phase: float) -> None:
        self.level, self.swing, self.phase = level, swing, phase
        self.pace = 2 * pi / period

    def at(self, tick: float) -> float:
        """The value at a tick."""
        return self.level * (1 + self.swing * sin(self.pace * tick + self.phase))

    def until(self, tick: float) -> float:
        """The integral from tick 0."""
        swung = (cos(self.phase) - cos(self.pace * tick + self.phase)) / self.pace
        return self.level * (tick + self.swing * swung)


class Load:
    """The figures of one GPU at one tick."""

    def __init__(self, shape: DemoShape, gpu: Function, tick: int) -> None:
        self.shape, self.gpu, self.tick = shape, gpu, tick
        self.model = shape.gpu
        self.busy = busy(shape, gpu)
        self.work = work_of(shape, gpu.number).value
        self.phase = 0.7 * gpu.number

    def wave(self, level: float, swing: float, period: float) -> Wave:
        """A level that swings in this GPU's own phase."""
        return Wave(level, swing * self.work.swing, period, self.phase)

    def power_watts(self) -> float:
        """The power drawn; a busy GPU swings below its limit and touches it now and then."""
        model = self.model
        if not self.busy:
            return self.wave(model.power_idle_watts, 0.01, 23).at(self.tick)
        return min(
            model.power_watts,
            self.wave(self.work.power * model.power_watts, 0.11, 29).at(self.tick),
        )

    def answers(self) -> dict[str, Any]:
        """The answers under NVML's names, in its units."""
        model, watts = self.model, self.power_watts()
        load = watts / model.power_watts if self.busy else 0.0
        total = model.memory_bytes
        used = int(total * 0.86) if self.busy else HIDDEN_MIB * 2**20
        clock = model.clock_idle_mhz
        if self.busy:
            clock = int(model.clock_graphics_mhz * (0.99 - 0.12 * max(0.0, load - 0.85) / 0.15))
        capped = _POWER_CAP if load > 0.99 else 0
        # The PCIe link of an idle card slows down; boards with NVLink or xGMI keep theirs up.
        asleep = not (self.busy or self.shape.nvlink or self.shape.xgmi)
        fault = self.shape.fault_of(self.gpu.number)
        return {
            "index": self.gpu.number,
            "nvmlDeviceGetPciInfo": pci_info(self.gpu),
            "nvmlDeviceGetUtilizationRates": {
                "gpu": round(min(100, self.wave(self.work.utilization, 0.05, 37).at(self.tick))),
                "memory": round(self.wave(self.work.memory, 0.2, 31).at(self.tick)),
            },
            "nvmlDeviceGetPerformanceState": 8 if asleep else 0,
            "nvmlDeviceGetCurrPcieLinkGeneration": 1 if asleep else model.pcie_gen,
            "nvmlDeviceGetCurrPcieLinkWidth": (fault.width if fault else None) or 16,
            "nvmlDeviceGetMemoryInfo": {"total": total, "free": total - used, "used": used},
            "nvmlDeviceGetBAR1MemoryInfo": {
                "bar1Total": model.bar1_bytes,
                "bar1Free": model.bar1_bytes - 2**20,
                "bar1Used": 2**20,
            },
            "temp": round(33 + self.wave(34 * load, 0.03, 61).at(self.tick)),
            **dict.fromkeys(("clock0", "clock1"), clock),
            "clock2": model.clock_memory_mhz if not asleep else 405,
            "clock3": int(model.clock_video_mhz * clock / model.clock_graphics_mhz),
            "nvmlDeviceGetCurrentClocksEventReasons": capped if self.busy else _IDLE,
            "nvmlDeviceGetComputeRunningProcesses": self._processes(used),
            "fields": {
                "NVML_FI_DEV_POWER_INSTANT": {"value": round(watts * 1000)},
                "NVML_FI_DEV_MEMORY_TEMP": {"value": round(38 + 38 * load)},
                "NVML_FI_DEV_PCIE_REPLAY_COUNTER": {"value": 0},
            },
            "recovery_fields": {recovery.FIELD: self._recovery()},
            "nvlink_counters": self._nvlink(),
            "pcie_counters": self._pcie(),
            "nvmlDeviceGetRemappedRows": [0, 0, 0, 0],
            "nvmlDeviceGetRetiredPagesPendingStatus": NOT_SUPPORTED,
            **dict.fromkeys(("ecc00", "ecc01", "ecc10", "ecc11"), 0),
            **dict.fromkeys(("retired0", "retired1"), NOT_SUPPORTED),
            "links": [],
        }

    def _recovery(self) -> dict[str, int]:
        knows = int(self.shape.driver.partition(".")[0]) >= _ASKS_SINCE
        return {"value": 0} if knows else {"ret": 3}

    def _processes(self, used: int) -> list[dict[str, Any]]:
        if not self.busy:
            return []
        return [{"pid": FIRST_PID + self.gpu.number, "usedGpuMemory": used - HIDDEN_MIB * 2**20}]

    def links(self) -> int:
        """Count the NVLinks that are up."""
        nvlink = self.shape.nvlink
        if nvlink is None:
            return 0
        fault = self.shape.fault_of(self.gpu.number)
        down = len(fault.links_down) if fault else 0
        mesh = nvlink.mesh[self.gpu.number] if nvlink.mesh else ()
        return sum(nvlink.per_switch) + sum(mesh) - down

    def _nvlink(self) -> dict[str, Any]:
        nvlink = self.shape.nvlink
        if nvlink is None:
            return NOT_SUPPORTED
        each = NVLINK_PAYLOAD_GBS[_GENERATION[nvlink.version]]
        level = self.links() * each * _NVLINK_SHARE * self.work.links * 1e9 / 1024
        sent, received = self.wave(level, 0.3, 19), self.wave(level, 0.3, 21)
        return {
            "seconds": 1.0,
            "tx_kib": [BASE_KIB + round(sent.until(self.tick + step)) for step in (0, 1)],
            "rx_kib": [BASE_KIB + round(received.until(self.tick + step)) for step in (0, 1)],
        }

    def host_level(self) -> float:
        """Bytes a second over PCIe, one way, on average."""
        lanes = (fault.width if (fault := self.shape.fault_of(self.gpu.number)) else None) or 16
        return lanes * 2**self.model.pcie_gen * 0.4e7 * self.work.host if self.busy else 2e4

    def _pcie(self) -> dict[str, Any]:
        level = self.host_level()
        counts = [
            round(self.wave(level, 0.5, period).at(self.tick) * PCIE_SECONDS) for period in (13, 17)
        ]
        return {"seconds": PCIE_SECONDS, "tx_bytes": [0, counts[0]], "rx_bytes": [0, counts[1]]}
