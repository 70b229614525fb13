"""Samples and their statistics."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

RESTLESS_SPREAD = 0.03
"""If samples of a copy engine spread wider than this, something else uses it."""
LOW_FRACTION = 0.92
"""A pair below this part of the median of its kind is measured again."""


@dataclass(frozen=True)
class Sampled:
    """Several samples of one figure."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median, which is reported."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """(max - min) / median."""
        return (max(self.samples) - min(self.samples)) / self.median

    def fields(self) -> "dict[str, Any]":
        """The fields of a measurement that describe its samples."""
        return {
            "value": self.median,
            "minimum": min(self.samples),
            "maximum": max(self.samples),
            "samples": self.samples,
        }

    def restless(self) -> bool:
        """Whether the samples spread more than those of an unused copy engine."""
        return self.spread > RESTLESS_SPREAD


def sample(
    measure: Callable[[], float],
    times: int,
    tell: "Callable[[tuple[float, ...]], object]" = lambda samples: None,
) -> Sampled:
    """Take samples by calling `measure`; all but the last time `tell` gets those so far."""
    taken: tuple[float, ...] = ()
    for place in range(times):
        taken = (*taken, measure())
        if place < times - 1:
            tell(taken)
    return Sampled(taken)


def gigabytes_per_second(size_bytes: int, seconds: float) -> float:
    """10^9 bytes per second."""
    return size_bytes / seconds / 1e9


def low_ones(figures: Sequence[tuple[str, float]]) -> list[int]:
    """Positions of (kind, figure) entries below LOW_FRACTION of the median of their kind."""
    by_kind: dict[str, list[float]] = {}
    for kind, figure in figures:
        by_kind.setdefault(kind, []).append(figure)
    medians = {kind: statistics.median(values) for kind, values in by_kind.items()}
    return [
        place
        for place, (kind, figure) in enumerate(figures)
        if figure < LOW_FRACTION * medians[kind]
    ]


def warm(work: Callable[[], object], seconds: float) -> None:
    """Repeat the work for some seconds, because links and clocks take 0.2 to 0.5 s to wake."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        work()


def verdict_of(right: Optional[bool]) -> Optional[str]:
    """The verdict of a comparison of copied data; None where nothing was compared."""
    return None if right is None else "verified" if right else "wrong-data"
