"""Finds the node that slows larger jobs alone: all-reduce over sets, larger and larger, then split.

Group testing (R. Dorfman, "The Detection of Defective Members of Large Populations", Annals of
Mathematical Statistics 14, 1943) with one difference: a fault that shows only at scale stays hidden
in a small set, so that only a set of at least the smallest size that was ever bad acquits its
members, and the parts of a bad set are filled up with acquitted nodes to that size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from ...model.gathered import gathered
from ..hosts import in_order
from .culprits import AT_SCALE, Culprit
from .looks import NetLook

FIRST_SIZE = 16
GROWTH = 4
"""Sets of one step are so many times larger than those of the step before."""
SET_SHARE = 0.85
"""A set is bad below this share of what is usual for its size."""
LEAST_EQUAL = 3
"""So many sets of one size and round say what is usual."""
LEAST_BAD_SETS = 2
"""One node is accused when so many sets with it were bad."""


@dataclass(frozen=True, slots=True)
class SetRound:
    """What the looks at sets prove, and which sets come next."""

    sets: tuple[tuple[str, ...], ...] = ()
    """Each host at most once; they may run at the same time."""
    culprits: tuple[Culprit, ...] = ()
    candidates: tuple[str, ...] = ()
    """One of these slows larger jobs."""
    stuck: str = ""
    """Why no further set can tell more; "" where one can, or where nothing is wrong."""


def next_sets(looks: Iterable[NetLook], hosts: Collection[str]) -> SetRound:
    """Judge all looks at three hosts and more, and plan the next sets over these hosts."""
    seen = [look for look in looks if len(look.hosts) > 2]
    bad = [frozenset(look.hosts) for look in _bad(seen)]
    good = [frozenset(look.hosts) for look in seen if frozenset(look.hosts) not in set(bad)]
    if not bad:
        return _grown(max((len(one) for one in good), default=0), in_order(hosts))
    size = min(map(len, bad))
    acquitted = set[str]().union(*(one for one in good if len(one) >= size))
    smallest = [one for one in bad if len(one) == size]
    culprits: list[Culprit] = []
    sets: list[tuple[str, ...]] = []
    still_open: list[str] = []
    targets = _targets(smallest, bad, acquitted)
    doubted = set[str]().union(*targets)
    fillers = [host for host in in_order(hosts) if host in acquitted]
    # Next best are nodes outside of what is bad: one fault is more likely than two.
    fillers += [host for host in in_order(hosts) if host not in acquitted | doubted]
    stuck = ""
    for candidates in targets:
        if len(candidates) == 1:
            (host,) = candidates
            holding = [one for one in bad if host in one]
            if len(holding) >= LEAST_BAD_SETS:
                because = f"{len(holding)} sets with it are bad, the smallest of {size} nodes"
                culprits.append(Culprit(AT_SCALE, (host,), because=because))
                continue
        still_open += candidates
        more, fillers = _split(candidates, fillers, size)
        if not more and len(targets) == 1:
            more = _without_quarters(candidates, good)
        sets += more
        if not more and not sets:
            stuck = f"it shows in sets of {size} nodes, and there are too few others to split them"
    if culprits:
        stuck = ""
    elif not sets and not stuck:
        stuck = "the bad sets have no node in common: more than one may be at fault"
    return SetRound(tuple(sets), tuple(culprits), tuple(in_order(still_open)), stuck)


def _bad(seen: Sequence[NetLook]) -> list[NetLook]:
    """Sets that did not finish or are slower than usual for their size."""
    usual = _usual(seen)
    bad = []
    for look in seen:
        speed = _speed(look)
        if not look.finished or speed is None or speed < SET_SHARE * usual[len(look.hosts)]:
            bad.append(look)
    return bad


def _usual(seen: Sequence[NetLook]) -> dict[int, float]:
    """Size -> what its sets give: the median of the first round with three of them.

    One sick node is in one of the sets of that round. Sizes of fewer sets have the figure of the
    next smaller size: the bus bandwidth of a large all-reduce hardly depends on the size.
    """
    speeds = [
        (look, speed) for look in seen if look.finished and (speed := _speed(look)) is not None
    ]
    rounds = gathered(((len(look.hosts), look.round or 0), speed) for look, speed in speeds)
    last = max((speed for _, speed in speeds), default=0.0)
    usual = {}
    for size in sorted({len(look.hosts) for look in seen}):
        own = (values for (of, _), values in sorted(rounds.items()) if of == size)
        whole = next((values for values in own if len(values) >= LEAST_EQUAL), None)
        last = last if whole is None else median(whole)
        usual[size] = last
    return usual


def _speed(look: NetLook) -> float | None:
    """The all-reduce over all rails of a look, GB/s."""
    return max((flow.gbs or 0.0 for flow in look.results if flow.rail is None), default=None)


def _grown(largest: int, hosts: Sequence[str]) -> SetRound:
    """Sets of the next size, all of one size; a few hosts may be left over until the next one."""
    if largest >= len(hosts) or len(hosts) < 3:
        return SetRound()
    size = min(len(hosts), max(FIRST_SIZE, largest * GROWTH))
    count = max(1, len(hosts) // size)
    size = len(hosts) // count
    # Every count-th host: a set reaches over all leaves, as a large job does.
    return SetRound(sets=tuple(tuple(hosts[start::count][:size]) for start in range(count)))


def _targets(
    smallest: Sequence[frozenset[str]], bad: Sequence[frozenset[str]], acquitted: set[str]
) -> list[list[str]]:
    """The hosts that each group of overlapping bad sets has in common and nothing acquits."""
    targets: list[set[str]] = []
    for one in sorted((*smallest, *(b for b in bad if b not in set(smallest))), key=len):
        left = set(one - acquitted)
        for target in targets:
            if target & left:
                target &= left
                break
        else:
            if left and one in smallest:
                targets.append(left)
    return [in_order(target) for target in targets if target]


def _split(
    candidates: Sequence[str], fillers: list[str], size: int
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Part the candidates into as many sets as there are fillers for, each of this size."""
    room = (len(candidates) + len(fillers)) // size
    count = min(len(candidates), room)
    if count < 2 and len(candidates) > 1:
        # One set is enough: whatever it gives decides about the rest.
        kept = max((len(candidates) + 1) // 2, size - len(fillers))
        if kept >= len(candidates):
            return [], fillers
        need = size - kept
        return [(*candidates[:kept], *fillers[:need])], fillers[need:]
    if count < 1:
        return [], fillers
    parts = [list(candidates[start::count]) for start in range(count)]
    sets = []
    for part in parts:
        need = size - len(part)
        sets.append((*part, *fillers[:need]))
        fillers = fillers[need:]
    return sets, fillers


def _without_quarters(
    candidates: Sequence[str], good: Sequence[frozenset[str]]
) -> list[tuple[str, ...]]:
    """Parts of a bad set while no node is acquitted yet: its halves, then three quarters of it.

    The halves run at the same time and acquit nobody where both are good, as they are smaller than
    what was bad. A node belongs to three of the four sets that lack a quarter each.
    """
    middle = (len(candidates) + 1) // 2
    halves = [tuple(candidates[:middle]), tuple(candidates[middle:])]
    fresh = [half for half in halves if len(half) > 1 and frozenset(half) not in good]
    if fresh:
        return fresh
    for start in range(4):
        quarter = set(candidates[start::4])
        rest = tuple(host for host in candidates if host not in quarter)
        if frozenset(rest) not in good:
            return [rest]
    return []
