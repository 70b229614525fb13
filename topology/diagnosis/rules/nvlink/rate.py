"""NVLinks that run at a lower rate than their siblings."""

from __future__ import annotations

from ....hardware.vendors import NVIDIA
from ....model.severity import SLOW
from ....model.units import gbs
from ...case import Case
from ...rule import Found, Rule
from .down import REPAIR, alike, links_read

SPEED = "NVML field NVLINK_SPEED_MBPS"
_SAME_RATE = 0.98


def _check_rate(case: Case) -> Found:
    rates = {
        gpu.address: [(link.link, link.raw_gbs) for link in gpu.nvlinks if link.active]
        for gpu in links_read(case)
    }
    fastest = {
        own: max((raw or 0.0 for _, raw in links), default=0.0) for own, links in rates.items()
    }
    if not any(fastest.values()):
        return None
    found = []
    for gpu in case.gpus:
        those = [gpu.address, *(other.address for other in alike(case, gpu))]
        best = max(fastest.get(address, 0.0) for address in those)
        sku = case.sku(gpu)
        # The data sheet gives the payload, which is below the raw rate in every generation.
        best = max(best, (sku.link_gbs or 0.0) if sku is not None else 0.0)
        slow = [
            (link, raw)
            for link, raw in rates.get(gpu.address, ())
            if raw and raw < _SAME_RATE * best
        ]
        if slow:
            found.append((gpu, slow, best))
    if not found:
        return []
    who = [gpu.address for gpu, _, _ in found]
    gpu, slow, best = found[0]
    return RATE.finding(
        SLOW,
        f"NVLinks of {case.names(who)} run at a lower rate than their siblings",
        devices=who,
        evidence=[
            (
                f"raw rate one way of NVLink {link} of {case.name(slow_gpu)}",
                f"{gbs(raw)} instead of {gbs(most)}",
                SPEED,
            )
            for slow_gpu, links, most in found
            for link, raw in links[:4]
        ],
        impact=f"Each slow link of {case.name(gpu)} carries "
        f"{(slow[0][1] or 0) / best:.0%} of what it should, and a collective runs at the pace "
        "of its slowest GPU.".replace("%", " %"),
        fix=REPAIR,
    )


RATE = Rule(
    id="nvlink-slow-rate",
    family="D21",
    title="NVLinks that run slower than their siblings",
    evidence="raw rate of each active NVLink",
    vendor=NVIDIA.id,
    disproof="equal rates in `nvidia-smi nvlink -s`; raw, payload and measured rates are three "
    "different figures",
    sources=("NVIDIA/nccl#1054", "open-mpi/hwloc#574"),
    check=_check_rate,
)


RULES = (RATE,)
