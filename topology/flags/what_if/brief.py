"""What changes of variables do to a node, in a few short clauses: for a banner, a row, a line."""

from __future__ import annotations

from ...nccl.decide.summary import duration
from ...nccl.prediction import Prediction
from ...nccl.wording import message_size
from .effects import SIZES, Effect, TimeChange
from .in_words import change
from .net_changes import nets_in_words
from .whatif import Comparison

BIG = SIZES[-1]
MOST = 3
"""Clauses of the brief; the rest is on the Flags screen."""


def p2p_pairs(prediction: Prediction) -> tuple[int, int]:
    """Unordered pairs of GPUs that use P2P, and all of them."""
    pairs = [pair for pair in prediction.pairs if pair.src < pair.dst]
    return sum(pair.transport == "P2P" for pair in pairs), len(pairs)


def brief(comparison: Comparison, cost: str | None = None) -> tuple[str, ...]:
    """The clauses, what matters most first: a failure, P2P, the cost of an all-reduce, the rest.

    `cost`: what an all-reduce costs with the changes, in words; None for its predicted time.
    """
    effect = comparison.effect
    if effect.failure[1]:
        return (f"the start fails: {effect.failure[1]}",)
    reasons = tuple(
        reading.why
        for item in comparison.changes
        if (reading := item.reading) is not None and reading.ignored and reading.why
    )
    if effect.nothing:
        return (f"nothing changes{f': {reasons[0]}' if reasons else ''}",)
    library = comparison.changed.library.name.upper()
    found = [*_p2p(comparison), *(_time(effect, library) if cost is None else [cost] * bool(cost))]
    if effect.ranks[0] != effect.ranks[1]:
        found.append(f"{effect.ranks[1]} GPUs take part instead of {effect.ranks[0]}")
    if effect.nodes[0] != effect.nodes[1]:
        found.append(f"counts as {effect.nodes[1]} nodes")
    found += [
        f"{graph.graph} {graph.before} → {graph.after}"
        for graph in effect.graphs
        if not graph.order
    ]
    found += nets_in_words(effect.nets)
    if effect.channels[0] != effect.channels[1]:
        found.append(f"coll channels {effect.channels[0]} → {effect.channels[1]}")
    if effect.pairs and not found:
        found.append(f"{effect.pairs_changed} of {effect.pairs_total} pairs go another way")
    return tuple(found[:MOST]) or ("another choice for some sizes",)


def _p2p(comparison: Comparison) -> list[str]:
    before, _ = p2p_pairs(comparison.baseline)
    after, total = p2p_pairs(comparison.changed)
    if before == after:
        return []
    if after > before:
        return [f"P2P for {after - before} more pairs ({after} of {total})"]
    return [f"P2P for {after} of {total} pairs ({before} today)"]


def _time(effect: Effect, library: str) -> list[str]:
    time = next((time for time in effect.times if time.bytes == BIG), None)
    if time is None or (time.before_us is None and time.after_us is None):
        return []
    size = f"all-reduce {message_size(BIG)}"
    if time.after_us is None:
        return [f"{size} fails"]
    if time.same:
        # The model takes a hop's speed from its links, whatever transport the bytes go by.
        return [f"{size}: same time in {library}'s model"] if effect.pairs else []
    return [f"{size} {_moved(time)} (predicted)"]


def _moved(time: TimeChange) -> str:
    return f"{duration(time.before_us)} → {duration(time.after_us)}, {change(time.share)}"
