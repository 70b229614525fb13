"""Names of GPUs for people: one, several in short, and those of a table."""

from __future__ import annotations

from collections.abc import Sequence

from ..hardware.vendor import GPU
from ..hardware.vendors import vendor_of
from ..model.cpulist import written
from ..model.machine import Gpu, Machine


def gpu_label(gpu: Gpu) -> str:
    """Name a GPU for display: "GPU0" by the library's index, else by its place.

    "AMD0" beside NVIDIA's GPUs, which count from 0 as well; its address where the library numbers
    others but not this one.
    """
    if gpu.number is None:
        return gpu.address
    return f"{vendor_of(gpu).label if gpu.index_shared else GPU}{gpu.number}"


def numbered(gpu: Gpu) -> tuple[bool, bool, int, str]:
    """Sort GPUs by the numbers on display, NVIDIA's first; those without one last."""
    return gpu.number is None, gpu.index_shared, gpu.number or 0, gpu.address


def row_labels(gpus: Sequence[Gpu]) -> list[str]:
    """Name GPUs in a table as everywhere; by their place in it where nothing numbers any."""
    known = any(gpu.number is not None for gpu in gpus)
    return [gpu_label(gpu) if known else f"GPU{place}" for place, gpu in enumerate(gpus)]


def gpu_names(addresses: Sequence[str], machine: Machine) -> str:
    """GPUs in short: "GPU0-3,6", "AMD0-3"; by address where one has no number."""
    known = [machine.gpu(address) for address in addresses]
    numbers: dict[tuple[bool, str], list[int]] = {}
    for gpu in known:
        if gpu is not None and gpu.number is not None:
            label = vendor_of(gpu).label if gpu.index_shared else GPU
            numbers.setdefault((gpu.index_shared, label), []).append(gpu.number)
    if sum(map(len, numbers.values())) == len(addresses):
        return " ".join(f"{label}{written(found)}" for (_, label), found in sorted(numbers.items()))
    return " ".join(
        gpu_label(gpu) if gpu is not None else address
        for gpu, address in zip(known, addresses, strict=True)
    )
