"""The best that a machine can do, where the search starts (search.cc:ncclTopoSearchInit)."""

from __future__ import annotations

from ..nodes import LOCAL_GBS, System, SystemNode
from .draft import single


def limits(system: System, *, nets: bool) -> tuple[float, float]:
    """(widest path of any GPU, widest sum of links of any GPU) in GB/s.

    `nets`: paths count to the NICs, else to the other GPUs.
    """
    gpus = system.nodes["GPU"]
    if not nets and len(gpus) == 1:
        return LOCAL_GBS, LOCAL_GBS
    widest = max(
        (
            path.bandwidth_gbs
            for gpu in gpus
            for path in gpu.paths.get("NET" if nets else "GPU", ())
            if path.links
        ),
        default=0.0,
    )
    return single(widest), max((_links_gbs(gpu) for gpu in gpus), default=0.0)


def _links_gbs(gpu: SystemNode) -> float:
    nvlink = pci = 0.0
    for link in gpu.links:
        if link.kind == "NVL":
            nvlink = single(nvlink + link.bandwidth_gbs)
        elif link.kind == "PCI":
            pci = single(link.bandwidth_gbs)
    return max(pci, nvlink)


def splits_in_two(gpus: list[SystemNode]) -> bool:
    """Whether NVLink makes exactly two islands of several GPUs (ncclTopoSplitNvLink)."""
    island = list(range(len(gpus)))
    for index, gpu in enumerate(gpus):
        for other in range(index + 1, len(gpus)):
            if gpu.paths["GPU"][other].type.name == "NVL":
                island[other] = island[index]
    return sum(island.count(index) > 1 for index in range(len(gpus))) == 2
