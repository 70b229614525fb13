"""Times copies between host memory and devices: copy engines, or memcpy in the self-test."""

import ctypes
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .driver import Driver, driver_library
from .held import HeldStreams, StreamWork
from .host_memory import HostBuffer

SCRATCH_BYTES = 256 << 20
"""Bytes of a device that are written or compared at a time."""
_CHUNK_WORDS = 8 << 20
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)


@dataclass(frozen=True)
class Copy:
    """One copy of a device: its direction and its two uint8 tensors of equal length."""

    index: int
    to_device: bool
    host: Any
    device: Any


class Copier(Protocol):
    """The interface for GPUs and for the self-test."""

    engine: str

    def host_buffer(self, index: int, kind: str, size_bytes: int) -> HostBuffer:
        """Allocate host memory in the calling thread; `kind`: one of host_memory.KINDS."""

    def device_buffer(self, index: int, size_bytes: int) -> Any:
        """Allocate bytes on a device."""

    def ends(self, copies: Sequence[Copy], times: int) -> "tuple[tuple[float, ...], ...]":
        """Run each copy that many times, all at once: see HeldStreams.seconds."""

    def waited_seconds(self, copy: Copy, times: int) -> float:
        """Time a copy that keeps the host busy, by the host's clock."""

    def finish(self, index: int) -> None:
        """Wait until the device has finished."""

    def close(self) -> None:
        """Free everything on the devices."""


class GpuCopier:
    """Copies by the driver on streams of the GPU."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        is_hip = getattr(torch.version, "hip", None) is not None
        self._library = driver_library(is_hip)
        self._call = Driver(is_hip).copy_call()
        self.engine = "copy engine" if self._call else "copy engine, by torch copy_"
        self._held = HeldStreams(torch)
        self._streams: dict[tuple[int, bool], Any] = {}

    def host_buffer(self, index: int, kind: str, size_bytes: int) -> HostBuffer:
        """See Copier."""
        torch = self._torch
        with torch.cuda.device(index):
            torch.cuda.synchronize(index)  # makes the context of the GPU current in this thread
            return HostBuffer(torch, self._library, kind, size_bytes)

    def device_buffer(self, index: int, size_bytes: int) -> Any:
        """See Copier."""
        return self._torch.empty(size_bytes, dtype=self._torch.uint8, device=f"cuda:{index}")

    def ends(self, copies: Sequence[Copy], times: int) -> "tuple[tuple[float, ...], ...]":
        """See Copier."""
        return self._held.seconds([self._lane(copy, times) for copy in copies])

    def waited_seconds(self, copy: Copy, times: int) -> float:
        """See Copier."""
        torch, lane = self._torch, self._lane(copy, times)
        with torch.cuda.device(copy.index), torch.cuda.stream(lane.stream):
            lane.stream.synchronize()
            start = time.perf_counter()
            for _ in range(times):
                lane.work()
            lane.stream.synchronize()
            return time.perf_counter() - start

    def _lane(self, copy: Copy, times: int) -> StreamWork:
        call, key = self._call, (copy.index, copy.to_device)
        if key not in self._streams:
            self._streams[key] = self._torch.cuda.Stream(device=copy.index)
        stream = self._streams[key]
        to, source = (copy.device, copy.host) if copy.to_device else (copy.host, copy.device)
        if call is None:
            return StreamWork(
                copy.index, stream, lambda: to.copy_(source, non_blocking=True), times
            )
        pointers, size = (to.data_ptr(), source.data_ptr()), to.numel()
        return StreamWork(
            copy.index, stream, lambda: call(*pointers, size, stream.cuda_stream), times
        )

    def finish(self, index: int) -> None:
        """See Copier."""
        self._torch.cuda.synchronize(index)

    def close(self) -> None:
        """See Copier."""
        self._streams.clear()
        self._torch.cuda.empty_cache()


class CpuCopier:
    """memcpy between two pieces of host memory: the self-test."""

    engine = "host memcpy"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def host_buffer(self, index: int, kind: str, size_bytes: int) -> HostBuffer:
        """See Copier."""
        return HostBuffer(self._torch, None, kind, size_bytes)

    def device_buffer(self, index: int, size_bytes: int) -> Any:
        """See Copier."""
        return self._torch.zeros(size_bytes, dtype=self._torch.uint8)

    def ends(self, copies: Sequence[Copy], times: int) -> "tuple[tuple[float, ...], ...]":
        """See Copier; a thread for each."""
        found: list[list[float]] = [[] for _ in copies]
        ready = threading.Barrier(len(copies))

        def work(place: int, copy: Copy) -> None:
            to, source = (copy.device, copy.host) if copy.to_device else (copy.host, copy.device)
            pointers, size = (to.data_ptr(), source.data_ptr()), to.numel()
            ready.wait()
            start = time.perf_counter()
            for _ in range(times):
                ctypes.memmove(*pointers, size)
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

    def finish(self, index: int) -> None:
        """Nothing to wait for: memcpy returns when it is done."""

    def close(self) -> None:
        """Nothing to free."""


def open_copier(torch: Any, kind: str) -> Copier:
    """The copier for a kind of devices."""
    return CpuCopier(torch) if kind == "cpu" else GpuCopier(torch)


def comes_back(torch: Any, copier: Copier, index: int, host: Any, device: Any) -> bool:
    """Whether words from the device are the same after a copy to the host and back.

    Each word depends on its position and on this call, so that no old data can be right.
    """
    salt = secrets.randbits(62)
    for words, wanted in _chunks(torch, device, salt):
        words.copy_(wanted)
    copier.finish(index)
    copier.ends([Copy(index, False, host, device)], 1)
    device.zero_()
    copier.finish(index)
    copier.ends([Copy(index, True, host, device)], 1)
    chunks = _chunks(torch, device, salt)
    return all(bool((words == wanted).all().item()) for words, wanted in chunks)


def _chunks(torch: Any, device: Any, salt: int) -> Any:
    """Pieces of a device's bytes as 64-bit words, each with the expected words."""
    words = device.view(torch.int64)
    for start in range(0, words.numel(), _CHUNK_WORDS):
        piece = words[start : start + _CHUNK_WORDS]
        places = torch.arange(start, start + piece.numel(), dtype=torch.int64, device=device.device)
        yield piece, places.mul_(_ODD).add_(salt)
