"""Caches as amdsmi and `amd-smi static` list them: kinds with their sizes in KiB.

Both count the files of KFD (amd_smi.cc, amdsmi_get_gpu_cache_info), so the size of an L2 means
what it means there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model.machine import CacheKind, GpuCache
from ..files.printed import Printed
from .smi_values import AMD_SMI, KILOBYTES

_MOST = 64
_MOST_BYTES = 1 << 50
_DATA, _INSTRUCTION, _CPU = "DATA_CACHE", "INST_CACHE", "CPU_CACHE"
_WORDS = (_DATA, _INSTRUCTION, _CPU)


def caches_of(listed: Any) -> tuple[GpuCache, ...]:
    """Give the kinds beyond level 1, nearest first; () where nothing of the sort is listed.

    `listed`: a list, since ROCm 6.1 under "cache"; 6.0 has {"cache 0": ...}.
    """
    if isinstance(listed, Mapping):
        listed = listed["cache"] if "cache" in listed else list(listed.values())
    entries = listed[:_MOST] if isinstance(listed, list) else []
    found = [cache for entry in entries if (cache := _cache(entry)) is not None]
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.kind)))


def _cache(entry: Any) -> GpuCache | None:
    if not isinstance(entry, Mapping):
        return None
    v = Printed(entry, AMD_SMI)
    level = v.whole("level", "cache_level", most=9)
    size = v.whole("size_bytes", "cache_size", units=KILOBYTES, most=_MOST_BYTES)
    named = entry.get("cache_properties")
    # ROCm 6.0 has a flag of its own for each: {"data_cache": True}.
    words = {word for word in _WORDS if entry.get(word.lower()) is True}
    words |= {word for word in named if isinstance(word, str)} if isinstance(named, list) else set()
    if level is None or level < 2 or not size or _CPU in words:
        return None
    kinds = [name for sign, name in ((_DATA, "data"), (_INSTRUCTION, "instruction"))
             if sign in words]  # fmt: skip
    return GpuCache(
        level=level,
        kind=CacheKind(" and ".join(kinds) or CacheKind.NOT_TOLD),
        size_bytes=size,
        count=v.whole("count", "num_cache_instance", most=4096),
    )
