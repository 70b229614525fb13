"""GPUs that answer as a test scripts them, for the probes that copy between them."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.probes.devices.devices import Flow, FlowTimes, StoreCheck, Versions
from gputop.probes.protocol.messages import DeviceRecord, MeasuredValue, Message
from gputop.probes.protocol.sizing import GIB

H200_GBS = 396.1


class ScriptedGpus:
    """Figures follow from a speed in GB/s for each ordered pair."""

    kind = "gpu"
    grantor = "driver"
    copy_engine = "copy engine"
    store_engine = "kernel store"
    kernel_engine = "kernel"

    def __init__(self, count: int = 3, free_bytes: int = 140 * GIB) -> None:
        self.count = count
        self.free = free_bytes
        self.no_kernels: str | None = None
        self.denied: set[tuple[int, int]] = set()
        self.broken: set[tuple[int, int]] = set()
        self.speeds: dict[tuple[int, int], list[float]] = {}
        """Speeds of a pair, for one large copy after the other; the last is for all the rest."""
        self.large_bytes = 0
        """Copies of this size are large."""
        self.kernel_speed = 370.0
        self.staged_speed = 25.0
        self.load_us = 0.7
        self.shared: list[tuple[set[tuple[int, int]], float]] = []
        """(pairs, GB/s that they have together)."""
        self.stored: list[tuple[int, int]] = []
        self.cleared: list[int] = []
        self.flows: list[tuple[Flow, ...]] = []
        self.released = 0

    def versions(self) -> Versions:
        return Versions(cuda="12.1", driver="580.1")

    def devices(self) -> tuple[DeviceRecord, ...]:
        return tuple(
            DeviceRecord(
                f"0000:0{i}:00.0", i, "NVIDIA H200", f"0000:0{i}:00.0", f"GPU-{i}", 141 * GIB
            )
            for i in range(self.count)
        )

    def open(self, indices: Sequence[int]) -> None:
        self.opened = list(indices)

    def free_bytes(self, index: int) -> int:
        return self.free

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        self.allocated = list(indices), buffer_bytes

    def release(self) -> None:
        self.released += 1

    def can_access(self, src: int, dst: int) -> bool:
        return (src, dst) not in self.denied

    def why_not_mapped(self, src: int, dst: int) -> str | None:
        return None

    def store(self, src: int, dst: int, size_bytes: int) -> StoreCheck:
        self.stored.append((src, dst))
        wrong = 77 if (src, dst) in self.broken else 0
        return StoreCheck(size_bytes, wrong, 5 if wrong else None)

    def _speed(self, flow: Flow, size_bytes: int) -> float:
        speeds = self.speeds.get((flow.src, flow.dst), [H200_GBS])
        large = size_bytes == self.large_bytes and len(speeds) > 1
        return speeds.pop(0) if large else speeds[-1]

    def _beside(self, flow: Flow, flows: Sequence[Flow], size_bytes: int) -> float:
        speed = self._speed(flow, size_bytes)
        for pairs, together in self.shared:
            beside = [flow for flow in flows if (flow.src, flow.dst) in pairs]
            if flow in beside:
                speed = min(speed, together / len(beside))
        return speed

    def flow_seconds(self, flows: Sequence[Flow], size_bytes: int, copies: int) -> FlowTimes:
        self.flows.append(tuple(flows))
        each = []
        for flow in flows:
            speed = self._beside(flow, flows, size_bytes)
            each.append(tuple(size_bytes * (1 + done) / speed / 1e9 for done in range(copies)))
        return FlowTimes(tuple(each))

    def kernel_seconds(self, flow: Flow, size_bytes: int, copies: int) -> float | None:
        if flow.reads and self.no_kernels:
            return None
        return size_bytes * copies / self.kernel_speed / 1e9

    def staged_seconds(self, src: int, dst: int, size_bytes: int) -> float:
        return size_bytes / self.staged_speed / 1e9

    def chase_seconds(self, src: int, dst: int, hops: int) -> float | None:
        return None if self.no_kernels else hops * self.load_us * 1e-6

    def clear(self, index: int) -> None:
        self.cleared.append(index)

    def copied_right(self, src: int, dst: int, size_bytes: int) -> bool | None:
        return None if self.no_kernels else (src, dst) not in self.broken


def found(said: Sequence[Message], name: str) -> dict[tuple[str, str], MeasuredValue]:
    """The last figure of a name for each pair of the scripted GPUs, by their digits."""
    return {
        (m.src[6:7], m.dst[6:7]): m for m in said if isinstance(m, MeasuredValue) and m.name == name
    }
