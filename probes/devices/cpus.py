"""Host memory in place of GPUs: the self-test.

Steps and messages are the same without a GPU: each "device" is a pair of buffers in host memory.
Every message has the device kind "cpu"; its figures are those of memcpy and say nothing about GPUs.
"""

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, Optional

from ..engine.memory import Memory
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

    def __init__(self, count: int, torch: Optional[str] = None) -> None:
        """`torch`: the version of the torch that computes on them, if one does."""
        self._count = count
        self._torch = torch
        self._held: list[Any] = []
        self._out: dict[int, Memory] = {}
        self._into: dict[int, Memory] = {}

    def versions(self) -> Versions:
        """Software versions."""
        return Versions(torch=self._torch)

    def devices(self) -> "tuple[DeviceRecord, ...]":
        """cpu:0, cpu:1, ..."""
        return tuple(
            DeviceRecord(key=f"cpu:{index}", index=index, name="host memory (self-test)")
            for index in range(self._count)
        )

    def open(self, indices: Sequence[int]) -> None:
        """Nothing to create."""

    def free_bytes(self, index: int) -> int:
        """Free memory of the host."""
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def _memory(self, content: bytes) -> Memory:
        self._held.append((ctypes.c_ubyte * len(content)).from_buffer_copy(content))
        return Memory(ctypes.addressof(self._held[-1]), len(content))

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        """Allocate a buffer of random data and an empty one for each device."""
        for index in indices:
            self._out[index] = self._memory(os.urandom(buffer_bytes))
            self._into[index] = self._memory(bytes(buffer_bytes))

    def release(self) -> None:
        """Forget the buffers."""
        for kept in (self._out, self._into):
            kept.clear()
        self._held.clear()

    def can_access(self, src: int, dst: int) -> bool:
        """Always granted: all devices share the host memory."""
        return True

    def why_not_mapped(self, src: int, dst: int) -> Optional[str]:
        """Nothing has to be mapped."""
        return None

    def store(self, src: int, dst: int, size_bytes: int) -> StoreCheck:
        """A store over the complement, then a comparison of every byte."""
        expected = os.urandom(size_bytes)
        target = bytearray(byte ^ 255 for byte in expected)
        target[:] = expected
        wrong = [place for place in range(size_bytes) if target[place] != expected[place]]
        return StoreCheck(size_bytes, len(wrong), wrong[0] if wrong else None)

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
                ctypes.memmove(to.address, source.address, size_bytes)
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

    def kernel_seconds(self, flow: Flow, size_bytes: int, copies: int) -> Optional[float]:
        """Time a second memcpy in place of a kernel."""
        return self.flow_seconds([flow], size_bytes, copies).together

    def staged_seconds(self, src: int, dst: int, size_bytes: int) -> float:
        """Time a copy through a third buffer, in two pieces."""
        half = size_bytes // 2
        between = self._memory(bytes(half))
        start = time.perf_counter()
        for place in (0, half):
            ctypes.memmove(between.address, self._out[src].address + place, half)
            ctypes.memmove(self._into[dst].address + place, between.address, half)
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
        ctypes.memset(self._into[index].address, 0, self._into[index].size_bytes)

    def copied_right(self, src: int, dst: int, size_bytes: int) -> Optional[bool]:
        """Whether both buffers agree."""
        ends = self._into[dst].address, self._out[src].address
        came, sent = (ctypes.string_at(address, size_bytes) for address in ends)
        return came == sent
