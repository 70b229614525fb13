"""Copies between GPUs, queued on held streams (held.py) and timed by their events."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Optional

from .devices import Flow, FlowTimes
from .driver import CopyCall
from .held import HeldStreams, StreamWork

CHUNK_BYTES = 16 << 20
"""Chunk of a copy through the host; waiting takes about 10 us a chunk, below 3 % of it."""

Queue = Callable[[Flow, Any], None]
"""Queues one piece of a flow on its stream, which is the current one."""


class Copies:
    """The streams of some GPUs. A buffer is a uint8 tensor."""

    def __init__(self, torch: Any, copy_call: Optional[CopyCall]) -> None:
        self._torch = torch
        self._copy_call = copy_call
        self._streams: dict[int, list[Any]] = {}
        self._held = HeldStreams(torch)
        self._host: list[Any] = []

    def stream(self, index: int, place: int = 0) -> Any:
        """A stream of a GPU; simultaneous flows of one device have different streams."""
        streams = self._streams.setdefault(index, [])
        while len(streams) <= place:
            streams.append(self._torch.cuda.Stream(device=index))
        return streams[place]

    def drop(self) -> None:
        """Drop streams and host buffers."""
        self._streams.clear()
        self._host.clear()

    def timed(self, flows: Sequence[Flow], queue: Queue, pieces: int) -> FlowTimes:
        """Time pieces of each flow, which `queue` puts on a stream of the acting device."""
        used: dict[int, int] = {}
        lanes = []
        for flow in flows:
            place = used.get(flow.doer, 0)
            used[flow.doer] = place + 1
            stream = self.stream(flow.doer, place)
            lanes.append(StreamWork(flow.doer, stream, partial(queue, flow, stream), pieces))
        return FlowTimes(self._held.seconds(lanes))

    def queue_copy(self, to: Any, source: Any, stream: Any, other: Any) -> None:
        """Queue one copy on the current stream; `other` is a stream of the other device."""
        if self._copy_call is not None:
            size_bytes = to.numel() * to.element_size()
            self._copy_call(to.data_ptr(), source.data_ptr(), size_bytes, stream.cuda_stream)
            return
        # copy_ waits for the current streams of both devices, so avoid the default stream.
        with self._torch.cuda.stream(other), self._torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)

    def staged_seconds(self, src: int, dst: int, to: Any, source: Any, size_bytes: int) -> float:
        """Copy through two pinned host buffers; one empties while the other fills."""
        torch = self._torch
        chunk = min(CHUNK_BYTES, size_bytes)
        if not self._host or self._host[0].numel() < chunk:
            self._host = [torch.empty(chunk, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        up, down = self.stream(src), self.stream(dst)

        def queue(flow: Flow, stream: Any) -> None:
            emptied: list[Any] = []
            for place, start in enumerate(range(0, size_bytes, chunk)):
                piece = slice(start, min(start + chunk, size_bytes))
                half = self._host[place % 2][: piece.stop - start]
                if place >= 2:
                    up.wait_event(emptied[place - 2])
                self.queue_copy(half, source[piece], up, up)
                filled = torch.cuda.Event()
                filled.record(up)
                with torch.cuda.stream(down):
                    down.wait_event(filled)
                    self.queue_copy(to[piece], half, down, down)
                    emptied.append(torch.cuda.Event())
                    emptied[-1].record(down)
            up.wait_event(emptied[-1])

        return self.timed([Flow(src, dst)], queue, 1).together
