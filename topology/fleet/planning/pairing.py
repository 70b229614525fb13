"""Pairs of hosts for one round: each host at most once, with a partner that it did not have yet.

A round-robin of N nodes takes N-1 rounds (SuperBench calls it pair-wise); two rounds of N/2 pairs
show the same faults of nodes and links, as every host is measured twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from ...model.gathered import gathered_by
from ..hosts import in_order
from .fabric import SwitchFabric

LEAF, RANDOM, RAIL = "leaf", "random", "rail"
STRATEGIES = (LEAF, RANDOM, RAIL)
"""leaf: partners below different leaf switches, so that uplinks are measured too. random: any
partner. rail: partners below one leaf switch, so that each rail stays on that switch."""
_SHIFTS = 24
_SWAPS = 200

Pair: TypeAlias = tuple[str, str]
Before: TypeAlias = Mapping[str, Collection[str]]
Fits: TypeAlias = Callable[[str, str], bool]


def paired(
    hosts: Iterable[str], fabric: SwitchFabric, strategy: str, before: Before, seed: int
) -> tuple[list[Pair], list[str]]:
    """The pairs of one round and the hosts that are left over; the same for the same seed.

    Where a fleet allows no other way, partners repeat or share a leaf.
    """
    chance = random.Random(seed)
    if strategy == RAIL and fabric.leaf_of:
        return _within(hosts, fabric, before, chance)
    across = strategy == LEAF and bool(fabric.leaf_of)

    def fits(first: str, second: str) -> bool:
        if second in before.get(first, ()):
            return False
        return not across or fabric.leaf(first) != fabric.leaf(second)

    ordered = _by_leaf(hosts, fabric, chance) if across else _shuffled(hosts, chance)
    left: list[str] = []
    if len(ordered) % 2:
        # Whoever was measured most waits.
        rest = max(ordered, key=lambda host: (len(before.get(host, ())), host))
        ordered.remove(rest)
        left.append(rest)
    half = len(ordered) // 2
    first, second = ordered[:half], ordered[half:]
    if across:
        # The nodes of one leaf get partners below many: one bad leaf then stands out alone.
        second = _dealt(second, fabric)
    return _matched(first, second, fits, chance), left


def with_good(
    suspects: Sequence[str], good: Iterable[str], fabric: SwitchFabric, before: Before, seed: int
) -> list[Pair]:
    """A partner that is known to be good for each suspect, as long as there are some.

    Best is one that it did not have, below another leaf switch, as in the first rounds.
    """
    chance = random.Random(seed)
    pool = _shuffled(good, chance)
    found = []
    for suspect in suspects:
        place = _place(suspect, pool, fabric, before)
        if place is not None:
            found.append((suspect, pool.pop(place)))
    return found


def _place(suspect: str, pool: Sequence[str], fabric: SwitchFabric, before: Before) -> int | None:
    had = before.get(suspect, ())
    leaf = fabric.leaf(suspect)
    best: tuple[int, int] | None = None
    # From the end, where taking one away costs nothing.
    for place in range(len(pool) - 1, -1, -1):
        other = pool[place]
        if other in had or other == suspect:
            continue
        price = int(leaf is not None and fabric.leaf(other) == leaf)
        if best is None or price < best[0]:
            best = price, place
        if price == 0:
            break
    return None if best is None else best[1]


def _matched(first: list[str], second: list[str], fits: Fits, chance: random.Random) -> list[Pair]:
    """Pair the first half with the second, shifted; repair by exchanges what does not fit."""
    half = len(first)
    if not half:
        return []
    shifts = [0, *(chance.randrange(half) for _ in range(_SHIFTS))]
    best, fewest = second, half + 1
    for shift in shifts:
        turned = second[shift:] + second[:shift]
        wrong = sum(not fits(one, other) for one, other in zip(first, turned, strict=True))
        if wrong < fewest:
            best, fewest = turned, wrong
        if not wrong:
            break
    for place in range(half):
        if fits(first[place], best[place]):
            continue
        for _ in range(_SWAPS):
            other = chance.randrange(half)
            if fits(first[place], best[other]) and fits(first[other], best[place]):
                best[place], best[other] = best[other], best[place]
                break
    return list(zip(first, best, strict=True))


def _within(
    hosts: Iterable[str], fabric: SwitchFabric, before: Before, chance: random.Random
) -> tuple[list[Pair], list[str]]:
    by_leaf = gathered_by(in_order(hosts), fabric.leaf)
    pairs: list[Pair] = []
    left: list[str] = []
    for leaf, group in by_leaf.items():
        if leaf is None or len(group) < 2:
            left += group
            continue
        chance.shuffle(group)
        if len(group) % 2:
            rest = max(group, key=lambda host: (len(before.get(host, ())), host))
            group.remove(rest)
            left.append(rest)
        half = len(group) // 2
        pairs += _matched(
            group[:half], group[half:], lambda one, other: other not in before.get(one, ()), chance
        )
    return pairs, left


def _by_leaf(hosts: Iterable[str], fabric: SwitchFabric, chance: random.Random) -> list[str]:
    """Hosts leaf after leaf, the largest leaf first, leaves and hosts otherwise shuffled."""
    by_leaf = gathered_by(in_order(hosts), fabric.leaf)
    groups = list(by_leaf.values())
    chance.shuffle(groups)
    for group in groups:
        chance.shuffle(group)
    groups.sort(key=len, reverse=True)
    return [host for group in groups for host in group]


def _dealt(hosts: Iterable[str], fabric: SwitchFabric) -> list[str]:
    """One host of each leaf after the other, as cards are dealt."""
    by_leaf = gathered_by(hosts, fabric.leaf)
    rows = zip_longest(*by_leaf.values())
    return [host for row in rows for host in row if host is not None]


def _shuffled(hosts: Iterable[str], chance: random.Random) -> list[str]:
    ordered = in_order(hosts)
    chance.shuffle(ordered)
    return ordered
