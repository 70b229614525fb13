"""The pieces of a prediction in words, as they are before an upgrade and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..flags.what_if.effects import described, named, way_of
from ..flags.what_if.in_words import order_in_words, pairs_in_words, ranks_in_words
from ..nccl.prediction import NetDecision, PairDecision, Prediction, SearchGraph
from ..nccl.wording import gbs, message_size
from .causes import Aspect
from .units import (
    ALGORITHMS,
    CHANNELS,
    DOMAINS,
    FIGURES,
    LIMITS,
    NICS,
    NVLS,
    PAIRS,
    REASONS,
    RING,
    START,
    TREE,
    TURNS,
    VARIABLES,
    Key,
    Unit,
)

NONE = "none"
MOST_NAMED = 6
CROSSING = {0: "the same NIC in and out", 1: "any NIC out", 2: "NICs in pairs"}
PATTERNS = {1: "balanced tree", 2: "split tree", 3: "plain tree", 4: "ring", 5: "NVLS"}
GDR = {"Default": "GDR", "PCI": "GDR over PCIe", "Disabled": "no GDR"}


class Told(NamedTuple):
    """How a piece is told; pieces with the same words are told as one."""

    before: str
    after: str
    group: str = ""
    """What keeps pieces with the same words apart."""


def words_of(
    key: Key,
    old: Unit | None,
    new: Unit | None,
    aspect: Aspect,
    predictions: tuple[Prediction, Prediction],
) -> Told:
    """Say how a piece that differs was, and how it becomes."""
    topic = key[0]
    then, now = (None if unit is None else unit.what for unit in (old, new))
    if topic == FIGURES or (topic == ALGORITHMS and aspect == "fields"):
        return Told("", "", str(topic))
    if topic in (NICS, TURNS) and not (then and now):
        return Told(*("in the graph" if one else "not in the graph" for one in (then, now)))
    if topic == PAIRS:
        return _told_pair(then or (), now or (), aspect)
    if topic == ALGORITHMS:
        return Told(named(then), named(now), str(key[1]))
    if topic in (RING, TREE, NVLS):
        return _graphs(then, now)
    names = _net_names(predictions)
    return Told(*(_told(str(topic), len(key), one, aspect, names) for one in (then, now)))


def _told(topic: str, parts: int, one: Any, aspect: Aspect, names: dict[int, str]) -> str:
    """One side of a piece that stands for itself; `parts`: of its key."""
    if topic == NICS:
        return _nic(one, aspect)
    if topic == TURNS:
        return " ".join(names.get(net) or str(net) for net in one)
    if topic == LIMITS:
        return _limits(one)
    if topic == START:
        return "starts" if one is None else f"fails: {one}"
    if topic == VARIABLES:
        return "has an effect" if one is None else f"no effect: {one[2]}"
    if topic == DOMAINS and parts == 1:
        return f"{one} node{'s' * (one != 1)}"
    if topic == DOMAINS:
        return NONE if one is None else f"ranks {ranks_in_words(one)}"
    return "not known" if one is None else str(one)


def _told_pair(then: Sequence[PairDecision], now: Sequence[PairDecision], aspect: Aspect) -> Told:
    """The first direction that differs speaks for the pair."""
    for old, new in zip(then, now, strict=False):
        words = Told(_way(old, aspect), _way(new, aspect))
        if words.before != words.after:
            return words
    if then and now:
        return Told(_way(then[0], aspect), f"{_way(now[0], aspect)}, by another GPU, NIC or label")
    return Told(*(_way(one[0], aspect) if one else NONE for one in (then, now)))


def _way(pair: PairDecision, aspect: Aspect) -> str:
    way = way_of(pair)
    if aspect == "fields":
        rate = "" if pair.bandwidth_gbs is None else f", {gbs(pair.bandwidth_gbs)} GB/s"
        hops = "" if pair.hops is None else f", {pair.hops} hop{'s' * (pair.hops != 1)}"
        return f"{way.label} over {way.path}{hops}{rate}"
    read = ", by reading" if pair.read else ""
    relay = f", through rank {pair.via}" if pair.via is not None else ""
    return f"{way.label or way.transport} over {way.path}{read}{relay}"


def _nic(net: NetDecision, aspect: Aspect) -> str:
    send, receive = GDR[net.gdr_send], GDR[net.gdr_recv]
    direct = send if send == receive else f"{send} to send, {receive} to receive"
    relay = f", through rank {net.pxn_rank}" if net.pxn_rank >= 0 else ""
    ends = net.to[2] if net.to[2] == net.back[2] else f"{net.to[2]} there, {net.back[2]} back"
    if aspect == "fields":
        return f"{ends}, {net.to[0]} hops, {gbs(net.to[1])} GB/s"
    return f"{ends}, {direct}{relay}"


def _limits(limits: tuple[float | None, float | None] | None) -> str:
    one, whole = ("?" if limit is None else gbs(limit) for limit in limits or (None, None))
    return f"{one} a GPU pair, {whole} a GPU"


def _graphs(then: SearchGraph | None, now: SearchGraph | None) -> Told:
    """What tells two graphs apart first: size and speed, shape, order, NICs."""
    if then is None or now is None:
        return Told(described(then), described(now))
    for old, new in (
        (described(then), described(now)),
        (PATTERNS.get(then.pattern, "?"), PATTERNS.get(now.pattern, "?")),
        (f"NICs at {then.type_inter}", f"NICs at {now.type_inter}"),
        (_order(then), _order(now)),
        (f"from and to NICs {then.nets}", f"from and to NICs {now.nets}"),
        (CROSSING.get(then.cross_nic, "?"), CROSSING.get(now.cross_nic, "?")),
    ):
        if old != new:
            return Told(old, new)
    for name in then.__struct_fields__:
        if name not in REASONS and getattr(then, name) != getattr(now, name):
            return Told(f"{name} {getattr(then, name)}", f"{name} {getattr(now, name)}")
    return Told("", "")


def _order(graph: SearchGraph) -> str:
    orders = dict.fromkeys(graph.orders)
    shown = ", ".join(order_in_words(order) for order in list(orders)[:2])
    more = f" and {len(orders) - 2} more" if len(orders) > 2 else ""
    return f"{shown}{more}" if shown else "no order"


def _net_names(predictions: tuple[Prediction, Prediction]) -> dict[int, str]:
    return {
        net.net: net.name
        for prediction in predictions
        for view in prediction.views
        for net in view.nets
    }


def subject_of(keys: Sequence[Key], predictions: tuple[Prediction, Prediction]) -> str:
    """Name what a group of pieces of one topic is about."""
    topic, count = str(keys[0][0]), len(keys)
    if topic == PAIRS:
        ends = [(int(key[1]), int(key[2])) for key in keys]
        return f"{count} pair{'s' * (count != 1)} ({pairs_in_words(ends)})"
    if topic == NICS:
        shown = [f"{key[1]} with {key[3] or key[2]}" for key in keys[:MOST_NAMED]]
        more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
        return f"{count} GPU-NIC pair{'s' * (count != 1)} ({', '.join(shown)}{more})"
    if topic == TURNS:
        ranks = sorted({int(key[1]) for key in keys})
        return f"NICs of the channels of rank{'s' * (len(ranks) > 1)} {ranks_in_words(ranks)}"
    if topic == ALGORITHMS:
        sizes = ", ".join(message_size(int(key[2])) for key in keys)
        return f"{keys[0][1]} of {sizes}"
    if topic == FIGURES:
        return f"{count} cells of the table of latencies and bandwidths"
    if topic == VARIABLES:
        return " ".join(sorted({f"{key[1]}={key[2]}" for key in keys}))
    plain = {
        CHANNELS: "channels for collectives",
        START: "start",
        LIMITS: "the search's limits, GB/s",
    }
    if topic == DOMAINS:
        return "what counts as a node" if len(keys[0]) == 1 else f"domain {keys[0][1]}"
    name = plain.get(topic, topic)
    views = max(len(prediction.views) for prediction in predictions)
    if views > 1 and len(keys[0]) > 1:
        name += f" of domain {' '.join(str(key[1]) for key in keys)}"
    return name
