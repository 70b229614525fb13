"""Rooflines of a GPU and its wires: on paper and here."""

from __future__ import annotations

import msgspec

from ..expectation.calls.kinds import CollectiveKind
from ..hardware.specs import Sku
from . import bounds
from .gpu import GpuRates
from .shape import ModelShape
from .wires import GroupWire

PRODUCTS = "products are the limit from"
"""The ridge point: what is computed for each byte."""


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """One bound, with what it is made of. None where a rate is not known."""

    what: str
    unit: str
    paper: float | None
    """By the data sheets."""
    here: float | None
    """By what healthy machines of this kind reach, and by what this one is known to."""


def rooflines(
    shape: ModelShape, rates: GpuRates, sku: Sku | None, inside: GroupWire | None, ranks: int
) -> tuple[Roofline, ...]:
    """Ridge point, and tokens of a GPU and step from which on communication hides."""
    paper = (rates.sheet_flops, _links(sku))
    here = (rates.flops, _bus(inside))
    found = [
        Roofline(
            what=PRODUCTS,
            unit="FLOP a byte",
            paper=rates.sheet_ridge,
            here=rates.ridge,
        )
    ]
    if ranks < 2:
        return tuple(found)
    on_ring = inside is not None
    for what, factor in (("data parallelism hides from", 1.0), ("FSDP hides from", 2.0)):
        found.append(
            Roofline(
                what=what,
                unit="tokens a GPU",
                paper=_tokens(*paper, factor),
                here=_tokens(*here, 2 * factor) if on_ring else None,
            )
        )
    if shape.experts:
        share = shape.experts / shape.active_experts
        found.append(
            Roofline(
                what="gradients of experts hide from",
                unit="tokens a GPU",
                paper=_tokens(*paper, share),
                here=_tokens(*here, 2 * share) if on_ring else None,
            )
        )
    width = shape.feed_forward if not shape.experts else shape.expert_width
    found.append(
        Roofline(
            what="tensor parallelism pays up to",
            unit="GPUs",
            paper=_ways(*paper, ranks, width),
            here=_ways(*here, ranks, width),
        )
    )
    return tuple(found)


def _links(sku: Sku | None) -> float | None:
    return None if sku is None or not sku.total_gbs else sku.total_gbs * 1e9


def _bus(wire: GroupWire | None) -> float | None:
    """The bus bandwidth of large all-reduces, which a ring's links have."""
    return None if wire is None else wire.curves[CollectiveKind.ALL_REDUCE][-1][1]


def _tokens(flops: float | None, bytes_per_s: float | None, factor: float) -> float | None:
    if not flops or not bytes_per_s:
        return None
    return factor * bounds.tokens_for_data_parallel(flops, bytes_per_s)


def _ways(flops: float | None, bytes_per_s: float | None, ranks: int, width: int) -> float | None:
    if not flops or not bytes_per_s:
        return None
    return bounds.tensor_ways(flops, bytes_per_s, ranks, width)
