"""Counters between two readings of one node: only growth is news, never a total."""

from collections.abc import Iterator

from ...model.machine import Gpu
from ...model.readings import GpuReading
from ...model.record import Record
from ..case import Case

SHORTEST_SECONDS = 60.0
"""A rate over a shorter time says nothing: a shorter time counts as this one."""


def elapsed_seconds(case: Case) -> float | None:
    """Time between the two readings; None without an earlier one, or where the host restarted."""
    before = case.earlier
    if before is None:
        return None
    boots = [host.boot_id for host in (before.machine.host, case.machine.host) if host is not None]
    if len(boots) == 2 and None not in boots and boots[0] != boots[1]:
        return None
    elapsed = case.snapshot.taken_at - before.taken_at
    return elapsed if elapsed > 0 else None


def both_readings(case: Case) -> Iterator[tuple[Gpu, GpuReading, GpuReading]]:
    """The examined GPUs that were read twice, each with its present and its earlier reading."""
    for gpu, now in case.read:
        before = case.earlier_reading(gpu)
        if before is not None:
            yield gpu, now, before


def added(now: int | None, before: int | None) -> int | None:
    """How much a counter grew; None where it is not known or was reset in between."""
    if now is None or before is None or now < before:
        return None
    return now - before


def rate(count: float, seconds: float, per: float) -> float:
    """Events in `per` seconds."""
    return count * per / max(seconds, SHORTEST_SECONDS)


def growth(now: Record, before: Record, fields: tuple[str, ...]) -> dict[str, int]:
    """How much each counter of a record grew, where that is known."""
    grown = {name: added(getattr(now, name), getattr(before, name)) for name in fields}
    return {name: value for name, value in grown.items() if value is not None}


def news(now: int, before: int | None) -> int:
    """How much a counter grew; one that went down started anew after the earlier reading."""
    if before is None:
        return 0
    return now - before if now >= before else now
