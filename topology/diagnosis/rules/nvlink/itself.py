"""Links that lead back to the GPU that they start from: a topology XML can say so."""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA
from ....model.machine import Gpu
from ....model.severity import SLOW
from ...case import Case
from ...rule import Found, Rule


def _check(case: Case) -> Found:
    ends = {gpu.address: _ends(gpu) for gpu in case.gpus}
    if not any(ends.values()):
        return None
    loops = {own: found.count(own) for own, found in ends.items() if own in found}
    if not loops:
        return []
    who = list(loops)
    return ITSELF.finding(
        SLOW,
        f"links of {case.names(who)} lead back to the GPU itself",
        devices=who,
        evidence=[
            (
                f"links of {case.name(own)}",
                f"{count} of {len(ends[own])} to {own}, its own address",
                ", ".join(case.snapshot.source),
            )
            for own, count in loops.items()
        ],
        impact=f"{case.words.library} counts them and can send nothing over them: where "
        "they really lead it uses PCIe or the network.",
        fix=[
            (
                "Let the library write the file anew on this machine, without NCCL_TOPO_FILE "
                "set. $ export NCCL_TOPO_DUMP_FILE=system.xml"
            ),
            "See where each link leads. $ nvidia-smi nvlink -p",
        ],
    )


def _ends(gpu: Gpu) -> list[str]:
    ends = [link.remote_address for link in gpu.nvlinks]
    ends += [link.remote_address for link in gpu.xgmi]
    return [end for end in ends if end is not None]


ITSELF = Rule(
    id="link-to-itself",
    family="D12",
    title="links that lead back to the GPU that they start from",
    evidence="the other end of each link",
    disproof="another address at the other end in {asked}",
    asked=((NVIDIA.id, "`nvidia-smi nvlink -p`"), (AMD.id, "`amd-smi xgmi`")),
    sources=("NCCL graph/xml.cc: ncclTopoGetXmlFromGpu writes a link's target as it is read",),
    check=_check,
)
RULES = (ITSELF,)
