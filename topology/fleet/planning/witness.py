"""A pair that must answer: without one, a round of which no file came proves nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..hosts import in_order
from .fabric import SwitchFabric
from .looks import ABSENT, NO_FILE, NetLook
from .pairing import Before, Pair, with_good


def witness(
    pairs: Iterable[Pair],
    looks: Iterable[NetLook],
    good: Collection[str],
    fabric: SwitchFabric,
    before: Before,
    seed: int,
) -> Pair | None:
    """Two nodes known to be good, where each pair of a round has a node that left no file before.

    A launcher that did not start and a round of dead nodes look the same: no file. None where
    some other pair of the round will answer, or where fewer than two good nodes are free.
    """
    planned = list(pairs)
    silent = {
        host
        for look in looks
        if look.status == ABSENT and look.why == NO_FILE
        for host in look.hosts
    } - set(good)
    if not planned or not all(silent.intersection(pair) for pair in planned):
        return None
    free = in_order(set(good).difference(*planned))
    if len(free) < 2:
        return None
    # Partners may meet again: whether the round ran is asked, not how fast they are.
    return next(iter(with_good(free[:1], free[1:], fabric, before, seed)), (free[0], free[1]))
