"""Samples and what is said of them."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

RESTLESS_SPREAD = 0.03
"""A copy engine whose samples spread wider than this is being shared."""
LOW_FRACTION = 0.92
"""A pair under this part of the median of its kind is measured again before it is reported."""


@dataclass(frozen=True)
class Sampled:
    """Several figures of one thing."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure to report."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """(max - min) / median."""
        return (max(self.samples) - min(self.samples)) / self.median

    def fields(self) -> "dict[str, Any]":
        """What a measurement says of its samples, by the names of its fields."""
        return {
            "value": self.median,
            "minimum": min(self.samples),
            "maximum": max(self.samples),
            "samples": self.samples,
        }

    def restless(self) -> bool:
        """Whether the samples disagree more than a quiet copy engine's do."""
        return self.spread > RESTLESS_SPREAD


def sample(measure: Callable[[], float], times: int) -> Sampled:
    """Call it so many times."""
    return Sampled(tuple(measure() for _ in range(times)))


def gigabytes_per_second(size_bytes: int, seconds: float) -> float:
    """10^9 bytes per second."""
    return size_bytes / seconds / 1e9


def low_ones(figures: Sequence[tuple[str, float]]) -> list[int]:
    """Positions of (kind, figure) entries that lie under LOW_FRACTION of their kind's median."""
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
    """Repeat the work for some seconds: links and clocks take 0.2 to 0.5 s to wake."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        work()
