"""Loads the memory of one device: the operations, their timing and their check.

Kernels are our own (kernels.py) if they can be compiled, else ATen's. "Driver copy" is the driver's
memcpy on a stream: within one GPU the driver chooses its copy engine or a kernel by itself.
nvbandwidth's device_local_copy and torch's copy_ do the same.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from ..protocol.quantity import Quantity
from ..protocol.timing import Sampled, gigabytes_per_second, sample, warm
from .driver import Driver
from .held import HeldStreams, StreamWork
from .kernels import Kernels

READ_WRITTEN = "bytes read + bytes written"
_CHUNK_WORDS = 16 << 20
_SCALE = 3.0
_WORD = 0x5A17C3E9


@dataclass(frozen=True)
class MemoryOperation:
    """An operation on whole arrays."""

    quantity: Quantity
    variant: str
    what: str
    arrays: int
    """How many arrays are read or written; the factor of their size."""


_COPIED = Quantity("memory_copy", "copy", counted=READ_WRITTEN, main_variant="")
_READ = Quantity("memory_read", "read", counted="bytes read")
_WRITTEN = Quantity("memory_write", "write", counted="bytes written")
_TRIAD = Quantity("memory_triad", "triad", counted=READ_WRITTEN)
QUANTITIES = (_COPIED, _READ, _WRITTEN, _TRIAD)

DRIVER_COPY = MemoryOperation(_COPIED, "driver copy", "copies", 2)
KERNEL_COPY = MemoryOperation(_COPIED, "kernel copy", "copies", 2)
READ = MemoryOperation(_READ, "", "adds up", 1)
WRITE = MemoryOperation(_WRITTEN, "", "fills", 1)
TRIAD = MemoryOperation(_TRIAD, "", "adds a multiple of one array to another in", 3)
OPERATIONS = (DRIVER_COPY, KERNEL_COPY, READ, WRITE, TRIAD)


class Arrays:
    """Three arrays in the memory of one device, for the thread that created them."""

    def __init__(
        self, torch: Any, index: int, size_bytes: int, kernels: Optional[Kernels], *, cpu: bool
    ) -> None:
        self._torch = torch
        self._index = index
        self._cpu = cpu
        self._kernels = kernels
        self._device = "cpu" if cpu else f"cuda:{index}"
        is_hip = getattr(torch.version, "hip", None) is not None
        self._call = None if cpu else Driver(is_hip).copy_call()
        self._held = HeldStreams(torch)
        self._stream = None if cpu else torch.cuda.Stream(device=index)
        words = size_bytes // 4
        self._all = [torch.empty(words, device=self._device) for _ in range(3)]
        for array in self._all[:2]:
            array.normal_()
        self._total = torch.zeros(1, dtype=torch.int32, device=self._device)
        self._wait()
        self.kernel_engine = "kernel" if kernels is not None else "ATen kernel"
        self.copy_engine = "host memcpy" if cpu else "driver copy"
        if cpu:
            self.kernel_engine = "ATen on the host"

    def measure(
        self,
        operation: MemoryOperation,
        size_bytes: int,
        copies: int,
        samples: int,
        warm_seconds: float,
    ) -> Sampled:
        """GB/s, counted as the operation declares."""
        work = self._work(operation, size_bytes)
        warm(lambda: self._seconds(work, 2), warm_seconds)
        counted = operation.arrays * size_bytes * copies
        self._seconds(work, 1)
        return sample(lambda: gigabytes_per_second(counted, self._seconds(work, copies)), samples)

    def _seconds(self, work: Callable[[], object], times: int) -> float:
        if self._cpu:
            start = time.perf_counter()
            for _ in range(times):
                work()
            return time.perf_counter() - start
        return self._held.seconds([StreamWork(self._index, self._stream, work, times)])[0][-1]

    def _work(self, operation: MemoryOperation, size_bytes: int) -> Callable[[], object]:
        torch, stream, kernels, index = self._torch, self._stream, self._kernels, self._index
        a, b, c = (array[: size_bytes // 4] for array in self._all)
        ends = c.data_ptr(), a.data_ptr()
        if operation is DRIVER_COPY:
            call = self._call
            if call is None or stream is None:
                return lambda: c.copy_(a, non_blocking=True)
            return lambda: call(*ends, size_bytes, stream.cuda_stream)
        if kernels is None:
            # A plain copy might become a memcpy, so the kernel multiplies by one.
            return {
                KERNEL_COPY: lambda: torch.mul(a, 1.0, out=c),
                READ: lambda: a.sum(),
                WRITE: lambda: c.view(torch.int32).fill_(_WORD),
                TRIAD: lambda: torch.add(a, b, alpha=_SCALE, out=c),
            }[operation]
        return {
            KERNEL_COPY: lambda: kernels.copy(index, *ends, size_bytes, stream),
            READ: lambda: kernels.read(index, ends[1], size_bytes, self._total.data_ptr(), stream),
            WRITE: lambda: kernels.fill(index, ends[0], size_bytes, _WORD, stream),
            TRIAD: lambda: kernels.triad(
                index, ends[0], ends[1], b.data_ptr(), _SCALE, size_bytes, stream
            ),
        }[operation]

    def is_right(self, operation: MemoryOperation, size_bytes: int) -> bool:
        """Repeat the operation and check every word."""
        torch = self._torch
        self._all[2].zero_()
        self._total.zero_()
        self._wait()
        work = self._work(operation, size_bytes)
        if operation is READ and self._kernels is None:
            added = sum(
                float(a.sum(dtype=torch.float64).item()) for a, _, _ in self._chunks(size_bytes)
            )
            # A float32 sum in any order is closer; a sum of half the array is sqrt(words) away.
            total: Any = work()
            return abs(float(total.item()) - added) <= 1e-6 * (size_bytes // 4) + 1
        self._seconds(work, 1)
        if operation is READ:
            words = sum(
                int(a.view(torch.int32).sum().item()) for a, _, _ in self._chunks(size_bytes)
            )
            return (int(self._total.item()) - words) % (1 << 32) == 0
        return all(self._chunk_is_right(operation, *each) for each in self._chunks(size_bytes))

    def _chunk_is_right(self, operation: MemoryOperation, a: Any, b: Any, c: Any) -> bool:
        torch = self._torch
        if operation is WRITE:
            return bool((c.view(torch.int32) == _WORD).all().item())
        if operation is TRIAD:
            # The kernel may round once where ATen rounds twice.
            return bool(torch.allclose(c, torch.add(a, b, alpha=_SCALE), rtol=1e-5, atol=1e-5))
        return bool(torch.equal(c.view(torch.int32), a.view(torch.int32)))

    def _chunks(self, size_bytes: int) -> Any:
        for start in range(0, size_bytes // 4, _CHUNK_WORDS):
            end = min(start + _CHUNK_WORDS, size_bytes // 4)
            yield tuple(array[start:end] for array in self._all)

    def _wait(self) -> None:
        if not self._cpu:
            self._torch.cuda.synchronize(self._index)

    def close(self) -> None:
        """Free the memory."""
        self._wait()
        self._all, self._total = [], None
