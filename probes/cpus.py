"""Host memory in place of GPUs: the self-test.

Same steps, same messages, no GPU: each "device" is a pair of buffers in host memory. Every message
says device kind "cpu"; its figures are those of memcpy and say nothing about any GPU.
"""

import importlib
import os
import time
from collections.abc import Sequence
from typing import Any

from .devices import StoreCheck, Versions
from .protocol import DeviceRecord


class Cpus:
    """Made-up devices in host memory."""

    kind = "cpu"
    grantor = "nobody: host memory is one"
    copy_engine = "host memcpy"
    store_engine = "host store"

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

    def free_bytes(self, index: int) -> int:
        """Free memory of the host."""
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        """A buffer of random data and an empty one for each device."""
        torch = self._torch
        for index in indices:
            data = bytearray(os.urandom(buffer_bytes))
            self._out[index] = torch.frombuffer(data, dtype=torch.uint8)
            self._into[index] = torch.zeros_like(self._out[index])

    def can_access(self, src: int, dst: int) -> bool:
        """Host memory is one."""
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

    def one_way_seconds(self, src: int, dst: int, size_bytes: int, copies: int) -> float:
        """Host clock round the copies."""
        to, source = self._into[dst][:size_bytes], self._out[src][:size_bytes]
        start = time.perf_counter()
        for _ in range(copies):
            to.copy_(source)
        return time.perf_counter() - start

    def both_ways_seconds(
        self, src: int, dst: int, size_bytes: int, copies: int
    ) -> tuple[float, float, float]:
        """One after the other: the host has no engine of its own for each direction."""
        there = self.one_way_seconds(src, dst, size_bytes, copies)
        back = self.one_way_seconds(dst, src, size_bytes, copies)
        return there, back, there + back

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
