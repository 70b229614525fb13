"""NVLinks that are inactive where nothing shows whether they are meant to be."""

from __future__ import annotations

from ....hardware.vendors import NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import CANNOT_TELL
from ...case import Case
from ...rule import Found, Rule
from .down import REPAIR, STATE, down, links_read, price, up


def _check(case: Case) -> Found:
    """Look at meshes alone: on boards with NVSwitches `nvlink-down` has the last word."""
    known = links_read(case)
    if not known or case.in_vm is False:
        return None
    if case.in_vm or any(gpu.virtualization == "passthrough" for gpu in known):
        return []
    found = [
        (gpu, sku.link_count)
        for gpu in known
        if (sku := case.sku(gpu)) is not None and sku.link_count and case.devices.part_of_mesh(gpu)
        if 0 < up(gpu) < sku.link_count and down(gpu)
    ]
    # A guest's GPUs have lost the same number of links, those to the GPUs of other guests.
    if not found or (len(known) > 1 and len({up(gpu) for gpu in known}) == 1):
        return []
    return _inactive(case, found)


def _inactive(case: Case, found: list[tuple[Gpu, int]]) -> Finding:
    who = [gpu.address for gpu, _ in found]
    links = sum(len(down(gpu)) for gpu, _ in found)
    total = sum(count for _, count in found)
    return INACTIVE.finding(
        CANNOT_TELL,
        f"{links} of {total} NVLinks of {case.names(who)} inactive: a fault, unless a guest has "
        "no GPU at their other ends",
        devices=who,
        evidence=[
            (
                f"NVLinks of {case.name(gpu)} that are up",
                f"{up(gpu)} of {count}; inactive: {', '.join(map(str, down(gpu)))}",
                f"{STATE}; {count} by the model's data sheet",
            )
            for gpu, count in found
        ],
        impact=price(case, [(gpu, count, "") for gpu, count in found]),
        fix=(
            (
                "Hold it against the other GPUs: those of a whole board have all their links, "
                "those of a guest as few as this one. $ nvidia-smi nvlink -s"
            ),
            "Ask whether this is a guest. $ systemd-detect-virt",
            *REPAIR[1:],
        ),
    )


INACTIVE = Rule(
    id="nvlink-inactive",
    family="D12",
    title="NVLinks of a mesh that are inactive, in a guest or by a fault",
    evidence="state of each NVLink of a GPU, where nobody looked for a hypervisor",
    vendor=NVIDIA.id,
    disproof="the same number of links on the other GPUs of this guest",
    sources=("NVIDIA V100 data sheet: 6 NVLinks", "Azure/azhpc-diagnostics#73"),
    check=_check,
    implied_by=("nvlink-down", "gpu-lost"),
)
RULES = (INACTIVE,)
