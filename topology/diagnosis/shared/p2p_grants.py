"""The P2P that the driver grants, for the rules about it."""

from __future__ import annotations

from .. import vendors
from ..case import Case
from ..pairs import NOT_GRANTED, OK, Pair
from ..rule import Proof

STATUS = "NVML nvmlDeviceGetP2PStatus"
SHOWN = 4


def whole_pairs(case: Case) -> list[Pair]:
    """Pairs whose grants mean something: MIG and confidential computing switch P2P off."""
    software = case.machine.software
    if software is not None and software.confidential_computing == "on":
        return []
    return [pair for pair in case.pairs if not pair.mig and _kept(pair)]


def _kept(pair: Pair) -> bool:
    return "vgpu" not in (pair.one.virtualization, pair.other.virtualization)


def grant_of(case: Case, pair: Pair) -> Proof:
    """The word that refuses P2P, by the management library or by the runtime in a probe."""
    said = {word for grant in pair.grants for word in (grant.p2p_read, grant.p2p_write)}
    if not pair.grants or (NOT_GRANTED in pair.asked and said <= {OK, None}):
        return (
            f"P2P of {case.name(pair.ends[0])} and {case.name(pair.ends[1])}",
            NOT_GRANTED if NOT_GRANTED in pair.asked else "granted",
            "probe p2p, cudaDeviceCanAccessPeer or hipDeviceCanAccessPeer",
        )
    grant = next((g for g in pair.grants if g.p2p_read != OK or g.p2p_nvlink != OK), pair.grants[0])
    words = {
        "read": grant.p2p_read,
        "write": grant.p2p_write,
        "NVLink": grant.p2p_nvlink,
        "PCI": grant.p2p_pci,
    }
    return (
        f"P2P of {case.name(grant.src)} to {case.name(grant.dst)}",
        ", ".join(f"{what}: {word}" for what, word in words.items() if word is not None),
        vendors.source([pair.one], STATUS),
    )
