"""Host memory in place of GPUs: the self-test.

Steps and messages are the same without a GPU: each "device" is a pair of buffers in host memory.
Every message has the device kind "cpu"; its figures are those of memcpy and say nothing about GPUs.
"""

import importlib
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, Optional

from ..protocol.messages import DeviceRecord
from .devices import Flow, FlowTimes, StoreCheck, Versions


class Cpus:
    """Made-up devices in host memory."""

    kind = "cpu"
    grantor = "nobody: host memory is one"
    copy_engine = "host memcpy"
    store_engine = "host store"
    kernel_engine = "host loop"
    no_kernels: Optional[str] = None

    def __init__(self, torch: Any, count: int) -> None:
        self._torch = torch
        self._count = count
        self._out: dict[int, Any] = {}
        self._into: dict[int, Any] = {}

    def versions(self) -> Versions:
        """Software versions."""
        return Versions(torch=str(self._torch.__version__))

    def devices(self) -> tuple[DeviceRecord, ...]:
        """cpu:0, cpu:1, ..."""
        return tuple(
            DeviceRecord(key=f"cpu:{index}", torch_index=index, name="host memory (self-test)")
            for index in range(self._count)
        )

    def open(self, indices: Sequence[int]) -> None:
        """Nothing to create."""

    def free_bytes(self, index: int) -> int:
        """Free memory of the host."""
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        """Allocate a buffer of random data and an empty one for each device."""
        torch = self._torch
        for index in indices:
            data = bytearray(os.urandom(buffer_bytes))
            self._out[index] = torch.frombuffer(data, dtype=torch.uint8)
            self._into[index] = torch.zeros_like(self._out[index])

    def can_access(self, src: int, dst: int) -> bool:
        """Always granted: all devices share the host memory."""
        return True

    def store(self, src: int, dst: int, size_bytes: int) -> StoreCheck:
        """An elementwise store, then a comparison of every byte."""
        torch = self._torch
        host = torch.frombuffer(bytearray(os.urandom(size_bytes // 8 * 8)), dtype=torch.int32)
        target = ~host
        target.view(2, -1).transpose(0, 1).copy_(host.view(2, -1).transpose(0, 1).contiguous())
        differs = target.view(torch.uint8) != host.view(torch.uint8)
        wrong = int(differs.sum().item())
        first = int(differs.to(torch.uint8).argmax().item()) if wrong else None
        return StoreCheck(int(differs.numel()), wrong, first)

    def flow_seconds(self, flows: Sequence[Flow], size_bytes: int, copies: int) -> FlowTimes:
        """Time copies with the host's clock, in a thread for each flow, started together."""
        ready = threading.Barrier(len(flows))
        started: dict[int, float] = {}
        done: dict[int, list[float]] = {place: [] for place in range(len(flows))}

        def work(place: int, flow: Flow) -> None:
            to, source = flow.ends(self._into, self._out, size_bytes)
            ready.wait()
            started[place] = time.perf_counter()
            for _ in range(copies):
                to.copy_(source)
                done[place].append(time.perf_counter())

        threads = [threading.Thread(target=work, args=arguments) for arguments in enumerate(flows)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first = min(started.values())
        return FlowTimes(
            tuple(tuple(end - first for end in done[place]) for place in range(len(flows)))
        )

    def open_kernels(self, indices: Sequence[int]) -> None:
        """Nothing to compile."""

    def kernel_seconds(self, flow: Flow, size_bytes: int, copies: int) -> Optional[float]:
        """Time an elementwise operation in place of a kernel."""
        to, source = flow.ends(self._into, self._out, size_bytes)
        start = time.perf_counter()
        for _ in range(copies):
            self._torch.bitwise_or(source, 0, out=to)
        return time.perf_counter() - start

    def staged_seconds(self, src: int, dst: int, size_bytes: int) -> float:
        """Time a copy through a third buffer, in two pieces."""
        half = self._torch.empty(size_bytes // 2, dtype=self._torch.uint8)
        start = time.perf_counter()
        for place in (0, size_bytes // 2):
            piece = slice(place, place + size_bytes // 2)
            half.copy_(self._out[src][piece])
            self._into[dst][piece].copy_(half)
        return time.perf_counter() - start

    def chase_seconds(self, src: int, dst: int, hops: int) -> Optional[float]:
        """Time a Python loop through a ring of list indices."""
        ring = [(place + 1) % 16384 for place in range(16384)]
        at, start = 0, time.perf_counter()
        for _ in range(hops):
            at = ring[at]
        return time.perf_counter() - start

    def clear(self, index: int) -> None:
        """Fill with zeros."""
        self._into[index].zero_()

    def release(self) -> None:
        """Forget the buffers."""
        self._out.clear()
        self._into.clear()

    def copied_right(self, src: int, dst: int, size_bytes: int) -> bool:
        """Whether both buffers agree."""
        return bool(self._torch.equal(self._into[dst][:size_bytes], self._out[src][:size_bytes]))

    def trace_store(self, src: int, dst: int, size_bytes: int) -> list[dict[str, Any]]:
        """Host work shows in no GPU trace."""
        profiling = importlib.import_module(__package__ + ".profiling")
        seen: list[dict[str, Any]] = profiling.gpu_activities(
            self._torch, lambda: self.store(src, dst, size_bytes)
        )
        return seen
