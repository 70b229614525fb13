"""Feeds of files and demos; the feed of this machine is in `sources.live`."""

from __future__ import annotations

import threading
import time

import msgspec

from ..model.machine import Machine
from ..model.part import PartialNode
from ..model.snapshot import NodeSnapshot
from ..sources.collect import merge, merge_machine
from ..sources.feed import LATER_SECONDS, Past
from .demos import demo

JOB_AGE_SECONDS = 5 * 3600.0 + 12 * 60
"""How long the job of a demo has been running when the demo is opened."""
EARLIER_SECONDS, EARLIER_MOST = 300.0, 150
"""How far back a demo remembers, and about how many readings of it."""


class FixedFeed:
    """A feed of one file, which never changes."""

    def __init__(self, snapshot: NodeSnapshot) -> None:
        self._snapshot = snapshot
        self._closed = threading.Event()
        self._seen = False

    def snapshot(self) -> NodeSnapshot:
        """The snapshot, always the same."""
        self._seen = True
        return self._snapshot

    def wait(self, timeout: float) -> bool:
        """Nothing new comes after the first call."""
        if not self._seen:
            return True
        self._closed.wait(timeout)
        return False

    def opened(self) -> bool:
        """Always: what there is, is there at once."""
        return True

    def close(self) -> None:
        """Wake every waiting thread."""
        self._closed.set()


class DemoFeed:
    """A reference node with moving, invented figures."""

    def __init__(self, name: str, *, interval: float = 1.0, version: str = "") -> None:
        self.name = name
        self._interval = interval
        self._version = version
        self._started = time.monotonic()
        self._began = time.time()
        self._closed = threading.Event()
        self._last_tick = -1
        self._parts: dict[str, PartialNode] = {}
        self._machine: Machine | None = None
        self._opened = False

    def snapshot(self) -> NodeSnapshot:
        """The node as of the current tick; the first time only what a first picture needs."""
        tick = int((time.monotonic() - self._started) / self._interval)
        if not self._opened:
            self._opened = True
            parts = tuple(demo.parts(demo.opening(self.name, tick)).values())
            return self._merge(parts, merge_machine(parts), tick)
        return self.at(tick)

    def at(self, tick: int) -> NodeSnapshot:
        """The node at one tick; a pure function of name and tick but for the times."""
        parse = demo.parts
        if not self._parts:
            self._parts = dict(parse(demo.raw(self.name, tick)))
        else:
            self._parts.update(parse(demo.moving(self.name, tick)))
        self._last_tick = tick
        parts = tuple(self._parts.values())
        if self._machine is None:
            self._machine = merge_machine(parts)
        return self._merge(parts, self._machine, tick)

    def earlier(self) -> Past:
        """Invented readings of the last minutes before it was opened, so that charts are full."""
        ticks = range(-int(EARLIER_SECONDS / self._interval), 0)
        made = []
        for tick in ticks[:: max(len(ticks) // EARLIER_MOST, 1)]:
            parts = demo.parts(demo.moving(self.name, tick)).values()
            readings = tuple(reading for part in parts for reading in part.gpu_readings)
            made.append((self._began + tick * self._interval, readings))
        return tuple(made)

    def _merge(self, parts: tuple[PartialNode, ...], machine: Machine, tick: int) -> NodeSnapshot:
        merged = merge(
            parts,
            taken_at=self._began + tick * self._interval,
            source=(f"demo {self.name}",),
            gputop=self._version,
            machine=machine,
        )
        return self._aged(merged)

    def _aged(self, snapshot: NodeSnapshot) -> NodeSnapshot:
        """Let the demo's job have begun a while ago, whatever day it is."""
        if not snapshot.readings.processes:
            return snapshot
        processes = tuple(
            msgspec.structs.replace(process, started_at=self._began - JOB_AGE_SECONDS)
            for process in snapshot.readings.processes
        )
        readings = msgspec.structs.replace(snapshot.readings, processes=processes)
        return msgspec.structs.replace(snapshot, readings=readings)

    def wait(self, timeout: float) -> bool:
        """Block until the next tick, or the time is over."""
        if self._opened and not self._parts:
            self._closed.wait(min(timeout, LATER_SECONDS))
            return True
        elapsed = time.monotonic() - self._started
        due = (self._last_tick + 1) * self._interval - elapsed
        self._closed.wait(max(0.0, min(timeout, due)))
        return due <= timeout

    def opened(self) -> bool:
        """Always: what there is, is there at once."""
        return True

    def close(self) -> None:
        """Wake every waiting thread."""
        self._closed.set()
