"""Decides whether a GPU may be measured without disturbing somebody else's work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from gputop.topology.model import units
from gputop.topology.model.readings import GpuProcess, GpuReading
from gputop.topology.model.record import by_address

SAMPLES = 3
SAMPLE_GAP_SECONDS = 0.15
UTILIZATION_PERCENT = 5.0
"""Utilisation above this in two of three samples counts as work."""
FREE_MEMORY_FRACTION = 0.2
"""With less than this free there is no room to measure beside the other process."""
UNLISTED_MEMORY_FRACTION = 0.1
"""When unlisted processes hold more than this, a container hides a process."""
CALM_SECONDS = 1.5
"""Drivers average utilisation over the last second, so work that just ended still shows."""
GONE_SECONDS = 1.0
"""One of our own processes may stay in the driver's list for a moment after its end."""
GONE_GAP_SECONDS = 0.05

Read = Callable[[], Sequence[GpuReading]]


class BusyAnswer(msgspec.Struct, frozen=True):
    """Why GPUs count as busy, and what the check could not see."""

    busy: tuple[str, ...] = ()
    """One sentence for each GPU and reason; empty when the GPUs may be measured."""
    blind: tuple[str, ...] = ()
    """What the driver did not report; "not busy" is then unproven."""
    only_utilization: bool = False
    """Whether utilisation is the only reason."""


def judge(
    samples: Sequence[Sequence[GpuReading]],
    addresses: Collection[str],
    names: Mapping[str, str] | None = None,
    own_pids: Collection[int] = (),
) -> BusyAnswer:
    """Judge GPUs by a few samples of all readings, oldest first.

    A GPU is busy when another process has a compute context, when utilisation is over 5 % in two
    of three samples, when under 20 % of the memory is free, or when unlisted processes hold over
    10 % of it. An empty process list proves nothing: a container hides processes.
    """
    busy: list[str] = []
    blind: list[str] = []
    working = 0
    for address in addresses:
        name = (names or {}).get(address, address)
        seen = [reading for sample in samples for reading in sample if reading.address == address]
        if not seen:
            blind.append(f"{name}: no reading, so nothing tells whether it is in use")
            continue
        last = seen[-1]
        others = _others(last, own_pids)
        if others:
            busy.append(f"{name} is in use by {_named(others)}{_of_total(others, last)}")
        elif last.processes is None:
            blind.append(f"{name}: the driver does not list its processes")
        active = [
            reading.utilization_percent
            for reading in seen
            if reading.utilization_percent is not None
            and reading.utilization_percent > UTILIZATION_PERCENT
        ]
        if len(active) >= 2:
            working += 1
            busy.append(f"{name} works: {active[-1]:.0f} % utilisation")
        busy += _memory(name, last, listed=_holds(last))
    return BusyAnswer(tuple(busy), tuple(blind), only_utilization=0 < working == len(busy))


def _holds(reading: GpuReading) -> bool:
    """Whether a listed process may hold memory."""
    return any(process.memory_bytes != 0 for process in reading.processes or ())


def _others(reading: GpuReading, own_pids: Collection[int]) -> list[GpuProcess]:
    """Name each foreign process with a compute context once.

    ROCm lists a process on every GPU that it may use; without memory there it does not use it.
    """
    found = {
        process.pid: process
        for process in reading.processes or ()
        if process.kind != "graphics" and process.pid not in own_pids and process.memory_bytes != 0
    }
    return [found[pid] for pid in sorted(found)]


def _named(processes: Sequence[GpuProcess]) -> str:
    shown = ", ".join(str(process.pid) for process in processes[:3])
    many = len(processes) > 1
    return f"process{'es' if many else ''} {shown}" + (", ..." if len(processes) > 3 else "")


def _of_total(processes: Sequence[GpuProcess], reading: GpuReading) -> str:
    """The memory that these processes hold, where the driver reports it."""
    held = sum(process.memory_bytes or 0 for process in processes)
    used, free = reading.memory_used_bytes, reading.memory_free_bytes
    if not held or used is None or free is None:
        return ""
    share = 100 * held / (used + free)
    return f" ({units.size(held)}, {share:.0f} % of its memory)"


def _memory(name: str, reading: GpuReading, *, listed: bool) -> list[str]:
    used, free = reading.memory_used_bytes, reading.memory_free_bytes
    if used is None or free is None or not used + free:
        return []
    total = used + free
    if free < FREE_MEMORY_FRACTION * total:
        return [f"{name} has only {100 * free / total:.0f} % of its memory free"]
    if not listed and used > UNLISTED_MEMORY_FRACTION * total:
        share = f"{units.size(used)}, {100 * used / total:.0f} %"
        return [f"{name}: {share} of its memory is held by a process that the driver does not list"]
    return []


def refusal(verdict: BusyAnswer) -> str:
    """Explain why nothing is measured and what the user can do."""
    return (
        "; ".join(verdict.busy) + ". Nothing was measured: --gpus leaves a GPU out, --force (P in "
        "the app) measures beside whoever uses it."
    )


def sample(read: Read, cancel: threading.Event | None = None) -> list[Sequence[GpuReading]]:
    """Take three samples, 0.15 s apart; `read` asks the driver once."""
    samples = [read()]
    for _ in range(SAMPLES - 1):
        _pause(SAMPLE_GAP_SECONDS, cancel)
        samples.append(read())
    return samples


def look(
    read: Read,
    addresses: Collection[str],
    names: dict[str, str],
    own_pids: Collection[int] = (),
    cancel: threading.Event | None = None,
    calm_seconds: float = CALM_SECONDS,
) -> BusyAnswer:
    """Judge GPUs now; if only utilisation is high, wait a moment and look again."""
    samples = sample(read, cancel)
    verdict = judge(samples, addresses, names, own_pids)
    give_up = time.monotonic() + calm_seconds
    while verdict.only_utilization and time.monotonic() < give_up and not _over(cancel):
        _pause(SAMPLE_GAP_SECONDS, cancel)
        samples = [*samples[1:], read()]
        verdict = judge(samples, addresses, names, own_pids)
    return verdict


def strangers(
    read: Read,
    addresses: Collection[str],
    names: dict[str, str],
    own_pids: Callable[[], Collection[int]],
    cancel: threading.Event | None = None,
) -> BusyAnswer:
    """Judge by processes alone: between two probes our own work still shows in the rest."""
    give_up = time.monotonic() + GONE_SECONDS
    while True:
        own, readings = own_pids(), read()
        seen = by_address(readings)
        busy = tuple(
            f"{names.get(address, address)} is in use by {_named(others)} since this began"
            for address in addresses
            if address in seen and (others := _others(seen[address], own))
        )
        if not busy or time.monotonic() >= give_up or _over(cancel):
            return BusyAnswer(busy)
        _pause(GONE_GAP_SECONDS, cancel)


def _over(cancel: threading.Event | None) -> bool:
    return cancel is not None and cancel.is_set()


def _pause(seconds: float, cancel: threading.Event | None) -> None:
    if cancel is None:
        time.sleep(seconds)
    else:
        cancel.wait(seconds)
