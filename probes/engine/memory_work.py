"""Loads the memory of one device: the operations, their timing and their check.

"Driver copy" is the driver's memcpy on a stream: within one GPU the driver chooses its copy engine
or a kernel by itself, as in nvbandwidth's device_local_copy. The others are our kernels.
"""

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Optional, Protocol

from ..protocol.quantity import Quantity
from ..protocol.timing import Sampled, gigabytes_per_second, sample, warm
from .held import HeldStreams, StreamWork
from .kernels import PIECE_BYTES, Kernels
from .library import EngineError
from .memory import Memory
from .runtime import Runtime

READ_WRITTEN = "bytes read + bytes written"
_SCALE = 2.0
"""A power of two: the product is exact, however a compiler rounds, and so is the comparison."""
_WORD = 0x5A17C3E9


@dataclass(frozen=True)
class MemoryOperation:
    """An operation on whole arrays."""

    quantity: Quantity
    variant: str
    what: str
    arrays: int
    """How many arrays are read or written; the factor of their size."""
    passes: int = 1
    """How often one call goes over them."""


_COPIED = Quantity("memory_copy", "copy", counted=READ_WRITTEN, main_variant="")
_READ = Quantity("memory_read", "read", counted="bytes read")
_WRITTEN = Quantity("memory_write", "write", counted="bytes written")
_TRIAD = Quantity("memory_triad", "triad", counted=READ_WRITTEN)
_L2_READ = Quantity("l2_read", "L2 read", counted="bytes read")
QUANTITIES = (_COPIED, _READ, _WRITTEN, _TRIAD, _L2_READ)

DRIVER_COPY = MemoryOperation(_COPIED, "driver copy", "copies", 2)
KERNEL_COPY = MemoryOperation(_COPIED, "kernel copy", "copies", 2)
READ = MemoryOperation(_READ, "", "adds up", 1)
WRITE = MemoryOperation(_WRITTEN, "", "fills", 1)
TRIAD = MemoryOperation(_TRIAD, "", "adds a multiple of one array to another in", 3)
OPERATIONS = (DRIVER_COPY, KERNEL_COPY, READ, WRITE, TRIAD)
L2_READ = MemoryOperation(_L2_READ, "", "adds up what its L2 holds of", 1, passes=256)
"""In one call a launch would take as long as a pass."""
_PART_OF_L2 = 4
"""Each half of the L2 of an A100 or H100 keeps a copy of what its own multiprocessors read."""


class Arrays(Protocol):
    """Three arrays in the memory of one device, for the thread that created them."""

    copy_engine: str
    kernel_engine: str

    def seconds(self, operation: MemoryOperation, size_bytes: int, times: int) -> float:
        """Time an operation on the first bytes of each array, `times` times in a row."""

    def is_right(self, operation: MemoryOperation, size_bytes: int) -> bool:
        """Repeat the operation and check every word."""

    def close(self) -> None:
        """Free the memory."""


def measure(
    arrays: Arrays, operation: MemoryOperation, size_bytes: int, copies: int, samples: int,
    warm_seconds: float,
) -> Sampled:  # fmt: skip
    """GB/s, counted as the operation declares."""
    seconds = partial(arrays.seconds, operation, size_bytes)
    warm(lambda: seconds(2), warm_seconds)
    counted = operation.arrays * operation.passes * size_bytes * copies
    seconds(1)
    return sample(lambda: gigabytes_per_second(counted, seconds(copies)), samples)


def l2_size(runtime: Runtime, index: int) -> Optional[int]:
    """The bytes of an array that an L2 holds for every reader; None where its size is not told."""
    told = runtime.l2_bytes(index)
    if not told:
        return None
    # Whole rounds of the kernel, in which all loads of a thread are under way at once.
    size, round_bytes = told // _PART_OF_L2, Kernels.round_bytes(runtime.multiprocessors(index))
    return size // round_bytes * round_bytes or size & -PIECE_BYTES


