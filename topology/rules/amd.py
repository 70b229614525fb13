"""What AMD nodes need: xGMI links, an IOMMU that passes through, large BARs, all eight GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from ..machine import Gpu
from ..units import figure, gbs, size
from .case import Case
from .finding import BY_DESIGN, NOTICE, SLOW, Evidence, Finding, Fix
from .kernel_line import kernel_argument
from .rule import Rule

TRANSLATED = ("DMA", "DMA-FQ")
_WHOLE_BAR = 0.9


def _amd(case: Case) -> list[Gpu]:
    return [gpu for gpu in case.gpus if gpu.vendor == "amd"]


def _check_xgmi(case: Case) -> Iterable[Finding] | None:
    gpus = [gpu for gpu in _amd(case) if any(link.active is not None for link in gpu.xgmi)]
    if not gpus:
        return None
    here = {gpu.address for gpu in case.machine.gpus}
    down = [
        (gpu.address, link.remote_address)
        for gpu in gpus
        for link in gpu.xgmi
        if link.active is False and link.remote_address in here
    ]
    gone = [] if case.in_vm is not False else _gone(case, gpus)
    lost = [*down, *(pair for pair in gone if pair not in down)]
    some = any(link.active for gpu in gpus for link in gpu.xgmi)
    # A guest may be shown all its links as down (ROCm/rocm-systems PR 2053).
    if not lost or (not some and case.in_vm is not False):
        return [] if some else None
    ends = sorted({tuple(sorted(pair)) for pair in lost})
    who = sorted({end for pair in ends for end in pair})
    names = [f"{case.name(a)}-{case.name(b)}" for a, b in ends]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    rates = {_rate(case, a, b) for a, b in lost} - {None}
    rate = f" of {gbs(rates.pop())}" if len(rates) == 1 else ""
    return [
        XGMI.finding(
            SLOW,
            f"xGMI links are down: {', '.join(names[:4])}{more}",
            devices=who,
            evidence=[
                Evidence(
                    what=f"xGMI link of {case.name(a)} to {case.name(b)}",
                    value="down" if (a, b) in down else "none; the model has one for every pair",
                    source="amdsmi link metrics and topology",
                )
                for a, b in lost[:8]
            ],
            consequence=f"Each of these pairs loses its own link{rate} one way and goes over PCIe; "
            "RCCL finds no full mesh and builds fewer rings.",
            fix=[
                Fix(text="Read the links.", command="amd-smi xgmi -l"),
                Fix(
                    text="Look for xGMI errors in the kernel's log, then restart the node.",
                    command="dmesg | grep -i xgmi",
                    needs_root=True,
                ),
            ],
        )
    ]


def _gone(case: Case, gpus: list[Gpu]) -> list[tuple[str, str]]:
    """Pairs without a record of a link, on a whole board of a model that joins every pair."""
    sku = case.sku(gpus[0])
    board = [gpu for gpu in case.machine.gpus if gpu.vendor == "amd" and gpu.partition is None]
    if (
        sku is None
        or sku.devices > 1
        or sku.fabric != "point_to_point"
        or not sku.link_count
        or sku.link_count + 1 != sku.world_size
        or len(board) != sku.world_size
        or any(case.sku(gpu) != sku for gpu in board)
    ):
        return []
    return [
        (gpu.address, other.address)
        for gpu in gpus
        for other in board
        if other is not gpu
        and gpu.why("xgmi") is None
        # The library names no link to a GPU that it does not see.
        and (other.index is None) == (gpu.index is None)
        and all(link.remote_address != other.address for link in gpu.xgmi)
    ]


def _rate(case: Case, a: str, b: str) -> float | None:
    """What the links of a pair carry; the model's figure where no record of one is left."""
    gpu = case.machine.gpu(a)
    if gpu is None:
        return None
    link = next((one for one in gpu.xgmi if one.remote_address == b), None)
    sku = case.sku(gpu)
    if link is not None and link.raw_gbs is not None:
        return link.raw_gbs
    return None if sku is None else sku.pair_gbs


def _check_iommu(case: Case) -> Iterable[Finding] | None:
    gpus = _amd(case)
    kinds = {
        gpu.address: device.iommu_type
        for gpu in gpus
        if (device := case.pci(gpu.address)) is not None and device.iommu_type is not None
    }
    if case.in_vm is not False or not kinds:
        return None
    translated = [address for address, kind in kinds.items() if kind in TRANSLATED]
    if not translated or len(gpus) < 2:
        return []
    evidence = [
        Evidence(
            what=f"IOMMU type of {case.names(translated)}",
            value=", ".join(sorted({kinds[address] for address in translated})),
            source="/sys/kernel/iommu_groups/*/type",
        )
    ]
    flags = case.host.cmdline_flags
    if flags is not None and "iommu=pt" not in flags:
        shown = " ".join(flags) or "no argument about the IOMMU"
        evidence.append(Evidence(what="kernel arguments", value=shown, source="/proc/cmdline"))
    return [
        IOMMU.finding(
            SLOW,
            f"the IOMMU translates addresses of {case.names(translated)}",
            devices=translated,
            evidence=evidence,
            consequence="RCCL warns of it: host copies and traffic to NICs are slower, and on some "
            "hosts a job over several GPUs hangs at its start.",
            fix=[kernel_argument("Start the kernel with iommu=pt.", "iommu=pt")],
        )
    ]


