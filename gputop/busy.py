"""Whether a GPU may be measured: somebody else's work is not to be disturbed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from gputop.topology.readings import GpuReading

SAMPLES = 3
SAMPLE_GAP_SECONDS = 0.15
UTILIZATION_PERCENT = 5.0
"""More than this in two of three samples is work."""
FREE_MEMORY_FRACTION = 0.2
"""Less than this free leaves no room to measure beside whoever holds the rest."""


class Verdict(msgspec.Struct, frozen=True):
    """Why GPUs count as busy, and what could not be seen."""

    busy: tuple[str, ...] = ()
    """One sentence a GPU and reason; empty when nothing speaks against measuring."""
    blind: tuple[str, ...] = ()
    """What the driver would not say, so that "not busy" is not proven."""


def judge(
    samples: Sequence[Sequence[GpuReading]],
    addresses: Collection[str],
    names: dict[str, str] | None = None,
    own_pids: Collection[int] = (),
) -> Verdict:
    """Judge GPUs by a few samples of all readings, oldest first.

    Busy is a compute context of another process, utilisation over 5 % in two of three samples, or
    under 20 % of the memory free. An empty process list proves nothing (a container hides them).
    """
    busy: list[str] = []
    blind: list[str] = []
    for address in addresses:
        name = (names or {}).get(address, address)
        seen = [reading for sample in samples for reading in sample if reading.address == address]
        if not seen:
            blind.append(f"{name}: no reading, so nothing tells whether it is in use")
            continue
        last = seen[-1]
        others = sorted(
            {process.pid for process in last.processes or () if process.kind != "graphics"}
            - set(own_pids)
        )
        if others:
            shown = ", ".join(str(pid) for pid in others[:3]) + (", ..." if len(others) > 3 else "")
            busy.append(f"{name} is in use by process {shown}")
        elif last.processes is None:
            blind.append(f"{name}: the driver does not list its processes")
        active = [
            reading.utilization_percent
            for reading in seen
            if reading.utilization_percent is not None
            and reading.utilization_percent > UTILIZATION_PERCENT
        ]
        if len(active) >= 2:
            busy.append(f"{name} works: {active[-1]:.0f} % utilisation")
        used, free = last.memory_used_bytes, last.memory_free_bytes
        if used is not None and free is not None and free < FREE_MEMORY_FRACTION * (used + free):
            busy.append(f"{name} has only {100 * free / (used + free):.0f} % of its memory free")
    return Verdict(busy=tuple(busy), blind=tuple(blind))


def sample(read: Callable[[], Sequence[GpuReading]]) -> list[Sequence[GpuReading]]:
    """Take three samples, 0.15 s apart; `read` asks the driver once."""
    samples = [read()]
    for _ in range(SAMPLES - 1):
        time.sleep(SAMPLE_GAP_SECONDS)
        samples.append(read())
    return samples
