"""GPUs that no link joins although their sisters are joined, as a matrix alone shows."""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA
from ....model.element import BASE_FILE
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW
from ....sources.collect import ONLY_PCI
from ... import vendors
from ...case import Case
from ...pairs import Pair
from ...rule import Found, Rule, Step

WHOLE = (2, 4, 8, 16)
"""GPUs that are joined on a board or by a bridge: pairs, bridges and boards of four, HGX and OAM
boards of eight, DGX-2. No product joins another number."""
_PCIE = "pcie"
_FEWEST = 3
"""A pair and one more GPU are two cards with a bridge, and one without."""


def _check(case: Case) -> Found:
    pairs = case.pairs
    if not pairs or not any(pair.fast for pair in pairs) or any(g.partition for g in case.gpus):
        return None
    near: dict[str, list[Pair]] = {gpu.address: [] for gpu in case.gpus}
    for pair in pairs:
        for end in pair.ends:
            near[end].append(pair)
    alone = [gpu for gpu in case.gpus if all(_apart(case, pair) for pair in near[gpu.address])]
    if not alone:
        return []
    found = []
    for island in case.node.islands:
        size = len(island)
        whole = next((count for count in WHOLE if count > size), 0)
        sisters = [gpu for gpu in alone if _sister(case, gpu, island)]
        if size >= _FEWEST and size not in WHOLE and 0 < len(sisters) == whole - size:
            found.append(_finding(case, sisters, island))
    return found


def _apart(case: Case, pair: Pair) -> bool:
    """Whether it was read that no link joins the two."""
    if pair.fast:
        return False
    if any(grant.link_type == _PCIE for grant in pair.grants):
        return True
    if pair.letters == "?":
        return False
    if case.machine.nccl_topology is not None:
        return all(gpu.why("nvlinks") != BASE_FILE for gpu in (pair.one, pair.other))
    cell = case.matrix.cell(*pair.ends)
    return cell is not None and cell.basis == "read"


def _sister(case: Case, gpu: Gpu, island: tuple[str, ...]) -> bool:
    """Whether it could belong to the island: not of another model, not split, not by design."""
    if gpu.mig_enabled or gpu.virtualization == "vgpu" or gpu.why("uuid") == ONLY_PCI:
        return False
    asked = gpu.uuid is not None and gpu.why("nvlinks") is None
    if gpu.vendor == NVIDIA.id and (gpu.nvlinks or asked):
        return False  # the driver was asked for its links: see nvlink-down and nvlink-missing
    sku = case.sku(gpu)
    if sku is not None and sku.fabric == "none":
        return False
    others = [other for other in case.gpus if other.address in island]
    return all(
        other.vendor == gpu.vendor and (None in (gpu.name, other.name) or gpu.name == other.name)
        for other in others
    )


def _finding(case: Case, found: list[Gpu], island: tuple[str, ...]) -> Finding:
    who = [gpu.address for gpu in found]
    amd = vendors.amd(found)
    # What detects a topology for NCCL has started CUDA on the GPU.
    started = amd or case.machine.nccl_topology is not None
    inside = {pair.letters for pair in case.pairs if set(pair.ends) <= set(island)}
    outside = {pair.letters for pair in case.pairs if set(pair.ends) & set(who)}
    verb = "is" if len(who) == 1 else "are"
    return OUTSIDE.finding(
        SLOW if started else BROKEN,
        f"{case.names(who)} {verb} outside the {case.words.link} island of its {len(island)} "
        "sisters",
        devices=who,
        evidence=[
            (
                f"relations among {case.names(island)}",
                ", ".join(sorted(inside)),
                ", ".join(case.snapshot.source),
            ),
            (
                f"relations of {case.names(who)}",
                ", ".join(sorted(outside)),
                ", ".join(case.snapshot.source),
            ),
        ],
        impact="No product joins "
        f"{len(island)} GPUs, so this is a board of {len(island) + len(who)} of which some are "
        f"off. {case.words.library} finds no common {case.words.link} for all of them: every "
        "collective over the board goes over PCIe or the network"
        + ("." if started else ", or CUDA does not start on them at all."),
        fix=_fix(case, amd=amd),
    )


def _fix(case: Case, *, amd: bool) -> list[Step]:
    if amd:
        return [
            "Read the state of each link. $ amd-smi xgmi",
            "Look for what the driver reported. # dmesg | grep -iE 'xgmi|ras'",
        ]
    return [
        "Read the state of each link. $ nvidia-smi nvlink -s",
        (
            "Read its state in the fabric, and whether MIG is on, which switches its links off. "
            "$ nvidia-smi -q | grep -iE -A4 'fabric|mig mode'"
        ),
        "Look for Xid 74 and SXid messages in the kernel's log. # dmesg | grep -iE 'xid'",
        (
            "End all jobs, reset all GPUs of the board together or restart the node; if it stays, "
            "have the GPU and the baseboard looked at."
        ),
    ]


OUTSIDE = Rule(
    id="gpu-outside-island",
    family="D12",
    title="GPUs that {any_link} does not connect to GPUs of the same model",
    evidence="relations of all pairs of GPUs",
    disproof="NV# in its row of `nvidia-smi topo -m`, or MIG switched on for it",
    disproof_by=((AMD.id, "XGMI in its row of `rocm-smi --showtopotype`"),),
    sources=("NVIDIA HGX and DGX user guides: boards of 4, 8 and 16", "NVIDIA/nccl#340"),
    check=_check,
    implied_by=(
        "gpu-lost",
        "nvlink-down",
        "nvlink-missing",
        "nvlink-p2p-refused",
        "fabric-state",
        "xgmi-link-down",
    ),
)


def _check_incomplete(case: Case) -> Found:
    """Only where no PCI device is listed: where they are, other rules know who is missing.

    A text alone is never called healthy; a node would be, though one of its GPUs may be lost.
    """
    said = case.machine.relations or case.machine.pairs
    if case.machine.pci or not said or any(gpu.partition for gpu in case.gpus):
        return None
    islands = case.node.islands
    size = len(islands[0]) if len(islands) == 1 else 0
    if size != len(case.gpus) or size < _FEWEST or size in WHOLE:
        return []
    board = next((count for count in WHOLE if count > size), 0)
    if not board:
        return []
    return INCOMPLETE.finding(
        CANNOT_TELL if case.on_node else NOTICE,
        f"{size} GPUs are joined by {case.words.link}, and boards of this kind have {board}",
        devices=case.gpus,
        evidence=[
            (
                f"GPUs that {case.words.link} joins",
                case.names(list(islands[0])),
                ", ".join(case.snapshot.source),
            )
        ],
        impact=f"{board - size} of the board {'is' if board - size == 1 else 'are'} not "
        f"{'here' if case.on_node else 'in this text'}: lost, or not given to this container "
        "or guest.",
        fix=[
            "Count the GPUs on PCI. $ lspci | grep -iE '3D|accelerator'",
            "Look for what the driver reported. # dmesg",
        ],
    )


INCOMPLETE = Rule(
    id="board-incomplete",
    family="D12",
    title="a number of connected GPUs that no known board has",
    evidence="relations of all pairs of GPUs, where no PCI devices are listed",
    disproof="as many GPUs in `lspci` as here",
    sources=("NVIDIA HGX and DGX user guides: boards of 4, 8 and 16",),
    check=_check_incomplete,
    implied_by=("gpu-lost", "amd-few-gpus"),
)
RULES = (OUTSIDE, INCOMPLETE)
