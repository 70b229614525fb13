"""Links that the driver denies although something else that it says shows them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...model.machine import Gpu, GpuPair
from ...model.record import GRANTED, REFUSED, Gap


def with_refusals(gpus: tuple[Gpu, ...], pairs: Iterable[GpuPair]) -> tuple[Gpu, ...]:
    """Mark a "Not Supported" as doubtful where the GPU, or another of its model, has links.

    Seen on H200 (driver 580.159): beside a running job for one of four, at the first call after a
    boot for both of two.
    """
    linked = {gpu.name for gpu in gpus if gpu.nvlinks and gpu.name is not None}
    granted = {end for pair in pairs if pair.p2p_nvlink == "ok" for end in (pair.src, pair.dst)}
    return tuple(
        _doubted(gpu, REFUSED if gpu.name in linked else GRANTED)
        if (gpu.name in linked or gpu.address in granted) and not (gpu.nvlinks or gpu.mig_enabled)
        else gpu
        for gpu in gpus
    )


def _doubted(gpu: Gpu, why: str) -> Gpu:
    gaps = (
        Gap(gap.field, f"{gap.why}, {why}") if gap.field == "nvlinks" else gap for gap in gpu.gaps
    )
    return msgspec.structs.replace(gpu, gaps=tuple(gaps))
