"""The window of PCIe (a BAR) through which other devices reach a GPU's memory."""

from ...model.machine import Gpu
from ...model.units import size

LARGE_BARS = 'Switch on "Above 4G decoding" and "Resizable BAR" in the firmware setup.'


def bar_share(gpu: Gpu) -> float:
    """The part of its memory that the window holds; 0 where one of them is not known."""
    return (gpu.bar1_bytes or 0) / gpu.memory_bytes if gpu.memory_bytes else 0.0


def bar_sizes(gpu: Gpu) -> str:
    """Both sizes in words."""
    return f"{size(gpu.bar1_bytes)} for {size(gpu.memory_bytes)} of memory"
