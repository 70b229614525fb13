"""Copies between GPUs, queued on held streams and timed by their events.

A spin kernel holds the first stream until everything is queued; the other streams wait for its
start event. So no gap of queueing is counted, and what runs at once starts at once. Each flow is
timed between events of its own stream, all of them together on the first.
"""

from collections.abc import Callable, Sequence
from typing import Any, Optional

from .devices import Flow, FlowTimes
from .driver import CopyCall

_HOLD_SECONDS = 0.0015
_HOLD_TRIES = 4
_QUEUE_SECONDS_PER_FLOW = 0.00015
_QUEUE_SECONDS_PER_COPY = 0.000006
"""Estimates of what queueing costs; a hold that was too short is doubled and timed again."""
CHUNK_BYTES = 16 << 20
"""Of a staged copy: waiting for the other side costs about 10 us a chunk, under 3 % of it."""

Queue = Callable[[Flow, Any], None]


class Copies:
    """The streams of some GPUs. A buffer is a uint8 tensor."""

    def __init__(self, torch: Any, copy_call: Optional[CopyCall]) -> None:
        self._torch = torch
        self._copy_call = copy_call
        self._streams: dict[int, list[Any]] = {}
        self._cycles_per_second: dict[int, float] = {}
        self._hold_factor: dict[int, float] = {}
        self._host: list[Any] = []

    def stream(self, index: int, place: int = 0) -> Any:
        """A stream of a GPU: flows of one doer that run at once have one each."""
        streams = self._streams.setdefault(index, [])
        while len(streams) <= place:
            streams.append(self._torch.cuda.Stream(device=index))
        return streams[place]

    def drop(self) -> None:
        """Forget streams and host buffers."""
        self._streams.clear()
        self._host.clear()

    def timed(self, flows: Sequence[Flow], queue: Queue, copies: int) -> FlowTimes:
        """Time what `queue` puts on each flow's stream; `copies` is how often it queues there."""
        torch, holder = self._torch, flows[0].doer
        queueing = len(flows) * (_QUEUE_SECONDS_PER_FLOW + copies * _QUEUE_SECONDS_PER_COPY)
        hold_seconds = max(_HOLD_SECONDS, queueing)
        streams = self._streams_for(flows)
        for _ in range(_HOLD_TRIES):
            starts, ends, done = [], [], self._event()
            for place, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    starts.append(self._event())
                    ends.append(self._event())
                    if place == 0:
                        self._hold(holder, hold_seconds)
                    else:
                        stream.wait_event(starts[0])
                    starts[place].record(stream)
            for place, (flow, stream) in enumerate(zip(flows, streams)):
                with torch.cuda.stream(stream):
                    queue(flow, stream)
                    ends[place].record(stream)
            with torch.cuda.stream(streams[0]):
                for end in ends[1:]:
                    streams[0].wait_event(end)
                done.record(streams[0])
                held = not starts[0].query()
            done.synchronize()
            if held:
                break
            self._hold_factor[holder] = 2 * self._hold_factor.get(holder, 1.0)
        each = [start.elapsed_time(end) / 1000 for start, end in zip(starts, ends)]
        return FlowTimes(tuple(each), starts[0].elapsed_time(done) / 1000)

    def queue_copies(
        self, to: Any, source: Any, size_bytes: int, copies: int, stream: Any, other: Any
    ) -> None:
        """Queue copy-engine copies on the current stream; `other` is one of the other device."""
        if self._copy_call is not None:
            to_address, from_address = to.data_ptr(), source.data_ptr()
            for _ in range(copies):
                self._copy_call(to_address, from_address, size_bytes, stream.cuda_stream)
            return
        # copy_ waits for the current streams of both devices: the other's must not be the default.
        with self._torch.cuda.stream(other), self._torch.cuda.stream(stream):
            for _ in range(copies):
                to[:size_bytes].copy_(source[:size_bytes], non_blocking=True)

    def staged_seconds(self, src: int, dst: int, to: Any, source: Any, size_bytes: int) -> float:
        """Through two pinned host buffers: one is emptied while the other is filled."""
        torch = self._torch
        chunk = min(CHUNK_BYTES, size_bytes)
        if not self._host or self._host[0].numel() < chunk:
            self._host = [torch.empty(chunk, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        up, down = self.stream(src), self.stream(dst)

        def queue(flow: Flow, stream: Any) -> None:
            emptied: list[Any] = []
            for place, start in enumerate(range(0, size_bytes, chunk)):
                count = min(chunk, size_bytes - start)
                half = self._host[place % 2]
                if place >= 2:
                    up.wait_event(emptied[place - 2])
                self.queue_copies(half, source[start:], count, 1, up, up)
                filled = torch.cuda.Event()
                filled.record(up)
                with torch.cuda.stream(down):
                    down.wait_event(filled)
                    self.queue_copies(to[start:], half, count, 1, down, down)
                    emptied.append(torch.cuda.Event())
                    emptied[-1].record(down)
            up.wait_event(emptied[-1])

        chunks = -(-size_bytes // chunk)
        # A chunk costs two copies and some six calls more.
        return self.timed([Flow(src, dst)], queue, 10 * chunks).together

    def _streams_for(self, flows: Sequence[Flow]) -> list[Any]:
        used: dict[int, int] = {}
        streams = []
        for flow in flows:
            place = used.get(flow.doer, 0)
            used[flow.doer] = place + 1
            streams.append(self.stream(flow.doer, place))
        return streams

    def _hold(self, index: int, seconds: float) -> None:
        if index not in self._cycles_per_second:
            self._cycles_per_second[index] = self._calibrate()
        factor = self._hold_factor.get(index, 1.0)
        self._torch.cuda._sleep(int(self._cycles_per_second[index] * seconds * factor))

    def _calibrate(self) -> float:
        """What torch.cuda._sleep counts in one second, on the current device and stream."""
        torch, cycles = self._torch, 200_000
        torch.cuda._sleep(1000)
        start, end = self._event(), self._event()
        start.record()
        torch.cuda._sleep(cycles)
        end.record()
        end.synchronize()
        return cycles * 1000 / max(float(start.elapsed_time(end)), 0.001)

    def _event(self) -> Any:
        return self._torch.cuda.Event(enable_timing=True)
