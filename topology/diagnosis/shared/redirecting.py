"""Bridges that send the packets of one GPU to another up to the root complex."""

from collections.abc import Sequence

from ...model.machine import PciDevice
from ...model.page import Fix
from ..case import Case
from ..pairs import Pair, way

TRANSLATED = ("DMA", "DMA-FQ")
"""Types of an IOMMU group whose addresses are translated (iommu_groups/N/type)."""
DIRECT = "DirectTrans"
"""ACS control that lets packets with translated addresses (ATS) turn all the same."""


def bridges_between(case: Case, pair: Pair) -> tuple[str, ...]:
    """Bridges on the way of a pair whose ACS redirects; () where none was read."""
    return tuple(device.address for device in way(case, *pair.ends) or () if redirects(device))


def redirects(device: PciDevice) -> bool:
    """Whether a bridge's ACS sends a peer's packets up for certain."""
    return bool(device.redirects) and DIRECT not in (device.acs or ())


def acs_off(text: str, bridges: Sequence[str]) -> Fix:
    """The action that switches off ACS on these bridges."""
    line = "; ".join(["setpci -s {:address} ECAP_ACS+6.w=0000"] * len(bridges))
    return Fix.of(text, line, *bridges, root=True)
