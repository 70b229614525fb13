"""BAR1: the window through which other devices reach a GPU's memory."""

from ....hardware.specs import WIRED
from ....hardware.vendors import NVIDIA
from ....model.machine import Gpu
from ....model.severity import NOTICE
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, Rule, faulty, needed
from ...shared.bars import LARGE_BARS, bar_share, bar_sizes

AMPERE = 8
"""Major number of its compute capability."""


def _check(case: Case) -> Found:
    known = needed([gpu for gpu in case.having("bar1_bytes", "memory_bytes") if gpu.memory_bytes])
    least = case.threshold(SMALL, "minimum_share")
    small = faulty([gpu for gpu in known if bar_share(gpu) < least])
    linked = all((sku := case.sku(gpu)) is not None and sku.fabric in WIRED for gpu in small)
    return of_gpus(
        SMALL,
        case,
        small,
        NOTICE,
        "BAR1 of {gpus} is smaller than the memory",
        ("BAR1", bar_sizes, "NVML nvmlDeviceGetBAR1MemoryInfo"),
        # The peers of such a board do not need the window: their P2P goes over NVLink or xGMI.
        impact="P2P here goes over NVLink and does not need it; RDMA from a NIC does."
        if linked
        else "P2P over PCIe and RDMA from a NIC map a peer's memory piece by piece, or not at all.",
        fix=[] if all(map(_before_ampere, small)) else [LARGE_BARS],
    )


def _before_ampere(gpu: Gpu) -> bool:
    """Whether the board has no larger window: NVIDIA's resizable BAR begins with the RTX 30."""
    major = (gpu.compute_capability or "").partition(".")[0]
    return major.isdecimal() and int(major) < AMPERE


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
