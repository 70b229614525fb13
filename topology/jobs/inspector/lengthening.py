"""By how much waiting for a late rank lengthens a step.

A GPU computes while its kernel of NCCL waits. In a step of DDP the first all-reduce waits for the
late rank, and meanwhile the gradients of all layers become ready; the all-reduces that follow wait
only for what the late rank computes in between, which the others have behind them. On two H200 a
rank that spins 50 ms a step let the other wait 49.3 ms in the first of eight all-reduces, and
0.3 ms in each of the others; a step took 49 ms longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

OUTSTANDING, REGULAR = 5.0, 3.0
"""Waits that are so many times as long as the one in the middle stand out; from the second on where
they come at equal distances, as the first of each step does."""
MOSTLY = 0.8
"""Of the distances between two long waits, so many are equal where they are regular."""
LEAST_PART = 1 / 3
"""Of all waiting: where those that stand out are less of it, all waits count."""


class Lengthening(NamedTuple):
    """What a rank's waits cost, mean over the operations."""

    seconds: float
    """By which they lengthen the time of an operation and of what comes before it."""
    most_share: float
    """Of the time at most: operations of a communicator come one after the other, so no step is
    shorter than its own operations."""
    long: tuple[int, float] | None = None
    """How many waits stand out and how long they are, seconds; None where all are alike."""


def lengthening(waits: Sequence[float], took: Sequence[float]) -> Lengthening:
    """What waits cost, of operations in their order; `took`: what each took in all, seconds.

    Where some stand out, from one of them to another one: what comes between is whole steps.
    """
    middle = median(waits)
    long = [at for at, wait in enumerate(waits) if wait > REGULAR * middle]
    if not _regular(long):
        long = [at for at in long if waits[at] > OUTSTANDING * middle]
    if len(long) < 2 or sum(waits[at] for at in long) < LEAST_PART * sum(waits):
        every = sum(waits)
        return Lengthening(every / len(waits), _part(every, sum(took)))
    first, last = long[0] + 1, long[-1] + 1
    costs = sum(waits[at] for at in long[1:])
    mean = sum(waits[at] for at in long) / len(long)
    return Lengthening(
        costs / (last - first), _part(costs, sum(took[first:last])), (len(long), mean)
    )


def _regular(places: Sequence[int]) -> bool:
    """Whether nearly all distances are equal, and more than 1: several operations make a step."""
    apart = Counter(after - before for before, after in pairwise(places))
    usual, count = max(apart.items(), key=lambda item: item[1], default=(0, 0))
    return usual > 1 and count >= MOSTLY * apart.total()


def _part(costs: float, took: float) -> float:
    return min(costs / took, 1.0) if took else 0.0
