"""The last minutes of each GPU: utilisation, power, traffic over its links and over PCIe.

Ring buffers of a fixed size: 300 readings, 16 bytes a GPU and reading. What is older is forgotten.
"""

from __future__ import annotations

from array import array
from math import isnan, nan
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gputop.topology.model.readings import GpuReading
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.sources.feed import Past

KEPT = 300
"""Readings of each GPU; five minutes at one a second."""
SPANS = (30.0, 60.0, 120.0, 300.0)
"""Seconds that a chart covers: a longer span begins when the shorter one is full."""
LEAST_SECONDS = 0.15
"""Snapshots that follow faster hold the same readings."""
UTILISATION, LINKS, PCIE, POWER = range(4)
"""The figures kept: percent, bytes a second both ways added (NVLink or xGMI, then PCIe), watts."""


class Bins(NamedTuple):
    """Means over equal spans of time, the oldest first; None where nothing was read."""

    values: tuple[float | None, ...]
    ends: float
    """Seconds since the epoch at which the last span ends."""


class Recent:
    """What was read of each GPU lately, by PCI address; fed with every snapshot."""

    def __init__(self) -> None:
        self._times = array("d")
        self._values: dict[str, tuple[array[float], ...]] = {}
        self._next = 0
        """The place in the rings that is written next, once they are full."""
        self._binned: dict[tuple[str, int, int, float], Bins] = {}
        self._source: tuple[str, ...] = ()

    def _clear(self) -> None:
        self._times = array("d")
        self._values.clear()
        self._binned.clear()
        self._next = 0

    @property
    def newest(self) -> float | None:
        """When the newest reading was taken; None without any."""
        return self._times[self._next - 1] if self._times else None

    def add(self, snapshot: NodeSnapshot) -> None:
        """Keep the readings of a snapshot."""
        if snapshot.source != self._source:
            self._clear()
            self._source = snapshot.source
        newest = self.newest
        if newest is not None and snapshot.taken_at < newest:
            self._clear()  # the clock of the host was set back
            newest = None
        if newest is not None and snapshot.taken_at - newest < LEAST_SECONDS:
            return
        self._keep(snapshot.taken_at, snapshot.readings.gpus)

    def add_earlier(self, past: Past) -> None:
        """Put what was before all that is kept in front of it."""
        count = len(self._times)
        kept = Recent()
        for at, readings in past:
            if not count or at < self._oldest:
                kept._keep(at, readings)
        for place in ((self._next + step) % count for step in range(count)):
            at = kept._place(self._times[place])
            for address, rings in self._values.items():
                kept._write(at, address, [ring[place] for ring in rings])
        self._times, self._values, self._next = kept._times, kept._values, kept._next
        self._binned.clear()

    def _keep(self, taken_at: float, readings: Iterable[GpuReading]) -> None:
        place = self._place(taken_at)
        for reading in readings:
            figures = [nan if value is None else value for value in figures_of(reading)]
            self._write(place, reading.address, figures)

    def _write(self, place: int, address: str, figures: Sequence[float]) -> None:
        rings = self._values.get(address)
        if rings is None:
            rings = tuple(array("f", [nan] * len(self._times)) for _ in range(4))
            self._values[address] = rings
        for ring, figure in zip(rings, figures, strict=True):
            ring[place] = figure

    def _place(self, taken_at: float) -> int:
        """The place of a new reading, in which nothing is known yet."""
        if len(self._times) < KEPT:
            self._times.append(taken_at)
            place = len(self._times) - 1
        else:
            place = self._next
            self._times[place] = taken_at
            self._next = (place + 1) % KEPT
        for rings in self._values.values():
            for ring in rings:
                _put(ring, place, nan)
        return place

    def bins(self, address: str, figure: int, count: int, seconds: float) -> Bins:
        """Means over `count` spans that cover the last `seconds`.

        The spans lie on a fixed grid of time, and the one that has begun is left out unless there
        is no other: so the means change once a span, and not with every reading.
        """
        newest = self.newest
        rings = self._values.get(address)
        if newest is None or rings is None or count < 1:
            return Bins((None,) * max(count, 0), newest or 0.0)
        span = seconds / count
        last = int(newest // span) - 1
        if self._oldest >= (last + 1) * span:
            last += 1
        known = self._binned.get((address, figure, count, seconds))
        if known is not None and known.ends == (last + 1) * span and known.ends <= newest:
            return known
        sums, counts = [0.0] * count, [0] * count
        for time, value in zip(self._times, rings[figure], strict=True):
            place = int(time // span) - last + count - 1
            if 0 <= place < count and not isnan(value):
                sums[place] += value
                counts[place] += 1
        values = tuple(s / n if n else None for s, n in zip(sums, counts, strict=True))
        found = Bins(values, (last + 1) * span)
        self._binned[address, figure, count, seconds] = found
        return found

    @property
    def addresses(self) -> tuple[str, ...]:
        """The GPUs of which something is kept."""
        return tuple(self._values)

    def readings(self, address: str, figure: int) -> list[tuple[float, float]]:
        """What is kept of one figure, with the time of each reading, the newest first."""
        rings = self._values.get(address)
        count = len(self._times)
        order = [(self._next - 1 - back) % count for back in range(count)] if rings else []
        ring = rings[figure] if rings else ()
        return [(self._times[at], ring[at]) for at in order if not isnan(ring[at])]

    def mean(self, address: str, figure: int, seconds: float = 60.0) -> float | None:
        """The mean over the last seconds; None where nothing was read."""
        found = self.readings(address, figure)
        lately = [value for at, value in found if found[0][0] - at <= seconds]
        return sum(lately) / len(lately) if lately else None

    @property
    def watched_seconds(self) -> float:
        """How far back the readings go; 0 without any."""
        return self._times[self._next - 1] - self._oldest if self._times else 0.0

    @property
    def span_seconds(self) -> float:
        """How far back a chart goes: as far as the readings, in a few steps, at most 5 minutes."""
        watched = self.watched_seconds
        return next((span for span in SPANS if span >= watched), SPANS[-1])

    @property
    def _oldest(self) -> float:
        return self._times[self._next if len(self._times) == KEPT else 0]

    def most(self, figure: int) -> float:
        """The largest reading of any GPU that is kept."""
        return max(
            (value for rings in self._values.values() for value in rings[figure] if value == value),
            default=0.0,
        )


def _put(ring: array[float], place: int, value: float) -> None:
    if place < len(ring):
        ring[place] = value
    else:
        ring.append(value)


def figures_of(reading: GpuReading) -> tuple[float | None, ...]:
    """What is kept of a reading: utilisation, bytes a second over links and over PCIe, power."""
    return (
        reading.utilization_percent,
        _both(
            reading.nvlink_tx_bytes_per_second
            if reading.xgmi_tx_bytes_per_second is None
            else reading.xgmi_tx_bytes_per_second,
            reading.nvlink_rx_bytes_per_second
            if reading.xgmi_rx_bytes_per_second is None
            else reading.xgmi_rx_bytes_per_second,
        ),
        _both(reading.pcie_tx_bytes_per_second, reading.pcie_rx_bytes_per_second),
        reading.power_watts,
    )


def _both(sent: float | None, received: float | None) -> float | None:
    return None if sent is None and received is None else (sent or 0.0) + (received or 0.0)
