"""Whose library was asked, and whose tool helps: AMD's GPUs are none of NVML's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model.machine import Gpu

if TYPE_CHECKING:
    from .case import Case

_TOOL = re.compile(r"`nvidia-smi[^`]*` or (?=`amd-smi)")
_OTHER = re.compile(r" or `amd-smi[^`]*`")


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


def disproof(gpus: Sequence[Gpu], text: str, in_amds: str = "") -> str:
    """What would show that a finding is wrong, by the tool that knows these GPUs.

    `text` asks NVIDIA's tool, or either's; `in_amds` says the same with AMD's where it must.
    """
    if amd(gpus):
        asked = text if "`nvidia-smi" not in text else _TOOL.sub("", text)
        return in_amds or asked if "`nvidia-smi" in asked else asked
    return _OTHER.sub("", text) if all(gpu.vendor == "nvidia" for gpu in gpus) else text
