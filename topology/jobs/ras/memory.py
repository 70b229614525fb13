"""Since when the counts of a communicator stand still, over any number of answers of RAS."""

from collections.abc import Iterable, Mapping

import msgspec

from .answer import RasAnswer
from .comparing import counts_of

MOST_REMEMBERED = 8192
LONGEST_SECONDS = 366 * 86400.0
"""No job stands still for longer; two answers that are further apart have clocks that differ."""


class CountsSeen(msgspec.Struct, frozen=True):
    """What a communicator had launched, and when that was seen first."""

    counts: object
    at: float
    """Seconds of a clock that only counts up."""


Memory = Mapping[str, CountsSeen]
"""By the name of a communicator; those without a name are not remembered."""


def remember(before: Memory, answers: Iterable[RasAnswer], at: float) -> Memory:
    """Add one look: who launched something is seen anew, who did not keeps the earlier moment."""
    found: dict[str, CountsSeen] = {}
    for answer in answers:
        for comm in answer.communicators:
            counts = counts_of(comm)
            if comm.name is None or counts is None or len(found) >= MOST_REMEMBERED:
                continue
            known = before.get(comm.name)
            same = known is not None and known.counts == counts
            found[comm.name] = known if known is not None and same else CountsSeen(counts, at)
    return found


def quiet(memory: Memory, name: str | None, at: float) -> float | None:
    """For how many seconds nothing was launched in a communicator; None where nothing is known."""
    known = None if name is None else memory.get(name)
    passed = None if known is None else at - known.at
    return passed if passed is not None and 0 <= passed <= LONGEST_SECONDS else None
