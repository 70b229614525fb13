"""What AMD GPUs need from the host: an IOMMU in passthrough mode, BARs for all the memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ....hardware.vendors import AMD
from ....model.machine import Gpu
from ....model.severity import NOTICE, SLOW
from ....model.units import size
from ... import vendors
from ...case import Case
from ...rule import Found, Rule
from ...shared.kernel_line import kernel_argument

TRANSLATED = ("DMA", "DMA-FQ")
_WHOLE_BAR = 0.9


def _sisters(gpus: Sequence[Gpu]) -> set[str]:
    """Addresses of GPUs of a model that the node has several times.

    A processor's own graphics and a card beside it are not two GPUs of one job.
    """
    models = Counter((gpu.name, gpu.pci_id) for gpu in gpus)
    return {gpu.address for gpu in gpus if models[gpu.name, gpu.pci_id] > 1}


def _check_iommu(case: Case) -> Found:
    gpus = vendors.amds(case)
    kinds = {
        gpu.address: device.iommu_type
        for gpu in gpus
        if (device := case.pci(gpu.address)) is not None and device.iommu_type is not None
    }
    if case.in_vm is not False or not kinds:
        return None
    translated = [address for address, kind in kinds.items() if kind in TRANSLATED]
    peers = _sisters(gpus)
    translated = [address for address in translated if address in peers]
    if not translated:
        return []
    evidence = [
        (
            f"IOMMU type of {case.names(translated)}",
            ", ".join(sorted({kinds[address] for address in translated})),
            "/sys/kernel/iommu_groups/*/type",
        )
    ]
    flags = case.host.cmdline_flags
    if flags is not None and "iommu=pt" not in flags:
        shown = " ".join(flags) or "no argument about the IOMMU"
        evidence.append(("kernel arguments", shown, "/proc/cmdline"))
    return IOMMU.finding(
        SLOW,
        f"the IOMMU translates addresses of {case.names(translated)}",
        devices=translated,
        evidence=evidence,
        impact="RCCL warns of it: host copies and traffic to NICs are slower, and on some "
        "hosts a job over several GPUs hangs at its start.",
        fix=[kernel_argument("Start the kernel with iommu=pt.", "iommu=pt")],
    )


def _check_bar(case: Case) -> Found:
    known = [gpu for gpu in vendors.amds(case) if gpu.bar1_bytes is not None and gpu.memory_bytes]
    if not known:
        return None
    small = [gpu for gpu in known if (gpu.bar1_bytes or 0) < _WHOLE_BAR * (gpu.memory_bytes or 0)]
    if not small:
        return []
    joined = all(any(link.active for link in gpu.xgmi) for gpu in small)
    alone = _sisters(case.gpus).isdisjoint(gpu.address for gpu in small)
    return BAR.finding(
        NOTICE if joined or alone else SLOW,
        f"the BAR of {case.names(small)} does not hold its memory",
        devices=small,
        evidence=[
            (
                f"largest BAR of {case.name(gpu)}",
                f"{size(gpu.bar1_bytes)} for {size(gpu.memory_bytes)} of memory",
                "sysfs resource",
            )
            for gpu in small
        ],
        impact=(
            "xGMI does not need it; GPUDirect RDMA from a NIC does."
            if joined
            else "amdgpu grants no P2P over PCIe: RCCL goes through host memory (SHM)."
        ),
        fix=['Switch on "Above 4G decoding" and "Resizable BAR" in the firmware setup.'],
    )


IOMMU = Rule(
    id="amd-iommu",
    family="D26",
    title="An IOMMU that translates addresses of AMD GPUs",
    evidence="type of the IOMMU group of each AMD GPU, on bare metal",
    vendor=AMD.id,
    disproof="identity in /sys/kernel/iommu_groups/*/type of the GPU's group",
    sources=("ROCm/rccl#1026", "ROCm/vllm#390", "RCCL src/init.cc"),
    check=_check_iommu,
)

BAR = Rule(
    id="amd-small-bar",
    family="D26",
    title="AMD GPUs whose BAR does not hold their memory",
    evidence="size of the largest BAR and of the memory",
    vendor=AMD.id,
    disproof="a BAR of the size of the memory in `lspci -vv`",
    sources=("ROCm/ROCm#579", "ROCm/rccl#92"),
    check=_check_bar,
)


RULES = (IOMMU, BAR)
