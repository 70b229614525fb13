"""Memory banks and caches of a GPU from KFD's topology."""

from __future__ import annotations

from ...model.machine import GpuCache, MemoryBank
from .nodes import CACHE_CPU, CACHE_DATA, CACHE_INSTRUCTION, PUBLIC, VRAM, Bank, KfdCache, KfdNode

KINDS = {
    CACHE_DATA: "data",
    CACHE_INSTRUCTION: "instruction",
    CACHE_DATA | CACHE_INSTRUCTION: "data and instruction",
}
NOT_TOLD = "not told"
_MOST_KIB = 1 << 40


def banks(node: KfdNode) -> tuple[MemoryBank, ...]:
    """The banks of the GPU's own memory, as listed; scratch and LDS are not among them."""
    return tuple(_bank(bank) for bank in own_banks(node))


def own_banks(node: KfdNode) -> tuple[Bank, ...]:
    """The banks whose memory sits on the GPU."""
    return tuple(bank for bank in node.banks if bank.kind in VRAM)


def _bank(bank: Bank) -> MemoryBank:
    return MemoryBank(
        kind="public" if bank.kind == PUBLIC else "private",
        size_bytes=bank.size_bytes,
        width_bits=bank.width_bits or None,
        clock_mhz=bank.clock_mhz or None,
    )


def caches(node: KfdNode) -> tuple[GpuCache, ...]:
    """The kinds of caches beyond level 1, nearest first, with the number of each."""
    counts: dict[KfdCache, int] = {}
    for cache in node.caches:
        if cache.level > 1 and 0 < cache.size_kib < _MOST_KIB and not cache.flags & CACHE_CPU:
            counts[cache] = counts.get(cache, 0) + 1
    return tuple(
        GpuCache(
            level=cache.level,
            kind=KINDS.get(cache.flags & 0x3, NOT_TOLD),
            size_bytes=cache.size_kib * 1024,
            count=count,
        )
        for cache, count in sorted(counts.items(), key=lambda item: (item[0].level, item[0].flags))
    )
