"""Who is behind in a communicator, by one answer of RAS or by two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from .answer import RasAnswer, RasCommunicator, RasRank
from .client import RasReply


class RasStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One communicator and how far its ranks are."""

    communicator: RasCommunicator
    still: bool | None
    """Whether no rank launched anything between two answers; None where there are not two that
    count."""
    launched: tuple[tuple[str, int], ...] = ()
    """Every collective that was launched, and how many of it the furthest rank did."""
    function: str | None = None
    """The collective in which ranks differ, else the only one that was ever launched."""
    top: int | None = None
    """How many of it the furthest ranks launched."""
    ahead: tuple[RasRank, ...] = ()
    """Named ranks that launched the last of it."""
    ahead_count: int = 0
    """How many ranks did, those included that are not named."""
    behind: tuple[RasRank, ...] = ()
    before: int | None = None
    """The top of the earlier answer."""

    @property
    def counts(self) -> bool:
        """Whether the answer says how many collectives were launched; texts of NCCL need not."""
        named = any(rank.counts for rank in self.communicator.ranks)
        return named or bool(self.communicator.agreed)

    @property
    def pids(self) -> frozenset[int]:
        """The processes of all its ranks that are known."""
        named = [rank.pid for rank in self.communicator.ranks]
        lost = [rank.pid for rank in self.communicator.missing]
        return frozenset(pid for pid in (*named, *lost) if pid is not None)


def standings(
    replies: Sequence[RasReply], earlier: Sequence[RasReply] = ()
) -> tuple[RasStanding, ...]:
    """Every communicator of the answers, the largest first; `earlier` was asked a while before."""
    known = {
        each.name: each
        for answer in _answers(earlier)
        for each in answer.communicators
        if each.name is not None
    }
    found = [
        _standing(each, known.get(each.name) if each.name is not None else None)
        for answer in _answers(replies)
        for each in answer.communicators
    ]
    return tuple(sorted(found, key=lambda each: -each.communicator.size))


def _answers(replies: Iterable[RasReply]) -> list[RasAnswer]:
    return [answer for reply in replies for answer in reply.answers]


def _standing(now: RasCommunicator, before: RasCommunicator | None) -> RasStanding:
    function = _function(now)
    names = _names(now)
    still = None if before is None or not names else _counts(now) == _counts(before)
    launched = tuple((name, top) for name in names if (top := _top(now, name)[0]))
    if function is None:
        told = len(now.ranks) or sum(ranks for _, ranks, _ in now.agreed[:1])
        return RasStanding(
            communicator=now, still=still, launched=launched, ahead=now.ranks, ahead_count=told
        )
    top, _, unnamed = _top(now, function)
    ahead = tuple(rank for rank in now.ranks if dict(rank.counts).get(function) == top)
    behind = tuple(rank for rank in now.ranks if dict(rank.counts).get(function, top) < top)
    return RasStanding(
        communicator=now,
        still=still,
        launched=launched,
        function=function,
        top=top,
        ahead=ahead,
        ahead_count=len(ahead) + unnamed,
        behind=behind,
        before=None if before is None else _top(before, function)[0],
    )


def _counts(communicator: RasCommunicator) -> dict[object, object]:
    """All that is counted, by rank, and of the ranks that are not named."""
    named: dict[object, object] = {rank.rank: rank.counts for rank in communicator.ranks}
    return named | {"agreed": frozenset(communicator.agreed)}


def _function(now: RasCommunicator) -> str | None:
    tops = {name: _top(now, name) for name in _names(now)}
    spread = [name for name, top in tops.items() if top[0] > top[1]]
    used = [name for name, top in tops.items() if top[0] > 0]
    return spread[0] if spread else used[0] if len(used) == 1 else None


def _names(now: RasCommunicator) -> dict[str, None]:
    named = [name for rank in now.ranks for name, _ in rank.counts]
    return dict.fromkeys([*named, *(name for name, _, _ in now.agreed)])


def _top(communicator: RasCommunicator, function: str) -> tuple[int, int, int]:
    """Largest and smallest count of a collective, and how many unnamed ranks have the largest."""
    named = [dict(rank.counts).get(function) for rank in communicator.ranks]
    unnamed = [(count, ranks) for name, ranks, count in communicator.agreed if name == function]
    every = [count for count in named if count is not None] + [count for count, _ in unnamed]
    top = max(every, default=0)
    return top, min(every, default=0), sum(ranks for count, ranks in unnamed if count == top)
