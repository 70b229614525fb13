"""Whose library was asked, and whose tool helps: AMD's GPUs are none of NVML's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..machine import Gpu

if TYPE_CHECKING:
    from .case import Case


def amd(gpus: Sequence[Gpu]) -> bool:
    """Whether all of them are AMD's."""
    return bool(gpus) and all(gpu.vendor == "amd" for gpu in gpus)


def amds(case: Case) -> list[Gpu]:
    """AMD's of the GPUs that count."""
    return [gpu for gpu in case.gpus if gpu.vendor == "amd"]


def source(gpus: Sequence[Gpu], nvml: str) -> str:
    """Where a reading of these GPUs came from."""
    return "amdsmi" if amd(gpus) else nvml


def command(gpus: Sequence[Gpu], nvidia: str, amds: str = "") -> str:
    """The command of the tool that knows these GPUs; "" where none does."""
    if amd(gpus):
        return amds
    return nvidia if all(gpu.vendor == "nvidia" for gpu in gpus) else ""


NVIDIAS = frozenset(
    {
        "bar1-small", "clocks-held", "compute-mode-exclusive", "device-order", "driver-mismatch",
        "ecc-off", "ecc-pending", "fabric-health", "fabric-manager", "fabric-state",
        "imex-channel", "mig-enabled", "mig-pending", "mps-daemon", "nvlink-down",
        "nvlink-errors", "nvlink-missing", "nvlink-p2p-refused", "nvlink-slow-rate", "p2p-forced",
        "persistence-off", "row-remap-failed", "row-remap-pending",
    }
)  # fmt: skip
"""Rules about what only NVIDIA's GPUs have: elsewhere they are neither asked nor missed."""
AMDS = frozenset(
    {
        "amd-bad-pages", "amd-ecc-block", "amd-few-gpus", "amd-iommu", "amd-part-missing",
        "amd-partition", "amd-small-bar", "amd-throttled", "xgmi-errors", "xgmi-link-down",
        "xgmi-link-slow", "xgmi-several-hops",
    }
)  # fmt: skip
"""The same of AMD's."""
_TOOL = re.compile(r"`nvidia-smi[^`]*` or (?=`amd-smi)")
_OTHER = re.compile(r" or `amd-smi[^`]*`")
_IN_AMDS = {
    "gpu-firmware-mixed": "one version in `amd-smi firmware` for all of them",
    "gpu-islands": "XGMI between every pair in `rocm-smi --showtopotype`",
    "gpu-lost": "an answer of `amd-smi static` for this GPU",
    "gpu-settings-differ": "the same values in `amd-smi static` for all of them",
    "p2p-refused": "ENABLED between the two in `amd-smi topology`",
    "p2p-refused-by-product": "ENABLED between the two in `amd-smi topology`",
    "page-retirement-pending": "`amd-smi bad-pages` without a page that is pending",
    "pcie-only": "XGMI between any two in `rocm-smi --showtopotype`",
    "power-limit-low": "`amd-smi static --limit` with a current limit that equals the default",
    "ranks-share-gpu": "another GPU for each rank in `amd-smi process`, or a job without RCCL",
    "throttle-hardware": "no such reason in `amd-smi metric`, again and again",
    "throttle-thermal": "no such reason in `amd-smi metric`",
    "unexpected-links": "the missing links up in `amd-smi xgmi -l`",
    "unexpected-settings": "the same values on both nodes in `amd-smi static`",
    "unexpected-wiring": "the reference's links in `amd-smi topology`",
}
"""What would show that a finding about AMD's GPUs is wrong, where the rule asks NVIDIA's tool."""


def apply(rule: str, gpus: Sequence[Gpu]) -> bool:
    """Whether a rule is about any of these GPUs."""
    here = {gpu.vendor for gpu in gpus}
    return not ((rule in NVIDIAS and "nvidia" not in here) or (rule in AMDS and "amd" not in here))


def disproof(rule: str, gpus: Sequence[Gpu], text: str) -> str:
    """What would show that a finding is wrong, by the tool that knows these GPUs."""
    if amd(gpus):
        asked = text if "`nvidia-smi" not in text else _TOOL.sub("", text)
        return _IN_AMDS.get(rule, asked) if "`nvidia-smi" in asked else asked
    return _OTHER.sub("", text) if all(gpu.vendor == "nvidia" for gpu in gpus) else text
