"""Queues work on held streams, so that times are those of the device without launching.

A spin kernel holds the first stream until all work and all events are queued. The first stream of
each other device waits for its start, as in nvbandwidth, and further streams of a device wait for
the first one. All times count from that first start on the device: a stream with a late turn also
records its own event late, and would seem faster than the device is. If the work was not queued in
time, the hold doubles. If no hold is long enough (a call that blocks until the device has done it),
the figure includes launching.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_HOLD_SECONDS = 0.0015
_LONGEST_HOLD = 32
"""Limit of the hold, as a multiple of the first; a blocking call never fits into a hold."""
_TRIAL_CYCLES = 200_000


@dataclass(frozen=True)
class StreamWork:
    """The work of one stream."""

    index: int
    """The index of the device in torch."""
    stream: Any
    work: Callable[[], object]
    """Queues one piece on the current stream; it must not wait."""
    times: int
    """The number of pieces, queued one after the other."""


@dataclass
class _Hold:
    """How long the streams of a device are held, as arguments of torch.cuda._sleep."""

    first: int
    cycles: int
    most: int


class HeldStreams:
    """Times work on held streams; for one thread at a time."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._holds: dict[tuple[int, int], _Hold] = {}

    def seconds(self, lanes: Sequence[StreamWork]) -> "tuple[tuple[float, ...], ...]":
        """For each lane, seconds from the first start on its device until the end of each piece.

        A single lane has only the end of its last piece.
        """
        key = lanes[0].index, len(lanes)
        if key not in self._holds:
            cycles = self._cycles_for_hold(lanes[0])
            self._holds[key] = _Hold(cycles, cycles, cycles * _LONGEST_HOLD)
        hold = self._holds[key]
        marks, held = self._queue(lanes, hold.cycles)
        while not held and 2 * hold.cycles <= hold.most:
            hold.cycles *= 2
            marks, held = self._queue(lanes, hold.cycles)
        if not held:
            hold.cycles = hold.most = hold.first  # no hold was long enough, and none will be
        return tuple(
            tuple(float(start.elapsed_time(end)) / 1000 for end in ends) for start, ends in marks
        )

    def _queue(
        self, lanes: Sequence[StreamWork], cycles: int
    ) -> "tuple[list[tuple[Any, list[Any]]], bool]":
        """Queue all work and wait; returns events of each lane, and whether the hold sufficed."""
        torch = self._torch
        marks: list[tuple[Any, list[Any]]] = []
        starts: dict[int, Any] = {}
        for lane in lanes:
            with torch.cuda.device(lane.index), torch.cuda.stream(lane.stream):
                if lane.index in starts:
                    lane.stream.wait_event(starts[lane.index])
                else:
                    if starts:
                        lane.stream.wait_event(marks[0][0])
                    else:
                        torch.cuda._sleep(cycles)
                    starts[lane.index] = self._event()
                    starts[lane.index].record(lane.stream)
            marks.append((starts[lane.index], []))
        for lane, (_, ends) in zip(lanes, marks):
            with torch.cuda.device(lane.index), torch.cuda.stream(lane.stream):
                for piece in range(lane.times):
                    lane.work()
                    if len(lanes) > 1 or piece == lane.times - 1:
                        ends.append(self._event())
                        ends[-1].record(lane.stream)
        held = not marks[0][0].query()
        for _, ends in marks:
            ends[-1].synchronize()
        return marks, held

    def _cycles_for_hold(self, lane: StreamWork) -> int:
        """Argument of torch.cuda._sleep that holds a stream for _HOLD_SECONDS."""
        torch = self._torch
        with torch.cuda.device(lane.index), torch.cuda.stream(lane.stream):
            torch.cuda._sleep(1000)
            start, end = self._event(), self._event()
            start.record(lane.stream)
            torch.cuda._sleep(_TRIAL_CYCLES)
            end.record(lane.stream)
            end.synchronize()
        return int(_TRIAL_CYCLES * _HOLD_SECONDS * 1000 / max(start.elapsed_time(end), 0.001))

    def _event(self) -> Any:
        return self._torch.cuda.Event(enable_timing=True)


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
