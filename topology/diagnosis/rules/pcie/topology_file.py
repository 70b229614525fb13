"""A topology XML beside GPUs that are not in it: it was made for another machine."""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA
from ....model.element import NOT_IN_XML
from ....model.severity import SLOW
from ....sources.collect import ONLY_PCI
from ...case import Case
from ...rule import Found, Rule

_SHOWN = 4


def _check(case: Case) -> Found:
    if case.machine.nccl_topology is None:
        return None
    in_file = {
        device.address
        for device in case.machine.pci
        if device.kind == "gpu" and device.why("driver") == NOT_IN_XML
    }
    drawn = {gpu.address for gpu in case.machine.gpus if gpu.why("uuid") in (NOT_IN_XML, ONLY_PCI)}
    here = [
        gpu
        for gpu in case.machine.gpus
        if gpu.uuid is not None and not gpu.address.startswith("topo:")
    ]
    if not here or not (in_file or drawn):
        return None
    if in_file & {gpu.address for gpu in here}:
        return []
    named = sorted(in_file | drawn)
    return OTHER.finding(
        SLOW,
        f"the topology file is of another machine: it has none of the {len(here)} GPUs here",
        devices=here,
        evidence=[
            (
                "GPUs of the file",
                ", ".join(named[:_SHOWN]) + (", ..." if len(named) > _SHOWN else ""),
                ", ".join(case.snapshot.source),
            ),
            (
                "GPUs of the driver",
                ", ".join(gpu.address for gpu in here[:_SHOWN])
                + (", ..." if len(here) > _SHOWN else ""),
                ", ".join(case.snapshot.source),
            ),
        ],
        impact=f"With it in NCCL_TOPO_FILE {case.words.library} puts every GPU directly "
        "at a CPU: switches and NICs near a GPU are not seen, and rings and trees are laid "
        "without them.",
        fix=[
            "Let the library find the machine itself. $ unset NCCL_TOPO_FILE",
            "In a guest, take the file that its operator wrote for this kind of it.",
        ],
    )


OTHER = Rule(
    id="topology-of-another-machine",
    family="D06",
    title="a topology file that was made for another machine",
    evidence="a topology XML, and the addresses of the GPUs by their driver",
    disproof="an address of {asked} in the file",
    asked=(
        (NVIDIA.id, "`nvidia-smi --query-gpu=pci.bus_id --format=csv`"),
        (AMD.id, "`amd-smi list`"),
    ),
    sources=("NCCL graph/topo.cc: ncclTopoGetSystem", "NVIDIA/nccl#1843"),
    check=_check,
)
RULES = (OTHER,)