class GpuArrays:
    """Arrays of a GPU: random float32 in two of them, results in the third."""

    copy_engine = "driver copy"
    kernel_engine = "kernel"

    def __init__(self, runtime: Runtime, kernels: Kernels, index: int, size_bytes: int) -> None:
        self._runtime = runtime
        self._kernels = kernels
        self._index = index
        self._held = HeldStreams(runtime, kernels)
        self._stream = runtime.stream(index)
        self._all: list[Memory] = []
        try:
            for size in (size_bytes, size_bytes, size_bytes, 4):
                self._all.append(runtime.allocate(index, size))
            *self._arrays, self._total = self._all
            for array in self._arrays[:2]:
                kernels.numbers(index, array, int.from_bytes(os.urandom(8), "little"))
        except EngineError:
            self.close()
            raise

    def seconds(self, operation: MemoryOperation, size_bytes: int, times: int) -> float:
        """See Arrays."""
        work = self._work(operation, size_bytes)
        return self._held.seconds([StreamWork(self._index, self._stream, work, times)])[0][-1]

    def _work(self, operation: MemoryOperation, size: int) -> Callable[[], object]:
        kernels, index, stream = self._kernels, self._index, self._stream
        a, b, c = (array.address for array in self._arrays)
        if operation is DRIVER_COPY:
            return partial(self._runtime.copy, c, a, size, stream)
        if operation is KERNEL_COPY:
            return partial(kernels.copy, index, c, a, size, stream)
        if operation in (READ, L2_READ):
            total, passes = self._total.address, operation.passes
            return partial(kernels.read, index, a, size, total, stream, passes=passes)
        if operation is WRITE:
            return partial(kernels.fill, index, c, size, _WORD, stream)
        return partial(kernels.triad, index, c, (a, b), _SCALE, size, stream)

    def is_right(self, operation: MemoryOperation, size_bytes: int) -> bool:
        """See Arrays."""
        runtime, kernels, index = self._runtime, self._kernels, self._index
        a, b, c = (array.part(0, size_bytes) for array in self._arrays)
        runtime.clear(index, c)
        runtime.clear(index, self._total)
        # Not timed: a hold that gives up has its work done twice, and a sum would be doubled.
        runtime.use(index)
        self._work(operation, size_bytes)()
        runtime.synchronize(index)
        if operation in (READ, L2_READ):
            added = int.from_bytes(runtime.read(index, self._total), "little")
            return added == kernels.sum(index, a, self._total) * operation.passes % (1 << 32)
        if operation is WRITE:
            return kernels.unlike_fill(index, c, _WORD).words == 0
        if operation is TRIAD:
            return kernels.unlike_triad(index, (c, a, b), _SCALE).words == 0
        return kernels.unlike(index, c, a).words == 0

    def close(self) -> None:
        """See Arrays; after a fault every call fails."""
        runtime, index = self._runtime, self._index
        with contextlib.suppress(EngineError):
            runtime.synchronize(index)
        for memory in self._all:
            with contextlib.suppress(EngineError):
                runtime.free(index, memory)
        with contextlib.suppress(EngineError):
            runtime.drop_stream(index, self._stream)
        self._held.close()


class CpuArrays:
    """Arrays in host memory: the self-test. memcpy and memset stand in for kernels."""

    copy_engine = kernel_engine = "host memcpy"

    def __init__(self, size_bytes: int) -> None:
        self._kept = [(ctypes.c_ubyte * size_bytes).from_buffer_copy(os.urandom(size_bytes))
                      for _ in range(3)]  # fmt: skip
        self._all = [Memory(ctypes.addressof(each), size_bytes) for each in self._kept]

    def seconds(self, operation: MemoryOperation, size_bytes: int, times: int) -> float:
        """See Arrays."""
        start = time.perf_counter()
        for _ in range(times):
            self._run(operation, size_bytes)
        return time.perf_counter() - start

    def _run(self, operation: MemoryOperation, size: int) -> None:
        a, _, c = (array.address for array in self._all)
        if operation is WRITE:
            ctypes.memset(c, _WORD & 255, size)
        else:
            ctypes.memmove(c, a, size)

    def is_right(self, operation: MemoryOperation, size_bytes: int) -> bool:
        """See Arrays."""
        a, _, c = (array.address for array in self._all)
        ctypes.memset(c, 0, size_bytes)
        self._run(operation, size_bytes)
        if operation is WRITE:
            return ctypes.string_at(c, size_bytes) == bytes([_WORD & 255]) * size_bytes
        return ctypes.string_at(c, size_bytes) == ctypes.string_at(a, size_bytes)

    def close(self) -> None:
        """See Arrays."""
        self._kept.clear()
