"""Whose GPUs make a communicator, and HIP's order of AMD's: that of the kernel's KFD nodes."""

from collections.abc import Sequence

from ..hardware.vendor import Vendor
from ..hardware.vendors import AMD, NVIDIA
from ..model.machine import Gpu


def leading(gpus: Sequence[Gpu]) -> Vendor:
    """Whose GPUs a communicator takes, as it has those of one vendor: the one with more of them."""
    amd = sum(gpu.vendor == AMD.id for gpu in gpus)
    return AMD if amd > sum(gpu.vendor == NVIDIA.id for gpu in gpus) else NVIDIA


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
