"""What a rank that is behind is seen to do alone, as one that evaluates or writes a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from .standing import RankState

COMPUTES = 0.2
"""Share of the time from which a GPU is said to compute."""
COPIES_GBS = 0.3
"""Kernels of NCCL that wait poll over PCIe with up to 0.15 GB/s (two H100, two H200)."""
WRITES_PER_SECOND = 10e6
"""Bytes to a disk: logs take less, a checkpoint more."""
PATIENCE_SECONDS = 60.0
"""For so long others may wait for such a rank without a sign of trouble."""


def does_alone(rank: RankState) -> str:
    """What it does beside being behind, as "its GPU computes"; "" where nothing shows."""
    load, activity = rank.load, rank.activity
    if load is not None and load.computing >= COMPUTES:
        return "its GPU computes"
    written = None if activity is None else activity.written_per_second
    if written is not None and written >= WRITES_PER_SECOND:
        return f"it writes files, {written / 1e6:.0f} MB/s"
    waits = load is None or load.in_library >= COMPUTES
    if load is not None and not waits and (load.pcie_gbs or 0.0) >= COPIES_GBS:
        return "its GPU copies to or from the host"
    return ""


def at_work(ranks: Sequence[RankState], quiet_seconds: float | None) -> bool:
    """Whether all ranks that others wait for are seen to work, and nobody has waited for long."""
    lasts = quiet_seconds is None or quiet_seconds < PATIENCE_SECONDS
    return lasts and bool(ranks) and all(rank.weak and does_alone(rank) for rank in ranks)
