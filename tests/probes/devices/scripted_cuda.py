"""A torch.cuda whose streams run on a clock of the test, so that what is queued can be timed."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch


class Clock:
    """The host's time, which goes on with every call it makes."""

    def __init__(self, call_seconds: float = 2e-6) -> None:
        self.now = 0.0
        self.call_seconds = call_seconds

    def call(self) -> None:
        self.now += self.call_seconds


class ScriptedStream:
    """Work one after the other."""

    handles = itertools.count(1000)
    by_handle: dict[int, ScriptedStream] = {}  # noqa: RUF012

    def __init__(self, clock: Clock, device: int) -> None:
        self.clock = clock
        self.device = device
        self.free_at = 0.0
        self.late_seconds = 0.0
        """How long after what it waits for it goes on."""
        self.cuda_stream = next(self.handles)
        self.by_handle[self.cuda_stream] = self

    def run(self, seconds: float) -> None:
        self.clock.call()
        self.free_at = max(self.free_at, self.clock.now) + seconds

    def wait_event(self, event: Event) -> None:
        self.clock.call()
        assert event.at is not None, "waits for an event that was never recorded"
        self.free_at = max(self.free_at, event.at + self.late_seconds)


class Event:
    """When a stream came by."""

    def __init__(self, cuda: ScriptedCuda) -> None:
        self.cuda = cuda
        self.at: float | None = None
        self.device: int | None = None

    def record(self, stream: ScriptedStream | None = None) -> None:
        stream = stream or self.cuda.current
        assert stream.device == self.cuda.current.device, "recorded on another device"
        stream.run(0.0)
        self.at, self.device = stream.free_at, stream.device

    def query(self) -> bool:
        assert self.at is not None
        return self.at <= self.cuda.clock.now

    def synchronize(self) -> None:
        assert self.at is not None
        self.cuda.clock.now = max(self.cuda.clock.now, self.at)

    def elapsed_time(self, end: Event) -> float:
        assert self.at is not None
        assert end.at is not None
        assert self.device == end.device, "events of two devices have two clocks"
        return 1000 * (end.at - self.at)


class ScriptedCuda:
    """torch.cuda, as far as copies need it."""

    def __init__(self, clock: Clock, devices: int = 2) -> None:
        self.clock = clock
        self.devices = devices
        self.current = ScriptedStream(clock, 0)
        self.slept: list[float] = []
        self.emptied = 0

    def Stream(self, device: int) -> ScriptedStream:  # noqa: N802
        return ScriptedStream(self.clock, device)

    def Event(self, enable_timing: bool = False) -> Event:  # noqa: N802
        return Event(self)

    @contextmanager
    def stream(self, stream: ScriptedStream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextmanager
    def device(self, index: int) -> Iterator[None]:
        yield

    def _sleep(self, cycles: int) -> None:
        self.slept.append(cycles / 1e9)
        self.current.run(cycles / 1e9)

    def synchronize(self, index: int | None = None) -> None:
        for stream in ScriptedStream.by_handle.values():
            if stream.clock is self.clock:
                self.clock.now = max(self.clock.now, stream.free_at)

    def init(self) -> None: ...

    def empty_cache(self) -> None:
        self.emptied += 1

    def mem_get_info(self, index: int) -> tuple[int, int]:
        return 100 << 30, 141 << 30

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(
            major=9, minor=0, multi_processor_count=2, name="Told GPU", total_memory=141 << 30
        )


class ScriptedTorch:
    """torch with scripted GPUs: their tensors lie in host memory."""

    def __init__(self, cuda: ScriptedCuda) -> None:
        self.cuda = cuda
        self.version = SimpleNamespace(hip=None, cuda="12.8")
        self._C = SimpleNamespace()
        for name in ("int32", "int64", "uint8", "zeros_like", "__version__", "__file__"):
            setattr(self, name, getattr(torch, name))

    def empty(self, *size: Any, device: str = "", pin_memory: bool = False, **more: Any) -> Any:
        return torch.empty(*size, **more)

    def zeros(self, *size: Any, device: str = "", **more: Any) -> Any:
        return torch.zeros(*size, **more)

    def arange(self, *bounds: Any, device: str = "", **more: Any) -> Any:
        return torch.arange(*bounds, **more)

    def Generator(self, device: str) -> Any:  # noqa: N802
        return torch.Generator()


def copy_call(bytes_per_second: float) -> Any:
    """cuMemcpyAsync at a given speed; the bytes arrive at once."""

    def copy(to: int, source: int, count: int, stream: int) -> None:
        ctypes.memmove(to, source, count)
        ScriptedStream.by_handle[stream].run(count / bytes_per_second)

    return copy
