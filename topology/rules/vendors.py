"""Whose library was asked, and whose tool helps: AMD's GPUs are none of NVML's."""

from __future__ import annotations

from collections.abc import Sequence

from ..machine import Gpu


def amd(gpus: Sequence[Gpu]) -> bool:
    """Whether all of them are AMD's."""
    return bool(gpus) and all(gpu.vendor == "amd" for gpu in gpus)


def source(gpus: Sequence[Gpu], nvml: str) -> str:
    """Where a reading of these GPUs came from."""
    return "amdsmi" if amd(gpus) else nvml


def command(gpus: Sequence[Gpu], nvidia: str, amds: str = "") -> str:
    """The command of the tool that knows these GPUs; "" where none does."""
    if amd(gpus):
        return amds
    return nvidia if all(gpu.vendor == "nvidia" for gpu in gpus) else ""
