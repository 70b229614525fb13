"""A prediction in the pieces that two versions are compared by: a pair, a NIC, a graph, a size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..model.severity import Word
from ..nccl.prediction import DomainView, NetDecision, PairDecision, Prediction


class PieceTopic(Word):
    """What pieces are of, in the order in which they are told."""

    START = "start"
    DOMAINS = "domains"
    PAIRS = "pairs"
    NICS = "NICs"
    TURNS = "NICs of channels"
    RING = "ring"
    TREE = "tree"
    NVLS = "NVLS"
    CHANNELS = "channels"
    ALGORITHMS = "algorithms"
    VARIABLES = "variables"
    LIMITS = "limits"
    FIGURES = "figures"


START, DOMAINS, PAIRS, NICS, TURNS, RING, TREE, NVLS, CHANNELS, ALGORITHMS, *_REST = PieceTopic
VARIABLES, LIMITS, FIGURES = _REST
TUNED = (CHANNELS, ALGORITHMS, FIGURES)
"""What some versions of RCCL are not predicted in; not compared where one side lacks it."""

Key = tuple[str | int, ...]
"""A topic, and what tells its pieces apart: ("pairs", 0, 1)."""
GRAPHS = {"ring": RING, "tree": TREE, "nvls": NVLS}
REASONS = frozenset({"steps", "estimate"})
"""Fields that say why, and how sure it is: not compared."""
LONG_SHM, SHM = "SHM/direct/direct", "SHM/direct"


class Unit(msgspec.Struct, frozen=True):
    """One piece: the values of its fields, and what of them is a decision."""

    fields: dict[str, Any]
    """Place in the JSON of `explain` -> value."""
    decides: Any
    """What is compared as a decision; the rest is figures of the library's own."""
    what: Any
    """The record, or both directions of a pair."""


def units_of(prediction: Prediction) -> dict[Key, Unit]:
    """Every piece of a prediction."""
    found: dict[Key, Unit] = dict(_pairs(prediction))
    for number, view in enumerate(prediction.views):
        found.update(_of_view(number, view))
    lowest = [min(view.ranks, default=0) for view in prediction.views]
    first = lowest.index(min(lowest)) if lowest else 0
    for name, graph in _fields(prediction.graphs).items():
        # The graphs of rank 0's view stand in the document twice.
        known = found.get((GRAPHS[name], first))
        if known is not None:
            known.fields.update(_at(f"graphs.{name}", graph))
    for choice in prediction.choices:
        decides = (choice.algorithm, choice.protocol, choice.channels, choice.instead)
        fields = _at(f"choices[{choice.collective}-{choice.bytes}]", choice)
        found[ALGORITHMS, choice.collective, choice.bytes] = Unit(fields, decides, choice)
    found.update(_tuning(prediction))
    for name, value, why in prediction.ignored:
        found[VARIABLES, name, value] = _plain(f"ignored[{name}]", (name, value, why))
    found[CHANNELS,] = _plain("coll_channels", prediction.coll_channels)
    found[DOMAINS,] = _plain("nodes", prediction.nodes)
    found[START,] = _plain("failure", prediction.failure)
    return found


def _tuning(prediction: Prediction) -> Iterator[tuple[Key, Unit]]:
    for collective, algorithms in prediction.tuning.items():
        for algorithm, cells in algorithms.items():
            for protocol, cell in cells.items():
                at = f"tuning.{collective}.{algorithm}.{protocol}"
                yield (FIGURES, collective, algorithm, protocol), Unit({at: cell}, None, cell)


def _plain(at: str, value: Any) -> Unit:
    return Unit({at: value}, value, value)


def _fields(record: msgspec.Struct) -> dict[str, Any]:
    """The fields of a record by the names that they have in JSON, but for the reasons."""
    names = zip(record.__struct_encode_fields__, record.__struct_fields__, strict=True)
    return {shown: getattr(record, name) for shown, name in names if shown not in REASONS}


def _at(place: str, record: msgspec.Struct | None) -> dict[str, Any]:
    """The fields of a record by their places; its own place where it is None."""
    if record is None:
        return {place: None}
    return {f"{place}.{name}": value for name, value in _fields(record).items()}


def _pairs(prediction: Prediction) -> Iterator[tuple[Key, Unit]]:
    back = {(pair.src, pair.dst): pair for pair in prediction.pairs}
    for pair in prediction.pairs:
        other = back.get((pair.dst, pair.src))
        if pair.src > pair.dst and other is not None:
            continue
        both = (pair,) if other is None else (pair, other)
        fields: dict[str, Any] = {}
        for one in both:
            fields |= _at(f"pairs[{one.src}-{one.dst}]", one)
        yield (PAIRS, *sorted((pair.src, pair.dst))), Unit(fields, tuple(map(_way, both)), both)


def _way(pair: PairDecision) -> tuple[object, ...]:
    """What a pair does; the length of its log label is a matter of wording."""
    labels = tuple(SHM if label == LONG_SHM else label for label in (pair.label, *pair.labels))
    return pair.path, pair.transport, labels, pair.read, pair.via


def _of_view(number: int, view: DomainView) -> Iterator[tuple[Key, Unit]]:
    here = f"views[{number}]"
    yield (DOMAINS, number), _plain(f"{here}.ranks", view.ranks)
    for name, graph in _fields(view.graphs).items():
        decides = tuple(_fields(graph).values()) if graph and graph.channels else None
        yield (GRAPHS[name], number), Unit(_at(f"{here}.graphs.{name}", graph), decides, graph)
    for net in view.nets:
        fields = _at(f"{here}.nets[{net.rank}-{net.net}-{net.name}]", net)
        yield (NICS, net.rank, net.net, net.name), Unit(fields, _reach(net), net)
    for rank, nets in view.local_nets.items():
        yield (TURNS, int(rank)), _plain(f"{here}.local_nets.{rank}", nets)
    limits = view.max_bandwidth_gbs, view.total_bandwidth_gbs
    names = f"{here}.max_bandwidth_gbs", f"{here}.total_bandwidth_gbs"
    yield (LIMITS, number), Unit(dict(zip(names, limits, strict=True)), None, limits)


def _reach(net: NetDecision) -> tuple[object, ...]:
    return net.to[2], net.back[2], net.gdr_send, net.gdr_recv, net.pxn_rank
