"""Patterns of simultaneous copies, and what their figures say about the links."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

Ends = tuple[int, int]
"""(source, destination) as positions in the list of devices."""

RING, ALL_TO_ONE, ONE_TO_ALL, ALL_TO_ALL = "ring shift", "all to one", "one to all", "all to all"
"""Names of patterns; longer shifts of a ring say by how many."""
HOLDS = 0.85
"""A flow that keeps this part of its rate alone is not slowed by the others."""
ONE_PORT = 1.2
"""A hub has one port for all peers if its total is at most this many times its fastest pair."""
BLOCKED = 0.6
"""A pair below this part of its rate alone is slowed by the others."""
AT_ONCE, IN_PHASES = "at once", "in phases"
"""How "all to all" runs: all pairs together, or phases() one after the other."""


@dataclass(frozen=True)
class Pattern:
    """Flows that run at the same time."""

    name: str
    flows: tuple[Ends, ...]
    hub: Optional[int] = None
    """The single device of "all to one" and "one to all"."""


def patterns(count: int, level: str) -> list[Pattern]:
    """The patterns for a number of devices; two devices have only the ring."""
    hubs = range(count) if level != "quick" else range(1)
    shifts = range(1, count) if level == "full" else range(1, 2)
    everyone = range(count)
    found = [
        Pattern(
            RING if by == 1 else f"{RING} by {by}",
            tuple((device, (device + by) % count) for device in everyone),
        )
        for by in shifts
    ]
    if count == 2:
        return found
    for hub in hubs:
        others = [device for device in everyone if device != hub]
        found.append(Pattern(ALL_TO_ONE, tuple((device, hub) for device in others), hub))
        found.append(Pattern(ONE_TO_ALL, tuple((hub, device) for device in others), hub))
    every = tuple((src, dst) for src in everyone for dst in everyone if src != dst)
    return [*found, Pattern(ALL_TO_ALL, every)]


def phases(count: int) -> "list[tuple[Ends, ...]]":
    """Split all to all into phases in which every device writes to one and receives from one.

    First within the halves of the list, recursively, then from half to half: if two halves share
    a narrow path, all flows of a phase use it or none does. In a plain rotation (to the next, to
    the next but one, ...) a single flow of the first phase would use it and hide that it is narrow.
    """
    if count == 1:
        return []
    everyone = range(count)
    if count % 2:
        return [
            tuple((device, (device + by) % count) for device in everyone) for by in range(1, count)
        ]
    half = count // 2
    within = [(*phase, *((half + src, half + dst) for src, dst in phase)) for phase in phases(half)]
    near, far = range(half), range(half, count)
    across = [
        (*zip(near, (*far[by:], *far[:by])), *zip(far, (*near[by:], *near[:by])))
        for by in range(half)
    ]
    return [*within, *across]


def slots(flows: Sequence[Ends]) -> "list[tuple[int, int]]":
    """(source slot, destination slot) of each flow; no two share a part of a buffer."""
    sent: dict[int, int] = {}
    got: dict[int, int] = {}
    places = []
    for src, dst in flows:
        places.append((sent.get(src, 0), got.get(dst, 0)))
        sent[src] = sent.get(src, 0) + 1
        got[dst] = got.get(dst, 0) + 1
    return places


@dataclass(frozen=True)
class PatternResult:
    """One pattern's figures, GB/s."""

    pattern: Pattern
    each: tuple[float, ...]
    total: float
    schedule: str = AT_ONCE


def has_one_port(ran: Sequence[PatternResult], alone: Mapping[Ends, float]) -> bool:
    """Whether one to all is hardly faster than to one: a switch or a slot, no separate links."""
    return _times_one_pair(ran, alone, ONE_TO_ALL) <= ONE_PORT


def _times_one_pair(ran: Sequence[PatternResult], alone: Mapping[Ends, float], name: str) -> float:
    return statistics.median(
        result.total / max(alone[ends] for ends in result.pattern.flows)
        for result in ran
        if result.pattern.name == name
    )


