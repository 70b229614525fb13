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
        using = _counted([(len(pairs), way.path) for way, pairs in now])
        start = f"{using} use P2P now" if using else "none uses P2P now"
        by: dict[str, list[tuple[int, str]]] = {}
        for way, pairs in rest:
            by.setdefault(way.transport, []).append((len(pairs), way.path))
        other = ", ".join(f"{_counted(some)} go by {name}" for name, some in by.items())
        text = f"Of {total} pairs, {start}; {other}."
    gains = [(one, _moved(one, gained=True)) for one in found]
    for one, moved in gains:
        if moved:
            text += f" {one.changes[0].after} would give P2P to {_counted(moved)}."
    by_loss: dict[str, list[str]] = {}
    for one in found:
        moved = _moved(one, gained=False)
        if moved:
            what = f"all {total}" if sum(n for n, _ in moved) == total else _counted(moved)
            by_loss.setdefault(what, []).append(str(one.changes[0].after))
    for what, values in by_loss.items():
        text += f" {' and '.join(values)} would take it away from {what}."
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
    merged: dict[str, int] = {}
    for count, name in parts:
        merged[name] = merged.get(name, 0) + count
    return " and ".join(f"{count} {name}" for name, count in merged.items())
