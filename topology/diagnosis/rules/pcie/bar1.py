"""BAR1: the window through which other devices reach a GPU's memory."""

from __future__ import annotations

from ....hardware.specs import WIRED
from ....hardware.vendors import NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import NOTICE
from ....model.units import size
from ...case import Case
from ...rule import Found, Rule

AMPERE = 8
"""Major number of its compute capability."""


def _check(case: Case) -> Found:
    known = [gpu for gpu in case.gpus if gpu.bar1_bytes is not None and gpu.memory_bytes]
    if not known:
        return None
    least = case.threshold(SMALL, "minimum_share")
    small = [gpu for gpu in known if (gpu.bar1_bytes or 0) < least * (gpu.memory_bytes or 0)]
    return [_finding(case, small)] if small else []


def _before_ampere(gpu: Gpu) -> bool:
    """Whether the board has no larger window: NVIDIA's resizable BAR begins with the RTX 30."""
    major = (gpu.compute_capability or "").partition(".")[0]
    return major.isdecimal() and int(major) < AMPERE


def _finding(case: Case, small: list[Gpu]) -> Finding:
    linked = all((sku := case.sku(gpu)) is not None and sku.fabric in WIRED for gpu in small)
    need = (
        "P2P here goes over NVLink and does not need it; RDMA from a NIC does."
        if linked
        else "P2P over PCIe and RDMA from a NIC map a peer's memory piece by piece, or not at all."
    )
    return SMALL.finding(
        NOTICE,
        f"BAR1 of {case.names(small)} is smaller than the memory",
        devices=small,
        evidence=[
            (
                f"BAR1 of {case.name(gpu)}",
                f"{size(gpu.bar1_bytes)} for {size(gpu.memory_bytes)} of memory",
                "NVML nvmlDeviceGetBAR1MemoryInfo",
            )
            for gpu in small
        ],
        impact=need,
        fix=['Switch on "Above 4G decoding" and "Resizable BAR" in the firmware setup.']
        if not all(map(_before_ampere, small))
        else [],
    )


SMALL = Rule(
    id="bar1-small",
    title="BAR1 windows smaller than the GPU's memory",
    evidence="size of BAR1 and of the memory of a GPU",
    vendor=NVIDIA.id,
    disproof="a BAR1 of the size of the memory in `nvidia-smi -q -d MEMORY`",
    sources=("tinygrad/tinygrad#44", "ROCm/ROCm#579"),
    check=_check,
    implied_by=("amd-small-bar",),
    thresholds=(("minimum_share", 0.9),),
)

RULES = (SMALL,)
