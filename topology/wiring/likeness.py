"""Which pairs of GPUs are alike, so that their figures may be compared."""

from __future__ import annotations

from ..model.machine import Gpu

XGMI = "XGMI"


def likeness(letters: str, one: Gpu, other: Gpu) -> str:
    """A word that like pairs share: the letters of their relation, and of xGMI what joins them.

    The letters do not count xGMI links: in an uneven mesh (MI250X) a pair has four of them, two,
    one or none of its own, and the parts of one package are closer than all others.
    """
    if letters != XGMI:
        return letters
    if one.parent is not None and one.parent == other.parent:
        return f"{XGMI} in one package"
    mine = [link for link in one.xgmi if link.remote_address == other.address]
    up = [link.links for link in mine if link.active is not False]
    if up:
        return XGMI if up[0] is None else f"{XGMI} {up[0]}"
    return f"{XGMI} over other GPUs" if one.xgmi else XGMI
