"""The GPUs of one driver, as the probes of copies use them."""

import contextlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Optional

from ..engine.cuda import Cuda
from ..engine.held import HeldStreams, StreamWork
from ..engine.kernels import Kernels
from ..engine.library import EngineError
from ..engine.memory import Memory
from ..engine.opening import kernel_driver_version
from ..engine.runtime import Runtime
from ..protocol.messages import DeviceRecord
from ..protocol.status import DeviceKind
from .devices import Flow, FlowTimes, StoreCheck, Versions, distinct, normal_pci

_RING_BYTES = 2 << 20
"""Bytes that a pointer chase walks through, as in nvbandwidth."""
_RING_STEP_BYTES = 128
_NO_MAPPING = frozenset((217, 711))
"""No peer access, and too many peers: without a switch of NVLink a GPU maps at most eight."""
_CHUNK_BYTES = 16 << 20
"""Chunk of a copy through the host; waiting takes about 10 us a chunk, below 3 % of it."""


class Gpus:
    """GPUs that copy between each other. Indices are the driver's."""

    kind = DeviceKind.GPU
    grantor = "driver"
    copy_engine = "copy engine"
    store_engine = kernel_engine = "kernel"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.kernels: Optional[Kernels] = None
        self.no_kernels: Optional[str] = "they were not asked for"
        self._held = HeldStreams(runtime, None)
        self._streams: dict[int, list[Any]] = {}
        self._out: dict[int, Memory] = {}
        self._into: dict[int, Memory] = {}
        self._seeds: dict[int, int] = {}
        self._rings: dict[int, Memory] = {}
        self._host: list[Memory] = []
        self._joined: set[tuple[int, int]] = set()
        self._not_mapped: dict[tuple[int, int], str] = {}

    def versions(self) -> Versions:
        """Software versions; torch has no part in this."""
        cuda = self.runtime.version_text() if isinstance(self.runtime, Cuda) else None
        return Versions(cuda=cuda, driver=kernel_driver_version(is_hip=self.runtime.is_hip))

    def devices(self) -> "tuple[DeviceRecord, ...]":
        """Every device that the driver shows to this process."""
        return distinct([self._record(index) for index in range(self.runtime.count())])

    def _record(self, index: int) -> DeviceRecord:
        name, memory_bytes = "a GPU that does not answer", None
        with contextlib.suppress(EngineError):  # where it is wanted, opening it says why
            name, memory_bytes = self.runtime.name(index), self.runtime.memory_bytes(index)
        uuid = self.runtime.uuid(index)
        address = normal_pci(self.runtime.pci_address(index) or "")
        # Two partitions of one GPU share its address.
        key = uuid if uuid is not None and " MIG " in name else address
        return DeviceRecord(
            key=key or uuid or f"gpu:{index}",
            index=index,
            name=name,
            pci_address=address,
            uuid=uuid,
            memory_bytes=memory_bytes,
        )

    def open(self, indices: Sequence[int]) -> None:
        """Create the contexts of these devices and load our kernels where that is possible."""
        self.runtime.open(indices)
        kernels = Kernels(self.runtime)
        try:
            for index in indices:
                kernels.prepare(index)
        except EngineError as error:
            kernels.close()
            self.no_kernels = str(error)
            return
        self.kernels, self.no_kernels = kernels, None
        self._held = HeldStreams(self.runtime, kernels)

    def free_bytes(self, index: int) -> int:
        """Free memory of one opened device."""
        return self.runtime.free_bytes(index)

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        """Buffers of whole 64-bit words; data that differs from device to device."""
        for index in indices:
            self._out[index] = self.runtime.allocate(index, buffer_bytes)
            self._into[index] = self.runtime.allocate(index, buffer_bytes)
            self._seeds[index] = _seed()
            if self.kernels is not None:
                self.kernels.random(index, self._out[index], self._seeds[index])
            self.clear(index)

    def release(self) -> None:
        """Give all memory, streams and kernels back, also after an error."""
        runtime, calls = self.runtime, list[Callable[[], None]]()
        for index in self._out:
            calls.append(partial(runtime.synchronize, index))
        for index, streams in self._streams.items():
            calls += [partial(runtime.drop_stream, index, stream) for stream in streams]
        for kept in (self._out, self._into, self._rings):
            calls += [partial(runtime.free, index, memory) for index, memory in kept.items()]
        calls += [partial(runtime.free_host, memory) for memory in self._host]
        for call in calls:
            with contextlib.suppress(EngineError):  # after a fault every call of a GPU fails
                call()
        self._held.close()
        if self.kernels is not None:
            self.kernels.close()
        for each in (self._out, self._into, self._rings, self._streams):
            each.clear()
        self._host.clear()
        self.kernels = None

    def can_access(self, src: int, dst: int) -> bool:
        """Whether the driver grants it."""
        return self.runtime.can_access(src, dst)

    def why_not_mapped(self, src: int, dst: int) -> Optional[str]:
        """See Backend; EngineError where something else is wrong."""
        self._join(src, dst)
        return self._not_mapped.get((src, dst))

    def store(self, src: int, dst: int, size_bytes: int) -> StoreCheck:
        """Rung 3: a kernel of `src` stores, `dst` reads its own memory and compares every byte.

        Before the store the memory of `dst` holds the complement of what is expected, so that no
        word is right by chance or from before. The mapping must not be refused.
        """
        runtime, kernels = self.runtime, self.kernels
        if kernels is None:
            raise EngineError(f"no kernel can store: {self.no_kernels}")
        target, seed = runtime.allocate(dst, size_bytes // 8 * 8), _seed()
        try:
            self._join(src, dst)
            kernels.random(dst, target, seed, flipped=True)
            kernels.random(src, target, seed)
            unlike = kernels.unlike_random(dst, target, seed)
        finally:
            with contextlib.suppress(EngineError):  # after a fault the first error counts
                runtime.free(dst, target)
        first = 8 * unlike.first if unlike.words else None
        return StoreCheck(target.size_bytes, 8 * unlike.words, first)

    def _join(self, src: int, dst: int) -> None:
        """Map the memory of both for each other, where the driver grants it; asks it once."""
        if (src, dst) in self._joined:
            return
        for one, other in ((src, dst), (dst, src)):
            if not self.runtime.can_access(one, other):
                continue
            try:
                self.runtime.reach(one, other)
            except EngineError as error:
                if error.code not in _NO_MAPPING:
                    raise
                self._not_mapped[one, other] = str(error)
        self._joined.add((src, dst))

    def flow_seconds(self, flows: Sequence[Flow], size_bytes: int, copies: int) -> FlowTimes:
        """Time copies of the copy engine, with a held stream for each flow."""
        for flow in flows:
            self._join(flow.src, flow.dst)
        used: dict[int, int] = {}
        lanes = []
        for flow in flows:
            place = used.get(flow.doer, 0)
            used[flow.doer] = place + 1
            stream = self._stream(flow.doer, place)
            to, source = flow.ends(self._into, self._out, size_bytes)
            copy = partial(self.runtime.copy, to.address, source.address, size_bytes, stream)
            lanes.append(StreamWork(flow.doer, stream, copy, copies))
        return FlowTimes(self._held.seconds(lanes))

    def _stream(self, index: int, place: int = 0) -> Any:
        """A stream of a GPU; simultaneous flows of one device have different streams."""
        streams = self._streams.setdefault(index, [])
        while len(streams) <= place:
            streams.append(self.runtime.stream(index))
        return streams[place]

    def kernel_seconds(self, flow: Flow, size_bytes: int, copies: int) -> Optional[float]:
        """Time copies by a kernel; None without our own kernels."""
        kernels = self.kernels
        if kernels is None:
            return None
        self._join(flow.src, flow.dst)
        to, source = flow.ends(self._into, self._out, size_bytes)
        ends = to.address, source.address

        def copy(stream: Any) -> None:
            kernels.copy(flow.doer, *ends, size_bytes, stream, passes=copies)

        return self._once(flow.doer, copy)

    def _once(self, index: int, work: Callable[[Any], object]) -> float:
        """Seconds of one piece of work on a device's first stream."""
        stream = self._stream(index)
        return self._held.seconds([StreamWork(index, stream, partial(work, stream), 1)])[0][-1]

    def staged_seconds(self, src: int, dst: int, size_bytes: int) -> float:
        """Time a copy through two pinned host buffers; one empties while the other fills."""
        runtime, chunk = self.runtime, min(_CHUNK_BYTES, size_bytes)
        while len(self._host) < 2:
            self._host.append(runtime.allocate_host(src, _CHUNK_BYTES))
        up, down = self._stream(src), self._stream(dst)
        source, to = self._out[src].address, self._into[dst].address
        events: list[Any] = []

        def mark(index: int, stream: Any) -> Any:
            runtime.use(index)
            events.append(runtime.event(stream))
            return events[-1]

        def queue() -> None:
            emptied: list[Any] = []
            for place, start in enumerate(range(0, size_bytes, chunk)):
                size, half = min(chunk, size_bytes - start), self._host[place % 2].address
                runtime.use(src)
                if place >= 2:
                    runtime.wait(up, emptied[place - 2])
                runtime.copy(half, source + start, size, up)
                filled = mark(src, up)
                runtime.use(dst)
                runtime.wait(down, filled)
                runtime.copy(to + start, half, size, down)
                emptied.append(mark(dst, down))
            runtime.use(src)
            runtime.wait(up, emptied[-1])

        seconds = self._held.seconds([StreamWork(src, up, queue, 1)])[0][-1]
        for event in events:
            runtime.drop_event(event)
        return seconds

    def chase_seconds(self, src: int, dst: int, hops: int) -> Optional[float]:
        """Time one thread of `src` in a ring of 128-byte steps in memory of `dst`."""
        runtime, kernels = self.runtime, self.kernels
        if kernels is None:
            return None
        self._join(src, dst)
        if dst not in self._rings:
            self._rings[dst] = runtime.allocate(dst, _RING_BYTES)
            kernels.ring(dst, self._rings[dst], _RING_STEP_BYTES)
        ring, end = self._rings[dst].address, runtime.allocate(src, 8)
        try:
            seconds = self._once(
                src, lambda stream: kernels.chase(src, ring, hops, end.address, stream)
            )
            reached = int.from_bytes(runtime.read(src, end), "little")
        finally:
            with contextlib.suppress(EngineError):
                runtime.free(src, end)
        if reached != hops % (_RING_BYTES // _RING_STEP_BYTES) * (_RING_STEP_BYTES // 8):
            raise EngineError(f"a pointer chase through {hops} places ended at word {reached}")
        return seconds

    def clear(self, index: int) -> None:
        """Fill the incoming buffer with zeros."""
        self.runtime.clear(index, self._into[index])

    def copied_right(self, src: int, dst: int, size_bytes: int) -> "Optional[bool]":
        """Whether `dst` finds all words of `src` in its own memory; None without kernels."""
        if self.kernels is None:
            return None
        came = self._into[dst].part(0, size_bytes // 8 * 8)
        return self.kernels.unlike_random(dst, came, self._seeds[src]).words == 0


def _seed() -> int:
    return int.from_bytes(os.urandom(8), "little")
