"""A member of the probe collectives, made for tests."""

from __future__ import annotations

from typing import Any

from gputop.probes.catalog.collectives.probe import SPEC, CollectiveMember
from gputop.probes.protocol.messages import DeviceRecord

GIB = 1 << 30


def made(
    here: Any, group: Any, rank: int, ranks: int, emit: Any = None, **params: Any
) -> CollectiveMember:
    """A member whose GPUs have 80 GiB, 60 of them free."""
    gpus = [
        DeviceRecord(f"0000:0{i}:00.0", i, "x", f"0000:0{i}:00.0", None, 80 * GIB, 60 * GIB)
        for i in range(ranks)
    ]
    store: Any = None
    return CollectiveMember(here, group, store, gpus, rank, emit, SPEC, params)
