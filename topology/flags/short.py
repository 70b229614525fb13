"""The one paragraph that somebody in a hurry reads."""

from __future__ import annotations

from ..nccl.prediction import Prediction
from .catalogue import Flag
from .figures import ways
from .whatif import Comparison


def short(flag: Flag, found: tuple[Comparison, ...], without: Prediction) -> str:
    """What a level of P2P means on this node; "" for other flags."""
    if flag.type != "level" or flag.kind != "p2p" or not without.pairs:
        return ""
    now = [(way, pairs) for way, pairs in ways(without) if way.transport == "P2P"]
    rest = [(way, pairs) for way, pairs in ways(without) if way.transport != "P2P"]
    total = sum(len(pairs) for _, pairs in (*now, *rest))
    if not rest:
        paths = " and ".join(dict.fromkeys(way.path for way, _ in now))
        text = f"All {total} pairs are {paths} and use P2P as it is: no higher level adds any."
        if total == 1:
            text = f"The one pair is {paths} and uses P2P as it is: no higher level adds any."
    else:
        using = _counted([(len(pairs), way.path) for way, pairs in now]) or "none"
        other = _counted([(len(p), f"{way.path} by {way.transport}") for way, p in rest])
        text = f"Of {total} pairs these use P2P now: {using}. The others: {other}."
    gains = [(one, _moved(one, gained=True)) for one in found]
    for one, moved in gains:
        if moved:
            text += f" {one.changes[0].after} gives P2P to {_counted(moved)}."
    loses = [(one, _moved(one, gained=False)) for one in found]
    by_loss: dict[str, list[str]] = {}
    for one, moved in loses:
        if moved:
            what = f"all {total}" if sum(n for n, _ in moved) == total else _counted(moved)
            by_loss.setdefault(what, []).append(str(one.changes[0].after))
    for what, values in by_loss.items():
        verb = "take" if len(values) > 1 else "takes"
        text += f" {' and '.join(values)} {verb} it away from {what}."
    if any(moved for _, moved in gains):
        text += (
            " Whether P2P through the CPU is faster than shared memory depends on the processor: "
            "measure both before you keep it."
        )
    return text


def _moved(one: Comparison, *, gained: bool) -> list[tuple[int, str]]:
    """(number of pairs, path type) that come to P2P, or leave it."""
    found: dict[str, int] = {}
    for group in one.effect.pairs:
        then, now = group.before.transport == "P2P", group.after.transport == "P2P"
        if (now and not then) if gained else (then and not now):
            found[group.before.path] = found.get(group.before.path, 0) + len(group.pairs)
    return [(count, path) for path, count in found.items()]


def _counted(parts: list[tuple[int, str]]) -> str:
    return " and ".join(
        f"{count} {'pair' if count == 1 else 'pairs'} {name}" for count, name in parts
    )
