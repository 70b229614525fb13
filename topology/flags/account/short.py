"""The summary of a flag in one paragraph."""

from __future__ import annotations

from collections.abc import Callable

from ...nccl.prediction import Prediction
from ..catalogue.catalogue import Flag
from ..what_if.in_words import distance, ways
from ..what_if.whatif import Comparison

PLACES = {
    "NVL": "joined by NVLink",
    "XGMI": "joined by xGMI",
    "NVB": "joined by NVLink through another GPU",
    "C2C": "joined by C2C",
    "PIX": "behind one PCIe switch",
    "PXB": "behind several PCIe switches",
    "PHB": "on one CPU",
    "SYS": "on two CPUs",
}
"""Path type -> where two GPUs are; "on" a CPU means that their path leads through it."""
CPU = ("PHB", "SYS")


def short(flag: Flag, found: tuple[Comparison, ...], without: Prediction) -> str:
    """Say what a level of P2P means on this node; "" for other flags."""
    if flag.type != "level" or flag.kind != "p2p" or not without.pairs:
        return ""
    text = _now(without)
    gains = [(comparison, _moved(comparison, gained=True)) for comparison in found]
    others = sum(len(pairs) for way, pairs in ways(without) if way.transport != "P2P")
    parts: list[str] = []
    for comparison, moved in gains:
        if moved:
            every = len(moved) > 1 and sum(count for count, _ in moved) == others
            what = f"all {others}" if every else f"the {_counted(moved)}"
            parts.append(
                f"{comparison.changes[0].after} {'' if parts else 'would give it '}to {what}"
            )
    text += f" {', '.join(parts)}." if parts else ""
    text += _losses(found, without)
    if any(path in CPU for _, moved in gains for _, path in moved):
        text += (
            " Whether P2P through the CPU is faster than shared memory depends on the processor: "
            "measure both before you keep it."
        )
    return text


def _now(without: Prediction) -> str:
    """Say which pairs use P2P now, and which do not."""
    now = [(len(pairs), way.path) for way, pairs in ways(without) if way.transport == "P2P"]
    rest = [(len(pairs), way) for way, pairs in ways(without) if way.transport != "P2P"]
    total = sum(count for count, _ in (*now, *rest))
    if not rest:
        kinds = " or ".join(_place(path) for path in dict.fromkeys(path for _, path in now))
        if total == 1:
            return f"The one pair is {kinds} and uses P2P as it is: no higher level adds any."
        return f"All {total} pairs are {kinds} and use P2P as it is: no higher level adds any."
    by: dict[str, list[tuple[int, str]]] = {}
    for count, way in rest:
        by.setdefault(way.transport, []).append((count, way.path))
    others = ", ".join(f"{_placed(some)} go by {name}" for name, some in by.items())
    if not now:
        return f"None of the {total} pairs uses P2P: {others}."
    return f"Of {total} pairs, {_placed(now)} use P2P now; {others}."


def _losses(found: tuple[Comparison, ...], without: Prediction) -> str:
    """Say which values take P2P away, and from which pairs."""
    total = sum(len(pairs) for way, pairs in ways(without) if way.transport == "P2P")
    by: dict[str, list[str]] = {}
    for comparison in found:
        moved = _moved(comparison, gained=False)
        if moved:
            every = sum(count for count, _ in moved) == total
            what = f"all {total} that have it" if every else _counted(moved)
            what = "this pair" if total == 1 else what
            by.setdefault(what, []).append(str(comparison.changes[0].after))
    return "".join(
        f" {' and '.join(', '.join(values).rsplit(', ', 1))} would take it away from {what}."
        for what, values in by.items()
    )


def _moved(comparison: Comparison, *, gained: bool) -> list[tuple[int, str]]:
    """List (number of pairs, path type) of the pairs that gain P2P, or lose it."""
    found: dict[str, int] = {}
    for group in comparison.effect.pairs:
        then, now = group.before.transport == "P2P", group.after.transport == "P2P"
        if (now and not then) if gained else (then and not now):
            found[group.before.path] = found.get(group.before.path, 0) + len(group.pairs)
    return [(count, path) for path, count in found.items()]


def _place(path: str) -> str:
    return f"{PLACES[path]} ({path})" if path in PLACES else path


def _placed(parts: list[tuple[int, str]]) -> str:
    return _listed(parts, _place)


def _counted(parts: list[tuple[int, str]]) -> str:
    return _listed(parts, str)


def _listed(parts: list[tuple[int, str]], named: Callable[[str], str]) -> str:
    """Count the pairs by path type, nearest first: "8 PHB and 16 SYS"."""
    merged: dict[str, int] = {}
    for count, path in parts:
        merged[path] = merged.get(path, 0) + count
    order = sorted(merged, key=distance)
    return " and ".join(f"{merged[path]} {named(path)}" for path in order)
