"""How long collectives of a group of ranks take, by the curve of what joins them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from ..expectation.calls.kinds import CollectiveKind, bus_share
from ..model.severity import FigureBasis

NETWORK = "the network"
"""The name of what joins nodes."""
SIZES = tuple(1 << power for power in (20, 22, 24, 26, 28, 30))
"""Message sizes at which a curve is asked for, 1 MiB to 1 GiB."""


class GroupWire(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What joins the ranks of a group, with the bus bandwidth at each size."""

    name: str
    """"NVLink", "PCIe", "the network"."""
    ranks: int
    curves: dict[CollectiveKind, tuple[tuple[int, float], ...]]
    """(size in bytes, bus bandwidth in bytes/s), from small to large; never empty."""
    latency_s: float
    """The least that any call takes."""
    basis: FigureBasis
    source: str = ""
    least: float = 1.0
    most: float = 1.0
    """How much lower and higher the bandwidth may be, where that is a range."""

    def seconds(self, collective: CollectiveKind, size: float) -> float:
        """Seconds of one call. Between two sizes of the curve, times are interpolated by logs."""
        if self.ranks < 2 or size <= 0:
            return 0.0
        return max(self.latency_s, self._interpolated(collective, size))

    def _interpolated(self, collective: CollectiveKind, size: float) -> float:
        times = self._times.get(collective) or self._times[CollectiveKind.ALL_REDUCE]
        if collective not in self._times:
            share = bus_share(collective, self.ranks)
            scale = share / bus_share(CollectiveKind.ALL_REDUCE, self.ranks)
        else:
            scale = 1.0
        sizes = [at for at, _ in times]
        place = bisect_right(sizes, size)
        if place == 0:
            first, seconds = times[0]
            fixed = min(self.latency_s, seconds)
            return scale * (fixed + (seconds - fixed) * size / first)
        if place == len(times):
            last, seconds = times[-1]
            return scale * seconds * size / last
        (low, below), (high, above) = times[place - 1], times[place]
        part = math.log(size / low) / math.log(high / low)
        return scale * math.exp(math.log(below) + part * math.log(above / below))

    @cached_property
    def _times(self) -> dict[CollectiveKind, list[tuple[int, float]]]:
        return {
            collective: [
                (size, self.latency_s + size * bus_share(collective, self.ranks) / rate)
                if len(curve) == 1
                else (size, size * bus_share(collective, self.ranks) / rate)
                for size, rate in curve
            ]
            for collective, curve in self.curves.items()
        }

    def slower(self, factor: float) -> GroupWire:
        """The same where groups share it: so many times less bandwidth for each."""
        curves = {
            collective: tuple((size, rate / factor) for size, rate in curve)
            for collective, curve in self.curves.items()
        }
        return msgspec.structs.replace(self, curves=curves)


def flat(
    name: str, ranks: int, bytes_per_s: float, latency_s: float, basis: FigureBasis, source: str
) -> GroupWire:
    """A wire of one bandwidth and a latency."""
    return GroupWire(
        name=name,
        ranks=ranks,
        curves={CollectiveKind.ALL_REDUCE: ((SIZES[-1], bytes_per_s),)},
        latency_s=latency_s,
        basis=basis,
        source=source,
    )


WireOf = Callable[[int, int], GroupWire | None]
"""(ranks, stride) -> what joins ranks 0, stride, 2 * stride, ...; None where nothing is known."""


def alone() -> GroupWire:
    """The wire of a group of one: nothing is sent."""
    return flat("", 1, math.inf, 0.0, FigureBasis.PREDICTED, "")


def words(wires: Sequence[GroupWire]) -> str:
    """The sources of some wires, each once."""
    return "; ".join(dict.fromkeys(wire.source for wire in wires if wire.source))
