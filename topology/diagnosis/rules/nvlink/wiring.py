"""How the GPUs are wired: in islands of NVLink or xGMI, or by PCIe alone."""

from __future__ import annotations

from ....hardware.specs import BoardLinks
from ....hardware.vendors import AMD, NVIDIA
from ....model.machine import Gpu
from ....model.severity import BY_DESIGN
from ... import vendors
from ...case import Case
from ...pairs import THROUGH_HOST
from ...rule import Found, Rule

NO_LINKS = ("Not Supported", "Invalid Argument", "the driver lists no link")
"""What NVML says of the links of a GPU that has none."""
_MATRIX = "nvidia-smi topo -m"


def _check_islands(case: Case) -> Found:
    counted = {gpu.address for gpu in case.gpus}
    groups = [
        found for island in case.node.islands if len(found := sorted(counted & set(island))) > 1
    ]
    if not groups:
        return None
    joined = {address for group in groups for address in group}
    # No job spans two vendors: only GPUs of the vendor of the joined ones can be missing.
    makers = {gpu.vendor for gpu in case.gpus if gpu.address in joined}
    alone = sorted(
        gpu.address
        for gpu in case.gpus
        if gpu.address not in joined and gpu.vendor in makers and _read(gpu)
    )
    if len(groups) + len(alone) < 2:
        return []
    shown = ["{" + ", ".join(map(case.name, group)) + "}" for group in groups]
    shown += ["{" + case.name(gpu) + "}" for gpu in alone]
    largest = max(map(len, groups))
    return ISLANDS.finding(
        BY_DESIGN,
        f"{_kind(case)} joins GPUs in islands: {' '.join(shown)}",
        devices=sorted(counted),
        evidence=[
            (f"GPUs that {_kind(case)} joins", " ".join(shown), vendors.source(case.gpus, _MATRIX))
        ],
        impact=f"A job on up to {largest} GPUs of one island keeps to the fast links; one "
        "on more crosses PCIe, at PCIe's pace. Put tensor parallel groups inside an island.",
    )


def _kind(case: Case) -> str:
    amd = all(gpu.vendor == AMD.id for gpu in case.gpus if gpu.nvlinks or gpu.xgmi)
    return "xGMI" if amd and any(gpu.xgmi for gpu in case.gpus) else "NVLink"


def _read(gpu: Gpu) -> bool:
    """Whether the links of a GPU were read, even if it has none."""
    return bool(gpu.nvlinks or gpu.xgmi or gpu.why("nvlinks") in NO_LINKS)


def _check_pcie_only(case: Case) -> Found:
    pairs = case.pairs
    if not pairs or any(pair.code == "?" for pair in pairs):
        return None
    wired = [
        gpu for gpu in case.gpus if (sku := case.sku(gpu)) is None or sku.fabric != BoardLinks.NONE
    ]
    matrix = _matrix_alone(case)
    if not matrix and not all(map(_read, wired)):
        return None  # where links were not read, their absence is not known
    if any(pair.fast for pair in pairs):
        return []
    if case.in_vm is not False and any(gpu.xgmi for gpu in case.gpus):
        return None  # a guest may show its xGMI links as down although they work
    kinds = sorted({pair.code for pair in pairs})
    far = set(kinds) <= set(THROUGH_HOST)
    through = sorted({transport for pair in pairs for transport in pair.transports})
    evidence = [("relations of the GPUs", ", ".join(kinds), vendors.source(case.gpus, _MATRIX))]
    if through:
        evidence.append(
            (f"transports of {case.words.libraries}", ", ".join(through), "gputop explain")
        )
    where = (
        "No two of them share a PCIe switch, so all traffic crosses the host."
        if far
        else "GPUs below one switch copy directly, the others through the host."
    )
    groups = _processors(case)
    if groups:
        shown = " ".join("{" + ", ".join(map(case.name, group)) + "}" for group in groups)
        evidence.append(
            ("GPUs without SYS between them", shown, vendors.source(case.gpus, _MATRIX))
        )
        where += (
            " Pairs of different groups cross the link between processors, or between NUMA nodes "
            "of one, as well."
        )
    if matrix:
        where += " A matrix shows NVLinks that are off as PCIe too: `nvidia-smi nvlink -s` tells."
    return PCIE_ONLY.finding(
        BY_DESIGN,
        f"{len(case.gpus)} GPUs are joined by PCIe alone"
        + (", across processors" if groups else ""),
        devices=case.gpus,
        evidence=evidence,
        impact=f"{where} Collectives run at PCIe's pace: prefer data or pipeline "
        "parallelism to tensor parallelism here.",
    )


def _matrix_alone(case: Case) -> bool:
    """Whether `nvidia-smi topo -m` is all that is known: it names every pair's NVLinks."""
    return all(gpu.vendor == NVIDIA.id and case.sku(gpu) is None for gpu in case.gpus) and all(
        (cell := case.matrix.cell(*pair.ends)) is not None and cell.basis == "read"
        for pair in case.pairs
    )


def _processors(case: Case) -> list[list[str]]:
    """The GPUs in groups that SYS sets apart; [] where there is one, or each is a group."""
    near: dict[str, set[str]] = {gpu.address: {gpu.address} for gpu in case.gpus}
    for pair in case.pairs:
        if pair.code != "SYS":
            joined = near[pair.ends[0]] | near[pair.ends[1]]
            near |= dict.fromkeys(joined, joined)
    groups = sorted({tuple(sorted(group)) for group in near.values()})
    return [list(group) for group in groups] if 1 < len(groups) < len(near) else []


ISLANDS = Rule(
    id="gpu-islands",
    family="D12",
    title="GPUs that {any_link} joins in groups only",
    evidence="relations of all pairs of GPUs",
    disproof="NV# between every pair in `nvidia-smi topo -m`, XGMI in `rocm-smi --showtopotype`",
    disproof_by=((AMD.id, "XGMI between every pair in `rocm-smi --showtopotype`"),),
    sources=("NVIDIA/nccl-tests#178", "deepspeedai/DeepSpeed#1444"),
    check=_check_islands,
    implied_by=("nvlink-down", "nvlink-missing", "nvlink-p2p-refused", "gpu-outside-island"),
)

PCIE_ONLY = Rule(
    id="pcie-only",
    family="D12",
    title="GPUs that are joined by PCIe alone",
    evidence="relations of all pairs of GPUs, {any_links} of each",
    disproof="NV# or XGMI between any two in `nvidia-smi topo -m`",
    disproof_by=((AMD.id, "XGMI between any two in `rocm-smi --showtopotype`"),),
    sources=("NVIDIA/DCGM#49", "NVIDIA/nccl-tests#178"),
    check=_check_pcie_only,
    implied_by=("nvlink-down", "nvlink-missing", "xgmi-link-down"),
)


RULES = (ISLANDS, PCIE_ONLY)
