"""How the GPUs are wired: in islands of NVLink or xGMI, or by PCIe alone."""

from ....hardware.specs import BoardLinks
from ....hardware.vendors import AMD, NVIDIA
from ....model.machine import Gpu
from ....model.page import Basis
from ....model.severity import BY_DESIGN
from ... import vendors
from ...case import Case
from ...pairs import THROUGH_HOST, in_braces, joined
from ...rule import Found, Rule, needed

NO_LINKS = ("Not Supported", "Invalid Argument", "the driver lists no link")
"""What NVML says of the links of a GPU that has none."""
_MATRIX = "nvidia-smi topo -m"


def _check_islands(case: Case) -> Found:
    counted = {gpu.address for gpu in case.gpus}
    islands = (counted.intersection(island) for island in case.node.islands)
    groups = needed([sorted(island) for island in islands if len(island) > 1])
    joined = set().union(*groups)
    # No job spans two vendors: only GPUs of the vendor of the joined ones can be missing.
    makers = {gpu.vendor for gpu in case.gpus if gpu.address in joined}
    alone = sorted(
        gpu.address
        for gpu in case.gpus
        if gpu.address not in joined and gpu.vendor in makers and _read(gpu)
    )
    if len(groups) + len(alone) < 2:
        return []
    shown = in_braces(case, [*groups, *([gpu] for gpu in alone)])
    kind = _kind(case)
    return ISLANDS.finding(
        BY_DESIGN,
        f"{kind} joins GPUs in islands: {shown}",
        devices=sorted(counted),
        evidence=[(f"GPUs that {kind} joins", shown, vendors.source(case.gpus, _MATRIX))],
        impact=f"A job on up to {max(map(len, groups))} GPUs of one island keeps to the fast "
        "links; one on more crosses PCIe, at PCIe's pace. Put tensor parallel groups inside an "
        "island.",
    )


def _kind(case: Case) -> str:
    amd = all(gpu.vendor == AMD.id for gpu in case.gpus if gpu.nvlinks or gpu.xgmi)
    return "xGMI" if amd and any(gpu.xgmi for gpu in case.gpus) else "NVLink"


def _read(gpu: Gpu) -> bool:
    """Whether the links of a GPU were read, even if it has none."""
    return bool(gpu.nvlinks or gpu.xgmi or gpu.why("nvlinks") in NO_LINKS)


def _check_pcie_only(case: Case) -> Found:
    pairs = needed(case.pairs)
    matrix = _matrix_alone(case)
    if any(pair.code == "?" for pair in pairs) or not (matrix or _links_read(case)):
        return None  # where links were not read, their absence is not known
    if any(pair.fast for pair in pairs):
        return []
    if case.in_vm is not False and any(gpu.xgmi for gpu in case.gpus):
        return None  # a guest may show its xGMI links as down although they work
    kinds = sorted({pair.code for pair in pairs})
    through = sorted({transport for pair in pairs for transport in pair.transports})
    groups = _processors(case)
    source = vendors.source(case.gpus, _MATRIX)
    evidence = [("relations of the GPUs", ", ".join(kinds), source)]
    where = (
        "No two of them share a PCIe switch, so all traffic crosses the host."
        if set(kinds) <= set(THROUGH_HOST)
        else "GPUs below one switch copy directly, the others through the host."
    )
    if through:
        what = f"transports of {case.words.libraries}"
        evidence.append((what, ", ".join(through), "gputop explain"))
    if groups:
        evidence.append(("GPUs without SYS between them", in_braces(case, groups), source))
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
        (cell := case.matrix.cell(*pair.ends)) is not None and cell.basis is Basis.READ
        for pair in case.pairs
    )


def _links_read(case: Case) -> bool:
    """Whether the links of all GPUs were read that may have any."""
    skus = [(gpu, case.sku(gpu)) for gpu in case.gpus]
    return all(_read(gpu) for gpu, sku in skus if sku is None or sku.fabric is not BoardLinks.NONE)


def _processors(case: Case) -> list[list[str]]:
    """The GPUs in groups that SYS sets apart; [] where there is one, or each is a group."""
    near = [pair.ends for pair in case.pairs if not pair.far]
    groups = joined([(gpu.address,) for gpu in case.gpus], near)
    return groups if 1 < len(groups) < len(case.gpus) else []


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
