"""How the host memory of processes changed while the app looked on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.topology.model.units import seconds, size

if TYPE_CHECKING:
    from gputop.topology.jobs.grouping import Job
    from gputop.topology.model.readings import ProcessReading

LEAST_BYTES = 64 * 2**20
"""Change that is worth a word: buffers and caches come and go."""
LEAST_SECONDS = 20.0
MOST_NAMED = 4


def grown_words(process: ProcessReading) -> str:
    """What it gained since it was first read and lately; "" where that is too short ago.

    "+1.2 GiB in 4 min, +900 MiB in the last 62 s (14.5 MiB a second)".
    """
    now, before = process.memory_bytes, process.memory_before
    if now is None or not before or before[0][0] < LEAST_SECONDS:
        return ""
    ago, held = before[0]
    total, lately = now - held, before[-1]
    if len(before) == 1:
        return f"{_signed(total)} in {_span(ago)}{_pace(total, ago)}"
    recent = now - lately[1]
    last = f"{_signed(recent)} in the last {_span(lately[0])}{_pace(recent, lately[0])}"
    return f"{_signed(total)} in {_span(ago)}, {last}"


def growing(job: Job) -> Iterator[str]:
    """The processes of a job whose memory grew lately, the fastest first."""
    found = []
    for user in job.processes:
        process = user.reading
        if process.memory_bytes is None or not process.memory_before:
            continue
        ago, held = process.memory_before[-1]
        grown = process.memory_bytes - held
        if ago >= LEAST_SECONDS and grown >= LEAST_BYTES:
            name = f"pid {user.pid}" if process.rank is None else f"rank {process.rank}"
            text = f"{name} {_signed(grown)} of the host in {_span(ago)}{_pace(grown, ago)}"
            found.append((grown / ago, text))
    found.sort(key=lambda each: -each[0])
    for _, text in found[:MOST_NAMED]:
        yield text
    if len(found) > MOST_NAMED:
        yield f"and {len(found) - MOST_NAMED} more"


def _signed(change: int) -> str:
    if abs(change) < LEAST_BYTES:
        return f"less than {size(LEAST_BYTES)} more or less"
    return f"{'+' if change > 0 else '-'}{size(abs(change))}"


def _span(ago: float) -> str:
    return f"{ago:.0f} s" if ago < 120 else seconds(ago)


def _pace(change: int, ago: float) -> str:
    return f" ({size(round(change / ago))} a second)" if change >= LEAST_BYTES else ""
