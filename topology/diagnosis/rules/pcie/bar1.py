"""BAR1: the window through which other devices reach a GPU's memory."""

import re

from ....hardware.specs import WIRED
from ....hardware.vendors import NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import NOTICE
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, Rule, faulty, needed
from ...shared.bars import LARGE_BARS, bar_share, bar_sizes

CLOSED_BYTES = 256 << 20
_FIRST_RESIZABLE = 0x2200
"""The first PCI device id of GA102: boards before it have no larger window, or always have it."""
_RESIZABLE = re.compile(r"\b(?:GA10[2-9]|AD10\d|GH100|GB\d{3})|RTX (?:30|40|50)[5-9]0")
"""The same boards by the name of their chip or model."""
AMPERE = 8
"""Major number of its compute capability."""


def _check(case: Case) -> Found:
    known = [gpu for gpu in case.gpus if gpu.bar1_bytes is not None and gpu.memory_bytes]
    alone = [gpu for gpu in case.gpus if gpu not in known and _window(case, gpu)]
    needed([*known, *alone])
    least = case.threshold(SMALL, "minimum_share")
    small = [gpu for gpu in known if bar_share(gpu) < least]
    closed = [gpu for gpu in alone if _window(case, gpu) == CLOSED_BYTES]
    return faulty(
        [*([_small(case, small)] if small else ()), *([_closed(case, closed)] if closed else ())]
    )


def _window(case: Case, gpu: Gpu) -> int | None:
    """The size of the window, by driver or PCI bus, where the board could have a large one."""
    device = case.pci(gpu.address)
    number = int((gpu.pci_id or "0:0").partition(":")[2], 16)
    chip = _RESIZABLE.search(gpu.name or "") is not None
    if gpu.bar1_bytes is not None:
        return None if gpu.compute_capability and _before_ampere(gpu) else gpu.bar1_bytes
    bars = (device.bars if device is not None else None) or ()
    return max(bars, default=None) if number >= _FIRST_RESIZABLE or chip else None


def _closed(case: Case, closed: list[Gpu]) -> Finding:
    """Windows of the one size that a board has without Resizable BAR; its memory is not known."""
    return of_gpus(
        SMALL,
        case,
        closed,
        NOTICE,
        "BAR1 of {gpus} has 256 MiB: Resizable BAR is off",
        (
            "largest window to the memory",
            "256 MiB",
            "size of the memory regions on PCI, or BAR1 by NVML",
        ),
        impact="P2P over PCIe and RDMA from a NIC need a window as large as the GPU's memory. With "
        "this one P2P of a changed driver for GeForce cards does not work at all.",
        fix=[LARGE_BARS, "Where the setup has no such setting, update the firmware of the board."],
    )


def _small(case: Case, small: list[Gpu]) -> Finding:
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
