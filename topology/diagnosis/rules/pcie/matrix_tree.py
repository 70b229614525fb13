"""The PCIe tree as a matrix shows it: a flat one of a guest, and switches that GPUs share."""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA
from ....model.finding import Finding
from ....model.severity import BY_DESIGN, NOTICE
from ...case import Case
from ...pairs import BELOW_SWITCH
from ...rule import Found, Rule
from .vm_tree import TOPOLOGY_VARIABLE, on_a_board

_BOARD = 4
"""GPUs that are more than one host bridge of any CPU has beside NICs."""
_FLAT = "PHB"


def _check_flat(case: Case) -> Found:
    relations = case.machine.relations
    gpus = {gpu.address for gpu in case.gpus}
    if case.in_vm is not None:
        return None
    if case.machine.nccl_topology is not None:
        return [_flat(case, "PCIe switches above the GPUs", "none")] if _bare(case) else []
    if case.machine.pci or not relations:
        return None
    far = {item.letters for item in relations if not {item.a, item.b} <= gpus}
    near = {item.letters for item in relations if {item.a, item.b} <= gpus}
    letters = {item for item in near | far if not item.startswith("NV") and item != "X"}
    # NVLink between them makes it a board: then PCIe switches belong above the GPUs.
    joined = any(item.startswith("NV") for item in near)
    if len(gpus) < _BOARD or not joined or not far:
        return []
    if letters != {_FLAT}:
        return []
    return _flat(case, "relations over PCIe", f"{_FLAT} everywhere, PIX or PXB nowhere")


def _bare(case: Case) -> bool:
    """Whether a topology XML shows a large board and no bridge above any of its GPUs.

    Boards of four hang on the CPUs themselves in many servers.
    """
    ways = [case.way_up(gpu.address) for gpu in case.gpus]
    whole = len(ways) > _BOARD and all(len(way) == 1 for way in ways)
    return whole and all(on_a_board(case, gpu.address) for gpu in case.gpus)


def _flat(case: Case, what: str, value: str) -> Finding:
    return FLAT.finding(
        NOTICE,
        f"none of the {len(case.gpus)} GPUs has a PCIe switch above it: the flat tree of a virtual "
        "machine",
        devices=case.gpus,
        evidence=[(what, value, ", ".join(case.snapshot.source))],
        impact="A board of this kind has PCIe switches between its GPUs and NICs; a "
        f"hypervisor hides them. {case.words.library} then takes every NIC for equally far: it "
        "may pick a far one, or none for GPUDirect RDMA, unless a topology file tells it.",
        fix=[
            (
                "Name the topology file of this machine type, which its operator writes. "
                f"$ export {TOPOLOGY_VARIABLE}=/etc/nccl-topology.xml"
            ),
            "Ask whether this is a guest. $ systemd-detect-virt",
        ],
    )


def _check_shared(case: Case) -> Found:
    pairs = case.pairs
    if case.machine.host is not None or not pairs or any(pair.letters == "?" for pair in pairs):
        return None
    below: dict[str, set[str]] = {}
    for pair in pairs:
        if pair.letters in BELOW_SWITCH:
            group = set(pair.ends).union(*(below.get(end, ()) for end in pair.ends))
            below |= dict.fromkeys(group, group)
    groups = sorted({tuple(sorted(group)) for group in below.values()})
    if not groups:
        return []
    shown = " ".join("{" + ", ".join(map(case.name, group)) + "}" for group in groups)
    most = max(map(len, groups))
    return SHARED.finding(
        BY_DESIGN,
        f"GPUs share the uplink of a PCIe switch: {shown}",
        devices=sorted(below),
        evidence=[("GPUs with PIX or PXB between them", shown, ", ".join(case.snapshot.source))],
        impact=f"Up to {most} GPUs divide one link to the host's memory and to the GPUs "
        "of other switches: copies of all of them at once run at a part of their rate.",
    )


FLAT = Rule(
    id="flat-tree-of-a-guest",
    family="D06",
    title="a flat PCIe tree, as hypervisors show it, in a matrix or a topology XML",
    evidence="relations of GPUs and NICs or a topology XML, where nobody looked for a hypervisor",
    disproof="PCIe switches in `lspci -t` of this machine",
    sources=("NVIDIA/nccl#1843", "NVIDIA/nccl-tests#256"),
    check=_check_flat,
    implied_by=("vm-flat-tree",),
)
SHARED = Rule(
    id="shared-switch",
    family="D39",
    title="PCIe switches that several GPUs share, by a matrix or a topology XML",
    evidence="relations of all pairs of GPUs, in a text that says nothing of the host",
    disproof="a way over the host bridge between them in {asked}",
    asked=((NVIDIA.id, "`nvidia-smi topo -m`"), (AMD.id, "`lspci -t`")),
    sources=("NVIDIA/nccl#44", "nvidia-smi topo -m: legend"),
    check=_check_shared,
    implied_by=("shared-uplink",),
)
RULES = (FLAT, SHARED)
