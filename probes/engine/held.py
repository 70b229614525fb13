"""Queues work on held streams, so that times are those of the device without launching.

A kernel holds the first stream until all work and all events are queued; then the host releases
it. The first stream of each other device waits for its start, as in nvbandwidth, and further
streams of a device wait for the first one. All times count from that first start on the device: a
stream with a late turn also records its own event late, and would seem faster than the device is. A
call that blocks until the device has done it can never be held: the hold gives up, also when it is
tried again (the host may only have been late), and is left out for such work from then on, whose
figures include launching.
"""

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .kernels import Kernels
from .library import EngineError
from .memory import Memory
from .runtime import Runtime

_LONGEST_CYCLES = 150_000_000
"""The hold gives up after so many clock cycles, some 80 ms."""
_TRIALS = 2
"""How many holds in a row may give up."""


@dataclass(frozen=True)
class StreamWork:
    """The work of one stream."""

    index: int
    """The device."""
    stream: Any
    work: Callable[[], object]
    """Queues one piece on the stream, its device being current; it must not wait."""
    times: int
    """The number of pieces, queued one after the other."""


class HeldStreams:
    """Times work on held streams; for one thread at a time."""

    def __init__(self, runtime: Runtime, kernels: Optional[Kernels]) -> None:
        """`kernels`: None where the devices have no code for the hold."""
        self._runtime = runtime
        self._kernels = kernels
        self._words: Optional[Memory] = None
        self._never: set[tuple[int, int, int]] = set()

    def close(self) -> None:
        """Give the host memory back."""
        if self._words is not None:
            with contextlib.suppress(EngineError):
                self._runtime.free_host(self._words)
            self._words = None

    def seconds(self, lanes: Sequence[StreamWork]) -> "tuple[tuple[float, ...], ...]":
        """For each lane, seconds from the first start on its device until the end of each piece.

        A single lane has only the end of its last piece.
        """
        key = lanes[0].index, lanes[-1].index, len(lanes)
        if self._kernels is not None and key not in self._never:
            for _ in range(_TRIALS):
                found, was_late = self._run(lanes, held=True)
                if not was_late:
                    return found
            self._never.add(key)
        return self._run(lanes, held=False)[0]

    def _run(
        self, lanes: Sequence[StreamWork], *, held: bool
    ) -> "tuple[tuple[tuple[float, ...], ...], bool]":
        """Queue all work and wait; seconds of each lane, and whether the hold gave up."""
        runtime = self._runtime
        marks: list[tuple[Any, list[Any]]] = []
        starts: dict[int, Any] = {}
        words = self._hold(lanes[0]) if held else None
        try:
            for lane in lanes:
                runtime.use(lane.index)
                if lane.index in starts:
                    runtime.wait(lane.stream, starts[lane.index])
                else:
                    if starts:
                        runtime.wait(lane.stream, marks[0][0])
                    starts[lane.index] = runtime.event(lane.stream)
                marks.append((starts[lane.index], []))
            for lane, (_, ends) in zip(lanes, marks):
                runtime.use(lane.index)
                for piece in range(lane.times):
                    lane.work()
                    if len(lanes) > 1 or piece == lane.times - 1:
                        ends.append(runtime.event(lane.stream))
        finally:
            if words is not None:
                words[0] = 1
        for lane, (_, ends) in zip(lanes, marks):
            runtime.use(lane.index)
            runtime.await_event(ends[-1])
        found = tuple(tuple(runtime.seconds(start, end) for end in ends) for start, ends in marks)
        for event in (*starts.values(), *(end for _, ends in marks for end in ends)):
            runtime.drop_event(event)
        return found, words is not None and words[1] != 0

    def _hold(self, lane: StreamWork) -> Any:
        """Hold a stream; returns two words: go, which the host sets, and late."""
        assert self._kernels is not None
        if self._words is None:
            self._words = self._runtime.allocate_host(lane.index, 8)
        address = self._words.address
        words = (ctypes.c_uint * 2).from_address(address)
        words[:] = [0, 0]
        self._kernels.hold(lane.index, address, _LONGEST_CYCLES, address + 4, lane.stream)
        return words


def rates(
    ends_seconds: Sequence[Sequence[float]], piece_bytes: Sequence[int]
) -> "tuple[float, ...]":
    """GB/s of each lane while all were busy; work that a lane did alone at the end is left out.

    `ends_seconds`: the result of HeldStreams.seconds, with an end for each piece if there are
    several lanes. `piece_bytes`: bytes of one piece.
    """
    until = min(ends[-1] for ends in ends_seconds)
    found = []
    for ends, size in zip(ends_seconds, piece_bytes):
        done = [end for end in ends if end <= until] or [ends[0]]
        found.append(len(done) * size / done[-1] / 1e9)
    return tuple(found)
