"""What the kernels of a profile add up to."""

from __future__ import annotations

from collections.abc import Iterable

Spans = list[tuple[float, float]]


def covered(spans: Iterable[tuple[float, float]]) -> Spans:
    """The same time without overlaps."""
    found: Spans = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def length(spans: Iterable[tuple[float, float]]) -> float:
    return sum(end - start for start, end in covered(spans))


def shares(kernels: Iterable[tuple[float, float, str]], steps: int) -> dict[str, float]:
    """Seconds of a step: computing, communicating, communicating alone; from microseconds."""
    communication: Spans = []
    compute: Spans = []
    for start, end, name in kernels:
        (communication if name.startswith("nccl") else compute).append((start, end))
    busy = length(communication + compute)
    of_each = {
        "compute_s": length(compute),
        "communication_s": length(communication),
        "exposed_s": busy - length(compute),
        "busy_s": busy,
    }
    return {name: value / 1e6 / steps for name, value in of_each.items()}
