"""Whether GPUs and NICs can do GPUDirect RDMA, as far as a snapshot tells (nccl-decisions 2.6)."""

from __future__ import annotations

import re

from ...model.machine import Gpu, Machine
from ..settings import Settings

PEERMEM = frozenset({"nvidia_peermem", "nv_peer_mem"})
DMABUF_KERNEL = (5, 12)
"""The first kernel whose RDMA layer takes DMA-BUF memory (ib_umem_dmabuf_get)."""


def nic_gdr(machine: Machine, settings: Settings, *, rccl: bool, notes: list[str]) -> bool:
    """Whether an RDMA adapter reports GPU memory as usable (net_ib.cc:ncclIbGdrSupport)."""
    host = machine.host
    if rccl:
        notes.append("GPUDirect RDMA of the NICs is assumed: amdgpu's peer memory is not recorded.")
        return True
    if host is None or host.why("modules") is not None:
        notes.append("GPUDirect RDMA of the NICs is assumed: the loaded modules are not known.")
        return True
    if PEERMEM & {module.name for module in host.modules}:
        return True
    if settings.integer("NCCL_DMABUF_ENABLE", 1) == 0 or host.nvidia_module != "open":
        return False
    numbers = re.findall(r"\d{1,5}", host.kernel or "")
    if len(numbers) < 2 or (int(numbers[0]), int(numbers[1])) < DMABUF_KERNEL:
        return False
    notes.append("GPUDirect RDMA by DMA-BUF is assumed: open driver and kernel allow it.")
    return True


def gpu_gdr(gpu: Gpu) -> bool:
    """Whether CUDA would call the GPU capable (cudaDevAttrGPUDirectRDMASupported)."""
    return "GeForce" not in (gpu.name or "")
