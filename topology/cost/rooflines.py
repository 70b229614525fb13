"""Rooflines of a GPU and its wires: on paper and here."""

from __future__ import annotations

import msgspec

from ..expectation.calls.kinds import CollectiveKind
from ..hardware.specs import BoardLinks, Sku
from . import bounds
from .gpu import GpuRates
from .shape import ModelShape
from .wires import SIZES, GroupWire

PRODUCTS = "products are the limit from"
"""The ridge point: what is computed for each byte."""
DATA, SHARDED = "data parallelism hides from", "FSDP hides from"
REDUCING = ("nvlink4", "nvlink5", "nvlink6")
"""Links whose switches add what passes them (NVLink SHARP, since Hopper)."""


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """One bound, with what it is made of. None where a rate is not known."""

    what: str
    unit: str
    paper: float | None
    """By the data sheets."""
    here: float | None
    """By what healthy machines of this kind reach, and by what this one is known to."""


class JoinedRanks(msgspec.Struct, frozen=True, kw_only=True):
    """What joins the GPUs that were asked about."""

    inside: GroupWire | None
    """All GPUs of a node; None where it is not known."""
    ranks: int
    """GPUs of a node."""
    over: GroupWire | None
    """All GPUs of all nodes."""
    network_gbs: float | None = None
    """Where a network joins the nodes: all NICs of one, one way. None: links alone, or unknown."""
    by_network: bool = False
    """Whether a network joins the nodes."""


def rooflines(
    shape: ModelShape, rates: GpuRates, sku: Sku | None, joined: JoinedRanks
) -> tuple[Roofline, ...]:
    """Ridge point, and tokens of a GPU and step from which on communication hides."""
    found = [Roofline(what=PRODUCTS, unit="FLOP a byte", paper=rates.sheet_ridge, here=rates.ridge)]
    if joined.ranks < 2:
        return tuple(found)
    by_data = _paper(rates, sku, joined), _reduced(rates.flops, joined.over)
    found.append(_tokens(DATA, *by_data))
    sharded = _of_sheet(rates, sku, joined), _gathered(rates.flops, joined.over)
    found.append(_tokens(SHARDED, *sharded))
    if shape.experts:
        share = shape.experts / shape.active_experts
        seen = [None if one is None else share * one for one in by_data]
        found.append(_tokens("gradients of experts hide from", *seen))
    width = shape.feed_forward if not shape.experts else shape.expert_width
    inside = None if joined.inside is None else _bus(joined.inside)
    found.append(
        Roofline(
            what="tensor parallelism pays up to",
            unit="GPUs",
            paper=_ways(rates.sheet_flops, _links(sku, joined.ranks), joined.ranks, width),
            here=_ways(rates.flops, inside, joined.ranks, width),
        )
    )
    return tuple(found)


def _tokens(what: str, paper: float | None, here: float | None) -> Roofline:
    return Roofline(what=what, unit="tokens a GPU", paper=paper, here=here)


def _links(sku: Sku | None, ranks: int) -> float | None:
    """The links of a GPU, in bytes/s; those of a bridge join no more than two of them."""
    if sku is None or not sku.total_gbs or (sku.fabric is BoardLinks.BRIDGE and ranks > 2):
        return None
    return sku.total_gbs * 1e9


def _bus(wire: GroupWire) -> float:
    """The bus bandwidth of large all-reduces, which a ring's links have."""
    return wire.curves[CollectiveKind.ALL_REDUCE][-1][1]


def _paper(rates: GpuRates, sku: Sku | None, joined: JoinedRanks) -> float | None:
    """Of data parallelism: half of a ring's where switches of the links add up.

    Those of a network add only where someone set that up, so it counts as a ring.
    """
    switched = sku is not None and sku.fabric is BoardLinks.SWITCHED
    adds = switched and sku is not None and sku.link_kind in REDUCING and not joined.by_network
    ring = _of_sheet(rates, sku, joined)
    return None if ring is None else ring / 2 if adds else ring


def _of_sheet(rates: GpuRates, sku: Sku | None, joined: JoinedRanks) -> float | None:
    """By a ring, and of FSDP by anything: nothing is added up in a gather."""
    network = None if joined.network_gbs is None else joined.network_gbs * 1e9
    rate = network if joined.by_network else _links(sku, joined.ranks)
    if not rates.sheet_flops or not rate:
        return None
    return bounds.tokens_for_sharded(rates.sheet_flops, rate)


def _reduced(flops: float | None, wire: GroupWire | None) -> float | None:
    """Tokens whose backward pass, 4 FLOP a parameter, takes as long as reducing 2 bytes of it."""
    if not flops or wire is None:
        return None
    return flops * wire.seconds(CollectiveKind.ALL_REDUCE, SIZES[-1]) / (2 * SIZES[-1])


def _gathered(flops: float | None, wire: GroupWire | None) -> float | None:
    """Tokens whose forward pass hides a gather, and the backward one a gather and a scatter."""
    if not flops or wire is None:
        return None
    gather = wire.seconds(CollectiveKind.ALL_GATHER, SIZES[-1])
    scatter = wire.seconds(CollectiveKind.REDUCE_SCATTER, SIZES[-1])
    return flops * max(gather, (gather + scatter) / 2) / SIZES[-1]


def _ways(flops: float | None, bytes_per_s: float | None, ranks: int, width: int) -> float | None:
    if not flops or not bytes_per_s:
        return None
    return bounds.tensor_ways(flops, bytes_per_s, ranks, width)
