"""Several GPUs in short."""

from __future__ import annotations

from collections.abc import Sequence

from ..hardware.vendor import GPU
from ..hardware.vendors import vendor_of
from ..model.cpulist import written
from ..model.machine import Machine
from .graph import gpu_label


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
