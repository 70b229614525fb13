"""Published figures of a model, and what may be carried over from another one as an estimate."""

from __future__ import annotations

from functools import cache, lru_cache

import msgspec

from ..hardware.specs import PublishedFigure, Sku, skus, table
from ..model.severity import FigureBasis
from .judgement import ESTIMATE

NO_LINK, BOTH_WAYS = "none", "p2p_bidir"


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The share of a peak or of a payload rate that is reached."""

    fraction: float
    basis: FigureBasis
    source: str
    one_way_gbs: float | None = None
    """Payload one way of the measured link; None where a rule gives the share."""
    least: float | None = None
    """The lowest share that healthy machines of this kind have shown, where CPUs differ."""
    most: float | None = None


@cache
def published(sku_name: str, quantity: str) -> Share | None:
    """The model's own figure, typical before best; else one of the same link, as an estimate."""
    sku = skus()[sku_name]
    own = _share(sku.figure(quantity))
    if own is not None:
        return own
    for other in skus().values():
        if other.link_kind == sku.link_kind != NO_LINK and quantity.startswith("p2p_"):
            found = _share(other.figure(quantity))
            if found is not None:
                return msgspec.structs.replace(
                    found, basis=ESTIMATE, source=f"{found.source}, measured on {other.name}"
                )
    return _rule(sku, quantity)


def _share(figure: PublishedFigure | None) -> Share | None:
    if figure is None or not figure.peak:
        return None
    return Share(
        fraction=figure.measured / figure.peak,
        basis=figure.kind,
        source=figure.source,
        one_way_gbs=figure.peak / (2 if figure.quantity == BOTH_WAYS else 1),
    )


def _rule(sku: Sku, quantity: str) -> Share | None:
    """The share that links.toml gives for a generation of links."""
    links = table("links")
    kind = sku.link_kind.partition("-")[0]
    facts: dict[str, object] = {}
    key = ""
    if quantity in ("h2d", "d2h"):
        facts, key = links["pcie"].get(f"gen{sku.pcie_gen}", {}), "practical_fraction"
    elif kind.startswith("nvlink"):
        facts = links["nvlink"].get(kind.removeprefix("nvlink"), {})
        key = "practical_fraction_copy_engine"
        if quantity.startswith("p2p_kernel"):
            key = "practical_fraction_kernel"
    elif kind == "xgmi":
        rate = sku.link_gbs
        for item in links["xgmi"].values():
            if isinstance(item, dict) and item.get("link_gbps") == rate:
                facts, key = item, "practical_fraction"
    fraction = facts.get(key)
    if not isinstance(fraction, float) or quantity == "p2p_kernel_latency":
        return None
    note = facts.get("practical_note") or facts.get("source")
    return Share(fraction=fraction, basis=ESTIMATE, source=str(note))


@lru_cache(64)  # a generation that a file names may be any number
def pcie_practical(gen: int) -> Share | None:
    """The share of PCIe's line rate that a large copy reaches, for any device of a generation."""
    facts = table("links")["pcie"].get(f"gen{gen}", {})
    fraction = facts.get("practical_fraction")
    if fraction is None:
        return None
    return Share(fraction=fraction, basis=ESTIMATE, source=facts["practical_note"])
