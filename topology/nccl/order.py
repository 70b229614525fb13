"""The order in which HIP counts AMD's GPUs: that of the kernel's KFD nodes."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.machine import Gpu


def hip_order(gpus: Sequence[Gpu]) -> list[Gpu]:
    """AMD GPUs as HIP numbers them; by KFD node where all are known, else index, else address.

    ROCr lists its agents by KFD node, which need not follow the PCI addresses: on several MI250X
    boards it does not.
    """
    nodes = [gpu.kfd_node for gpu in gpus]
    if None not in nodes and len(set(nodes)) == len(nodes):
        return sorted(gpus, key=lambda gpu: gpu.kfd_node or 0)
    places = [gpu.index for gpu in gpus]
    if None not in places and len(set(places)) == len(places):
        return sorted(gpus, key=lambda gpu: gpu.index or 0)
    return sorted(gpus, key=lambda gpu: (gpu.address, gpu.partition or ""))
