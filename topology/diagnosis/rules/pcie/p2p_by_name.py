"""Products that have no P2P over PCIe, known by their name where nobody asked the driver."""

from __future__ import annotations

import re

from ....hardware.vendors import NVIDIA
from ....model.severity import BY_DESIGN
from ...case import Case
from ...pairs import devices_of
from ...rule import Found, Rule
from ...shared.p2p_grants import whole_pairs

WITHOUT = re.compile(r"\bGeForce RTX [2-5]0[5-9]0\b", re.IGNORECASE)
"""GeForce since Turing; older ones had P2P over PCIe, and boards for workstations have it."""


def _check(case: Case) -> Found:
    pairs = [pair for pair in whole_pairs(case) if pair.one.name and pair.other.name]
    if not pairs or any(pair.words for pair in pairs):
        return None
    without = [
        pair
        for pair in pairs
        if not pair.fast and WITHOUT.search(f"{pair.one.name}; {pair.other.name}")
    ]
    if not without:
        return []
    names = sorted({gpu.name or "" for pair in without for gpu in (pair.one, pair.other)})
    return BY_NAME.finding(
        BY_DESIGN,
        f"no P2P between {case.names(devices_of(without))}: the product does not have it",
        devices=devices_of(without),
        evidence=[("model", ", ".join(names), ", ".join(case.snapshot.source))],
        impact=f"NVIDIA's driver grants no P2P over PCIe on these cards. "
        f"{case.words.library} goes through host memory (SHM), and no setting of the firmware "
        "changes that; a patched driver may, at the owner's risk.",
        fix=["Ask the driver; GNS or CNS means no. $ nvidia-smi topo -p2p r"],
    )


BY_NAME = Rule(
    id="p2p-not-in-product",
    family="D14",
    title="GPU models without P2P, by name",
    evidence="the models of the GPUs, where the P2P status of no pair was read",
    vendor=NVIDIA.id,
    disproof="OK in `nvidia-smi topo -p2p r` for the pair",
    sources=("NVIDIA/nvbandwidth#13", "NVIDIA/nccl#1637", "NVIDIA/nccl#1127"),
    check=_check,
    implied_by=("p2p-refused-by-product",),
)
RULES = (BY_NAME,)
