"""Whose library was asked, and whose tool helps."""

from collections.abc import Sequence

from ..hardware.vendors import AMD, NVIDIA, only
from ..model.machine import Gpu
from ..model.page import Fix
from .case import Case


def amd(gpus: Sequence[Gpu]) -> bool:
    """Whether all of them are AMD GPUs."""
    return only(gpus) is AMD


def amds(case: Case) -> list[Gpu]:
    """The AMD GPUs among those being examined."""
    return [gpu for gpu in case.gpus if gpu.vendor == AMD.id]


def source(gpus: Sequence[Gpu], nvml: str) -> str:
    """The source of a reading of these GPUs; `nvml` is the call that gives it on NVIDIA GPUs."""
    vendor = only(gpus)
    return nvml if vendor in (None, NVIDIA) else vendor.management


def command(gpus: Sequence[Gpu], **by_vendor: str) -> str:
    """The command for the vendor of these GPUs; "" where none is given, or they have several."""
    vendor = only(gpus)
    return "" if vendor is None else by_vendor.get(vendor.id, "")


def step(gpus: Sequence[Gpu], text: str, *, root: bool = False, **by_vendor: str) -> Fix:
    """An action with the command for the vendor of these GPUs."""
    return Fix(text=text, command=command(gpus, **by_vendor), needs_root=root)


def reset(gpus: Sequence[Gpu], text: str) -> Fix:
    """An action that resets these GPUs alone; without their numbers it has no command."""
    numbers = ",".join(str(gpu.index) for gpu in gpus if gpu.index is not None)
    # Without numbers the commands would reset all GPUs.
    return step(
        gpus,
        text,
        root=True,
        nvidia=numbers and f"nvidia-smi --gpu-reset -i {numbers}",
        amd=numbers and f"amd-smi reset --gpureset --gpu {numbers.replace(',', ' ')}",
    )