def wiring(
    ran: Sequence[PatternResult], alone: Mapping[Ends, float], names: Sequence[str]
) -> "tuple[str, dict[str, object]]":
    """One sentence on what the figures show, and the ratios behind it."""
    ring = next(result for result in ran if result.pattern.name == RING)
    kept = min(_parts(ring, alone).values())
    details: dict[str, object] = {"ring_kept": round(kept, 3)}
    if len(names) == 2:
        shares = "its speed: full duplex"
        if kept < HOLDS:
            shares = f"{_percent(kept)} of its speed: one path serves both directions"
        return f"Two GPUs, both directions at once: each keeps {shares}.", details
    factors = [_times_one_pair(ran, alone, name) for name in (ONE_TO_ALL, ALL_TO_ONE)]
    fan, peers = min(factors), len(names) - 1
    shares_of = ("one_to_all_times_one_pair", "all_to_one_times_one_pair")
    details.update(zip(shares_of, (round(factor, 3) for factor in factors)), peers=peers)
    everyone = next(result for result in ran if result.pattern.name == ALL_TO_ALL)
    in_phases = everyone.schedule == IN_PHASES
    parts = _parts(everyone, alone)
    groups = _groups(parts, len(names)) if in_phases else []
    details["schedule"] = everyone.schedule
    details["groups"] = [[names[place] for place in group] for group in groups]
    if groups:
        shown = " | ".join(" ".join(names[place] for place in group) for group in groups)
        return (
            f"With every GPU writing to one other at a time those between {shown} fall behind, and "
            "only those: the groups share a narrower path to each other."
        ), details
    if kept < HOLDS:
        return _crowded(ring, alone, names), details
    least = min(parts.values())
    if in_phases and least < HOLDS:
        src, dst = min(parts, key=lambda ends: parts[ends])
        details["least_kept_in_phases"] = round(least, 3)
        return (
            "All neighbours at once keep their speed, but with every GPU writing to one other at "
            f"a time some pairs do not ({names[src]} to {names[dst]} keeps {_percent(least)}), and "
            "they are not those between any groups: what holds them up is not in these figures."
        ), details
    if fan <= ONE_PORT:
        return (
            "All neighbours at once keep their speed, and one GPU to all is as fast as to one: "
            "each GPU has one port into a switch, or a host bridge, that does not block."
        ), details
    return (
        f"One GPU with all {peers} peers at once moves {fan:.1f} times what one pair does: "
        + ("a mesh, with links of its own for each peer." if fan >= HOLDS * peers
           else "links of its own for some peers, or a port wider than one pair uses.")
    ), details  # fmt: skip


def _crowded(ring: PatternResult, alone: Mapping[Ends, float], names: Sequence[str]) -> str:
    """What slow pairs mean when every GPU writes to its neighbour."""
    kept = _parts(ring, alone)
    behind = sorted((ends for ends in kept if kept[ends] < HOLDS), key=lambda ends: kept[ends])
    src, dst = behind[0]
    worst = f"keeps {_percent(kept[behind[0]])} of what it gets alone"
    start = "With every GPU writing to its neighbour at once"
    if len(behind) == len(kept):
        path = "the pairs share a path (a PCIe uplink, a socket, host memory)"
        return f"{start} a pair {worst}: {path}."
    if len(behind) == 1:
        return (
            f"{start} {names[src]} to {names[dst]} alone falls behind and {worst}: what holds it "
            "up is not in these figures."
        )
    return (
        f"{start} {len(behind)} of {len(kept)} pairs fall behind ({names[src]} to {names[dst]} "
        f"{worst}), as pairs do that share a path (a PCIe uplink, a socket, host memory)."
    )


def _parts(result: PatternResult, alone: Mapping[Ends, float]) -> "dict[Ends, float]":
    """The part of its rate alone that each pair keeps."""
    return {ends: rate / alone[ends] for ends, rate in zip(result.pattern.flows, result.each)}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _groups(parts: Mapping[Ends, float], count: int) -> "list[list[int]]":
    """Groups of GPUs with a too narrow path between the groups; none if in doubt.

    `parts`: the part of its rate alone that each pair keeps. Every pair within a group keeps its
    rate and every pair between two groups is far below it, in both directions. Neither chance nor
    a single slow GPU looks like that.
    """
    group = list(range(count))
    for (src, dst), kept in parts.items():
        if kept >= HOLDS:
            old, new = group[dst], group[src]
            group = [new if member == old else member for member in group]
    found = [
        [place for place in range(count) if group[place] == name] for name in sorted(set(group))
    ]
    consistent = all(
        kept >= HOLDS if group[src] == group[dst] else kept < BLOCKED
        for (src, dst), kept in parts.items()
    )
    alone = any(len(group) == 1 for group in found)  # it has no path of its own to share
    return found if len(found) > 1 and consistent and not alone else []
