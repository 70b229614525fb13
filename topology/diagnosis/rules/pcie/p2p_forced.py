"""P2P that a setting or a changed module forces."""

from __future__ import annotations

import re

from ....hardware.vendors import NVIDIA
from ....model import quantities
from ....model.severity import BY_DESIGN, NOTICE
from ...case import Case
from ...pairs import devices_of
from ...rule import Found, Rule
from ...shared.p2p_grants import SHOWN, grant_of, whole_pairs

FORCED = re.compile(r"ForceP2P|RMForceStaticBar1|PeerMappingOverride", re.IGNORECASE)


def _check_forced(case: Case) -> Found:
    host = case.machine.host
    if host is None:
        return None
    asked = [pair for pair in whole_pairs(case) if pair.words and not pair.fast]
    if host.why("nvidia_registry") is not None and not asked:
        return None
    keys = [key for key in host.nvidia_registry if FORCED.search(key)]
    evidence = [("key of the NVIDIA module", key, "/proc/driver/nvidia/params") for key in keys]
    open_ones = [
        pair
        for pair in asked
        if pair.granted and all("GeForce RTX 40" in (g.name or "") for g in (pair.one, pair.other))
    ]
    evidence += [grant_of(case, pair) for pair in open_ones[:SHOWN]]
    if not evidence:
        return []
    arrived = {figure.verdict for figure in case.figures(quantities.BYTES_ARRIVE)}
    seen = (
        " The bytes were measured and arrived."
        if arrived == {"arrived"}
        else " A grant is no proof here: measure whether data arrives intact."
    )
    return P2P_FORCED.finding(
        BY_DESIGN if arrived == {"arrived"} else NOTICE,
        "P2P is forced by a setting or a changed NVIDIA module",
        devices=devices_of(open_ones) if not keys else (),
        evidence=evidence,
        impact="The driver grants P2P that this product does not have." + seen,
        fix=["Measure it. $ gputop probe p2p nccl"],
    )


P2P_FORCED = Rule(
    id="p2p-forced",
    family="D14",
    title="P2P that a setting or a changed module forces",
    evidence="keys of the NVIDIA module, P2P status of boards that have none",
    vendor=NVIDIA.id,
    disproof="no such key in /proc/driver/nvidia/params, and a module as NVIDIA ships it",
    sources=("noonghunna/club-3090#873", "tinygrad/open-gpu-kernel-modules#29"),
    check=_check_forced,
)


RULES = (P2P_FORCED,)
