"""Copies between many GPUs at once: who copies to whom, and what the figures say of the wires."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

Ends = tuple[int, int]
"""(source, destination): places in the list of devices."""

HOLDS = 0.85
"""A flow that keeps this part of what it gets alone is not held up by the others."""
ONE_PORT = 1.2
"""A hub whose total is at most this many times one pair's has one port for all peers."""
BLOCKED = 0.6
"""A pair under this part of the fastest pair's figure in all to all shares a narrower path."""


@dataclass(frozen=True)
class Pattern:
    """Flows that run at the same time."""

    name: str
    """"ring shift", "ring shift by 2", "all to one", "one to all", "all to all"."""
    flows: tuple[Ends, ...]
    hub: Optional[int] = None
    """The one of "all to one" and "one to all"."""


def patterns(count: int, level: str) -> list[Pattern]:
    """What is run among so many devices; two of them have nothing but the ring."""
    hubs = range(count) if level != "quick" else range(1)
    shifts = range(1, count) if level == "full" else range(1, 2)
    everyone = range(count)
    found = [
        Pattern(
            "ring shift" if by == 1 else f"ring shift by {by}",
            tuple((one, (one + by) % count) for one in everyone),
        )
        for by in shifts
    ]
    if count == 2:
        return found
    for hub in hubs:
        others = [one for one in everyone if one != hub]
        found.append(Pattern("all to one", tuple((one, hub) for one in others), hub))
        found.append(Pattern("one to all", tuple((hub, one) for one in others), hub))
    every = tuple((src, dst) for src in everyone for dst in everyone if src != dst)
    return [*found, Pattern("all to all", every)]


def slots(flows: Sequence[Ends]) -> "list[tuple[int, int]]":
    """(source slot, destination slot) for each flow: no two share a part of a buffer."""
    sent: dict[int, int] = {}
    got: dict[int, int] = {}
    places = []
    for src, dst in flows:
        places.append((sent.get(src, 0), got.get(dst, 0)))
        sent[src] = sent.get(src, 0) + 1
        got[dst] = got.get(dst, 0) + 1
    return places


@dataclass(frozen=True)
class Ran:
    """One pattern's figures, GB/s."""

    pattern: Pattern
    each: tuple[float, ...]
    total: float


def wiring(
    ran: Sequence[Ran], alone: Mapping[Ends, float], names: Sequence[str]
) -> "tuple[str, dict[str, object]]":
    """One sentence on what the figures show, and the ratios it rests on."""
    ring = next(one for one in ran if one.pattern.name == "ring shift")
    kept = min(figure / alone[ends] for ends, figure in zip(ring.pattern.flows, ring.each))
    details: dict[str, object] = {"ring_kept": round(kept, 3)}
    if len(names) == 2:
        shares = "each keeps its speed" if kept >= HOLDS else f"each keeps {kept:.0%} of its speed"
        link = "full duplex" if kept >= HOLDS else "one path serves both directions"
        return f"Two GPUs, both directions at once: {shares}: {link}.", details
    factors = {
        name: statistics.median(
            one.total / statistics.median(alone[ends] for ends in one.pattern.flows)
            for one in ran
            if one.pattern.name == name
        )
        for name in ("one to all", "all to one")
    }
    peers = len(names) - 1
    fan = min(factors.values())
    details.update(
        one_to_all_times_one_pair=round(factors["one to all"], 3),
        all_to_one_times_one_pair=round(factors["all to one"], 3),
        peers=peers,
    )
    everyone = next(one for one in ran if one.pattern.name == "all to all")
    groups = _groups(everyone, len(names))
    details["groups"] = [[names[place] for place in group] for group in groups]
    if 1 < len(groups) < len(names):
        shown = " | ".join(" ".join(names[place] for place in group) for group in groups)
        return (
            f"With all pairs at once those between {shown} fall behind: the groups share a "
            "narrower path to each other."
        ), details
    if kept < HOLDS:
        return (
            f"With every GPU writing to its neighbour at once a pair keeps {kept:.0%} of what it "
            "gets alone: the pairs share a path (a PCIe uplink, a socket, host memory)."
        ), details
    if fan <= ONE_PORT:
        return (
            "All neighbours at once keep their speed, and one GPU to all is as fast as to one: "
            "each GPU has one port into a switch that does not block."
        ), details
    return (
        f"One GPU with all {peers} peers at once moves {fan:.1f} times what one pair does: "
        + ("a mesh, with links of its own for each peer." if fan >= HOLDS * peers
           else "links of its own for some peers, or a port wider than one pair uses.")
    ), details  # fmt: skip


def _groups(ran: Ran, count: int) -> "list[list[int]]":
    """Devices joined by pairs that are not far under the fastest, in both directions."""
    figures = dict(zip(ran.pattern.flows, ran.each))
    line = BLOCKED * max(ran.each)
    group = list(range(count))
    for (src, dst), figure in figures.items():
        if figure >= line and figures[dst, src] >= line:
            old, new = group[dst], group[src]
            group = [new if one == old else one for one in group]
    return [
        [place for place in range(count) if group[place] == name] for name in sorted(set(group))
    ]
