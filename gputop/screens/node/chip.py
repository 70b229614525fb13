"""Compute units, caches and memory banks of an AMD GPU, for its details."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.topology.model.units import UNKNOWN, size, whole

if TYPE_CHECKING:
    from gputop.topology.model.machine import Gpu, GpuCache, MemoryBank

_LAST_LEVEL = 3
_OF_XCDS = ("gfx940", "gfx941", "gfx942", "gfx950")
"""Targets whose packages hold several XCDs, each with an L2 of its own."""
_REACH = {"public": "all of it in the CPU's reach", "private": "not all in the CPU's reach"}


def chip_facts(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """Name and value of what KFD and amdsmi report; nothing for what neither reports."""
    if gpu.core_count is not None:
        dies = gpu.xcd_count
        across = f" in {dies} XCD{'s' * (dies != 1)}" if dies else ""
        yield "Compute", f"{gpu.core_count} compute units{across}"
    if gpu.caches:
        yield "Caches", ", ".join(_cache(cache, gpu) for cache in gpu.caches)
    if gpu.memory_banks:
        yield "Memory banks", "; ".join(_bank(bank) for bank in gpu.memory_banks)
    elif gpu.memory_bus_bits is not None:
        yield "Memory bus", whole(gpu.memory_bus_bits, "bit")


def _cache(cache: GpuCache, gpu: Gpu) -> str:
    count = f"{cache.count} x " if cache.count is not None and cache.count > 1 else ""
    kind = "" if cache.kind in {"data", "not told"} else f" ({cache.kind})"
    amount = f"{count}{size(cache.size_bytes)}{kind}"
    if cache.level == _LAST_LEVEL:
        return f"Infinity Cache (L3) {amount}"
    if cache.level == 2 and _has_xcds(gpu):
        # Newer kernels give the L2 of one XCD, older ones the sum (kfd_topology.c).
        return f"L2 {amount} (of one XCD; older kernels add up all)"
    return f"L{cache.level} {amount}"


def _has_xcds(gpu: Gpu) -> bool:
    if gpu.xcd_count is not None:
        return gpu.xcd_count > 1
    return gpu.compute_capability in _OF_XCDS and gpu.compute_partition != "CPX"


def _bank(bank: MemoryBank) -> str:
    facts = [
        size(bank.size_bytes),
        whole(bank.width_bits, "bit"),
        whole(bank.clock_mhz, "MHz"),
        _REACH.get(bank.kind, bank.kind),
    ]
    return ", ".join(fact for fact in facts if fact != UNKNOWN)
