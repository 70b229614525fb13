"""Times copies between host memory and devices: copy engines, or memcpy in the self-test."""

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional, Protocol

from .held import HeldStreams, StreamWork
from .host_memory import HostBuffer
from .kernels import Kernels
from .library import EngineError
from .memory import Memory
from .runtime import Runtime


@dataclass(frozen=True)
class Copy:
    """One copy of a device: its direction and its two pieces of memory of equal length."""

    index: int
    to_device: bool
    host: Memory
    device: Memory

    @property
    def ends(self) -> "tuple[int, int, int]":
        """Where to, where from, and how many bytes."""
        there, here = self.device.address, self.host.address
        return (there, here, self.host.size_bytes) if self.to_device else (
            here, there, self.host.size_bytes
        )  # fmt: skip


class Copier(Protocol):
    """The interface for GPUs and for the self-test."""

    engine: str

    def host_buffer(self, index: int, kind: str, size_bytes: int) -> HostBuffer:
        """Allocate host memory in the calling thread; `kind`: one of host_memory.KINDS."""

    def device_buffer(self, index: int, size_bytes: int) -> Memory:
        """Allocate bytes on a device."""

    def ends(self, copies: Sequence[Copy], times: int) -> "tuple[tuple[float, ...], ...]":
        """Run each copy that many times, all at once: see HeldStreams.seconds."""

    def waited_seconds(self, copy: Copy, times: int) -> float:
        """Time a copy that keeps the host busy, by the host's clock."""

    def comes_back(self, index: int, host: Memory, device: Memory) -> Optional[bool]:
        """Whether random words of a device are the same after a copy to the host and back.

        None where nothing can compare them.
        """

    def finish(self, index: int) -> None:
        """Wait until the device has finished."""

    def close(self) -> None:
        """Free everything on the devices."""


class GpuCopier:
    """Copies by the driver on streams of the GPU."""

    engine = "copy engine"

    def __init__(self, runtime: Runtime, kernels: Optional[Kernels]) -> None:
        self._runtime = runtime
        self._kernels = kernels
        self._held = HeldStreams(runtime, kernels)
        self._streams: dict[tuple[int, bool], Any] = {}
        self._buffers: list[tuple[int, Memory]] = []

    def host_buffer(self, index: int, kind: str, size_bytes: int) -> HostBuffer:
        """See Copier."""
        return HostBuffer(self._runtime, index, kind, size_bytes)

    def device_buffer(self, index: int, size_bytes: int) -> Memory:
        """See Copier."""
        self._buffers.append((index, self._runtime.allocate(index, size_bytes)))
        return self._buffers[-1][1]

    def ends(self, copies: Sequence[Copy], times: int) -> "tuple[tuple[float, ...], ...]":
        """See Copier."""
        return self._held.seconds([self._lane(copy, times) for copy in copies])

    def waited_seconds(self, copy: Copy, times: int) -> float:
        """See Copier."""
        lane = self._lane(copy, times)
        self._runtime.synchronize(copy.index)
        start = time.perf_counter()
        for _ in range(times):
            lane.work()
        self._runtime.synchronize(copy.index)
        return time.perf_counter() - start

    def _lane(self, copy: Copy, times: int) -> StreamWork:
        key = copy.index, copy.to_device
        if key not in self._streams:
            self._streams[key] = self._runtime.stream(copy.index)
        stream = self._streams[key]
        work = partial(self._runtime.copy, *copy.ends, stream)
        return StreamWork(copy.index, stream, work, times)

    def comes_back(self, index: int, host: Memory, device: Memory) -> Optional[bool]:
        """See Copier; the device writes the words and compares them itself."""
        if self._kernels is None:
            return None
        seed = int.from_bytes(os.urandom(8), "little")
        self._kernels.random(index, device, seed)
        self.ends([Copy(index, False, host, device)], 1)
        self._runtime.clear(index, device)
        self.ends([Copy(index, True, host, device)], 1)
        return self._kernels.unlike_random(index, device, seed).words == 0

    def finish(self, index: int) -> None:
        """See Copier."""
        self._runtime.synchronize(index)

    def close(self) -> None:
        """See Copier; after a fault every call fails."""
        for (index, _), stream in self._streams.items():
            with contextlib.suppress(EngineError):
                self._runtime.drop_stream(index, stream)
        for index, memory in self._buffers:
            with contextlib.suppress(EngineError):
                self._runtime.free(index, memory)
        self._held.close()
        self._streams.clear()
        self._buffers.clear()


class CpuCopier:
    """memcpy between two pieces of host memory: the self-test."""

    engine = "host memcpy"

    def __init__(self) -> None:
        self._devices: list[HostBuffer] = []

    def host_buffer(self, index: int, kind: str, size_bytes: int) -> HostBuffer:
        """See Copier."""
        return HostBuffer(None, index, kind, size_bytes)

    def device_buffer(self, index: int, size_bytes: int) -> Memory:
        """See Copier."""
        self._devices.append(HostBuffer(None, index, "pageable", size_bytes))
        return self._devices[-1].memory

    def ends(self, copies: Sequence[Copy], times: int) -> "tuple[tuple[float, ...], ...]":
        """See Copier; a thread for each."""
        found: list[list[float]] = [[] for _ in copies]
        ready = threading.Barrier(len(copies))

        def work(place: int, copy: Copy) -> None:
            ready.wait()
            start = time.perf_counter()
            for _ in range(times):
                ctypes.memmove(*copy.ends)
                found[place].append(time.perf_counter() - start)

        threads = [threading.Thread(target=work, args=each) for each in enumerate(copies)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return tuple(tuple(each) if len(copies) > 1 else (each[-1],) for each in found)

    def waited_seconds(self, copy: Copy, times: int) -> float:
        """See Copier."""
        return self.ends([copy], times)[0][-1]

    def comes_back(self, index: int, host: Memory, device: Memory) -> Optional[bool]:
        """See Copier."""
        sent = os.urandom(device.size_bytes)
        ctypes.memmove(device.address, sent, device.size_bytes)
        self.ends([Copy(index, False, host, device)], 1)
        ctypes.memset(device.address, 0, device.size_bytes)
        self.ends([Copy(index, True, host, device)], 1)
        return ctypes.string_at(device.address, device.size_bytes) == sent

    def finish(self, index: int) -> None:
        """Nothing to wait for: memcpy returns when it is done."""

    def close(self) -> None:
        """See Copier."""
        for buffer in self._devices:
            buffer.close()
        self._devices.clear()