def _check_bar(case: Case) -> Iterable[Finding] | None:
    known = [gpu for gpu in _amd(case) if gpu.bar1_bytes is not None and gpu.memory_bytes]
    if not known:
        return None
    small = [gpu for gpu in known if (gpu.bar1_bytes or 0) < _WHOLE_BAR * (gpu.memory_bytes or 0)]
    if not small:
        return []
    joined = all(any(link.active for link in gpu.xgmi) for gpu in small)
    alone = len(case.gpus) < 2
    return [
        BAR.finding(
            NOTICE if joined or alone else SLOW,
            f"the BAR of {case.names([gpu.address for gpu in small])} does not hold its memory",
            devices=[gpu.address for gpu in small],
            evidence=[
                Evidence(
                    what=f"largest BAR of {case.name(gpu.address)}",
                    value=f"{size(gpu.bar1_bytes)} for {size(gpu.memory_bytes)} of memory",
                    source="sysfs resource",
                )
                for gpu in small
            ],
            consequence=(
                "xGMI does not need it; GPUDirect RDMA from a NIC does."
                if joined
                else "amdgpu grants no P2P over PCIe: RCCL goes through host memory (SHM)."
            ),
            fix=[
                Fix(text='Switch on "Above 4G decoding" and "Resizable BAR" in the firmware setup.')
            ],
        )
    ]


def _check_few(case: Case) -> Iterable[Finding] | None:
    gpus = [gpu for gpu in _amd(case) if gpu.partition is None]
    models = [case.sku(gpu) for gpu in gpus] if len(gpus) == len(case.gpus) else []
    sku = models[0] if models else None
    if (
        sku is None
        or any(one != sku for one in models)
        or not sku.pair_gbs
        or not sku.link_count
        or not sku.world_size
    ):
        return None
    # Cards with bridges, or without any, are no board.
    wired = sku.fabric == "point_to_point" and all(pair.fast for pair in case.pairs)
    # Of packages of two dies some pairs have no link, others several.
    full = wired and sku.link_count + 1 == sku.world_size and sku.devices == 1
    if not full or not 1 < len(gpus) < sku.world_size:
        return []
    count = len(gpus)
    known = next(
        (
            one
            for one in sku.figures
            if one.quantity == "allreduce_busbw" and one.gpus == sku.world_size and one.fraction
        ),
        None,
    )
    used = "is" if count == 2 else "are"
    price = f"{count - 1} of {sku.link_count} links of each GPU {used} in use"
    paper = (count - 1) * sku.pair_gbs
    exact = next(
        (
            one
            for one in sku.figures
            if (one.quantity, one.kind, one.gpus) == ("allreduce_busbw", "typical", count)
        ),
        None,
    )
    if exact is not None and known is not None:
        price += (
            f": all-reduce reaches {gbs(exact.measured)} busbw as others measured, where "
            f"{sku.world_size} GPUs reach {gbs(known.measured)}"
        )
    elif known is not None and known.fraction:
        reach = known.fraction * (count - 1) * sku.pair_gbs
        price += (
            f": all-reduce reaches about {gbs(reach)} busbw (an estimate), where {sku.world_size} "
            f"GPUs reach {gbs(known.measured)}"
        )
    return [
        FEW.finding(
            BY_DESIGN,
            f"{count} of {sku.world_size} GPUs of a full mesh",
            devices=[gpu.address for gpu in gpus],
            evidence=[
                Evidence(
                    what="GPUs that take part",
                    value=f"{count} {sku.name}; one link of {gbs(sku.pair_gbs)} for each pair, on "
                    f"paper {count - 1} x {figure(sku.pair_gbs)} = {gbs(paper)} for each GPU, "
                    f"{gbs(sku.link_count * sku.pair_gbs)} with all {sku.world_size}",
                    source="amdsmi, data sheet",
                )
            ],
            consequence=f"{price}. That is how the board is wired; do not compare it with two GPUs "
            "on NVSwitches.",
            fix=[Fix(text="More channels help a little.", command="export NCCL_MIN_NCHANNELS=32")],
        )
    ]


XGMI = Rule(
    id="xgmi-link-down",
    peers="D25",
    title="xGMI links that are down",
    evidence="state of the xGMI links of each GPU",
    disproof="all links up in `amd-smi xgmi -l`; a guest may show none although they work",
    sources=("ROCm/rocm-systems#5763", "ROCm/rocm-systems PR 2053"),
    check=_check_xgmi,
)
IOMMU = Rule(
    id="amd-iommu",
    peers="D26",
    title="An IOMMU that translates addresses of AMD GPUs",
    evidence="type of the IOMMU group of each AMD GPU, on bare metal",
    disproof="identity in /sys/kernel/iommu_groups/*/type of the GPU's group",
    sources=("ROCm/rccl#1026", "ROCm/vllm#390", "RCCL src/init.cc"),
    check=_check_iommu,
)
BAR = Rule(
    id="amd-small-bar",
    peers="D26",
    title="AMD GPUs whose BAR does not hold their memory",
    evidence="size of the largest BAR and of the memory",
    disproof="a BAR of the size of the memory in `lspci -vv`",
    sources=("ROCm/ROCm#579", "ROCm/rccl#92"),
    check=_check_bar,
)
FEW = Rule(
    id="amd-few-gpus",
    peers="D27",
    title="A part of a full mesh of xGMI",
    evidence="number of GPUs that take part, and the model's links",
    disproof="all GPUs of the board in `amd-smi list`",
    sources=("ROCm/rccl PR 1270", "ROCm/rccl PR 1204", "stas00/ml-engineering network"),
    check=_check_few,
)

RULES = (XGMI, IOMMU, BAR, FEW)
