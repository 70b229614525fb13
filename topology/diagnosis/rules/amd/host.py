"""What AMD GPUs need from the host: an IOMMU in passthrough mode, BARs for all the memory."""

from collections import Counter
from collections.abc import Sequence

from ....hardware.vendors import AMD
from ....model.machine import Gpu
from ....model.severity import NOTICE, SLOW
from ... import vendors
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, Rule, faulty, needed
from ...shared.bars import LARGE_BARS, bar_share, bar_sizes
from ...shared.kernel_line import kernel_argument

TRANSLATED = ("DMA", "DMA-FQ")
_WHOLE_BAR = 0.9


def _sisters(gpus: Sequence[Gpu]) -> list[str]:
    """Addresses of GPUs of a model that the node has several times.

    A processor's own graphics and a card beside it are not two GPUs of one job.
    """
    models = Counter((gpu.name, gpu.pci_id) for gpu in gpus)
    return [gpu.address for gpu in gpus if models[gpu.name, gpu.pci_id] > 1]


def _check_iommu(case: Case) -> Found:
    gpus = vendors.amds(case)
    kinds = case.iommu_types([gpu.address for gpu in gpus])
    if case.in_vm is not False or not kinds:
        return None
    peers = _sisters(gpus)
    translated = faulty([gpu for gpu in peers if kinds.get(gpu) in TRANSLATED])
    evidence = [
        (
            f"IOMMU type of {case.names(translated)}",
            ", ".join(sorted({kinds[gpu] for gpu in translated})),
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
    amds = [gpu for gpu in case.having("bar1_bytes", "memory_bytes") if gpu.vendor == AMD.id]
    known = needed([gpu for gpu in amds if gpu.memory_bytes])
    small = faulty([gpu for gpu in known if bar_share(gpu) < _WHOLE_BAR])
    joined = all(any(link.active for link in gpu.xgmi) for gpu in small)
    alone = {gpu.address for gpu in small}.isdisjoint(_sisters(case.gpus))
    return of_gpus(
        BAR,
        case,
        small,
        NOTICE if joined or alone else SLOW,
        "the BAR of {gpus} does not hold its memory",
        ("largest BAR", bar_sizes, "sysfs resource"),
        impact=(
            "xGMI does not need it; GPUDirect RDMA from a NIC does."
            if joined
            else "amdgpu grants no P2P over PCIe: RCCL goes through host memory (SHM)."
        ),
        fix=[LARGE_BARS],
    )


IOMMU = Rule(
    id="amd-iommu",
    family="D26",
    title="an IOMMU that translates addresses of AMD GPUs",
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
