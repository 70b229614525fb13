"""Who is behind in a communicator, by one answer of RAS or by two."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice, pairwise

import msgspec

from .answer import ABORT, Process, RasAnswer, RasCommunicator, RasRank
from .client import RasReply
from .places import RasPlace

Extremes = dict[str, tuple[int, int]]
"""By collective: how many the furthest rank launched, and the last one."""


class CommunicatorState(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One communicator and how far its ranks are."""

    communicator: RasCommunicator
    still: bool | None
    """Whether no rank launched anything between two answers; None where there are not two that
    count."""
    quiet_seconds: float | None = None
    """For how long nothing was launched, over all answers so far; None where that is not known."""
    launched: tuple[tuple[str, int], ...] = ()
    """Every collective that was launched, and how many of it the furthest rank did."""
    function: str | None = None
    """The collective in which ranks differ, else the only one that was ever launched."""
    top: int | None = None
    """How many of it the furthest ranks launched."""
    blocked: int | None = None
    """The first of them that some ranks did not launch, so that it ends nowhere; `top` where all
    launched equally many. Ranks launch ahead of their GPUs: how far, accuses nobody."""
    ahead: tuple[RasRank, ...] = ()
    """Named ranks that launched that one."""
    ahead_count: int = 0
    """How many ranks did, those included that are not named."""
    slowest_ahead: int | None = None
    """How many of it the least of those launched."""
    behind: tuple[RasRank, ...] = ()
    behind_count: int = 0
    """How many ranks did not, those included that are not named."""
    before: int | None = None
    """The top of the earlier answer."""
    grown: int | None = None
    """How many collectives the furthest rank launched between the answers; None without two."""
    crossed: tuple[tuple[int, str, int], ...] = ()
    """Two ranks of which each launched more of one collective than the other, with that collective
    and its count: they called different ones. Of one order of calls, all counts of a rank that is
    behind are the smaller ones, or equal."""
    answer: RasAnswer | None = None
    """Where it is from."""
    place: RasPlace | None = None
    """Who was asked."""

    @property
    def reach(self) -> str:
        """How far the ranks are that are not behind: "64", "61 to 64"."""
        least = self.top if self.slowest_ahead is None else self.slowest_ahead
        return f"{least}{f' to {self.top}' * (least != self.top)}"

    @property
    def counts(self) -> bool:
        """Whether the answer says how many collectives were launched; texts of NCCL need not."""
        named = any(rank.counts for rank in self.communicator.ranks)
        return named or bool(self.communicator.agreed)

    @property
    def who_counts(self) -> str:
        """Whose counts the answer tells: "all", or "those whose counts are known (7 of 8)"."""
        comm = self.communicator
        known = sum(bool(rank.counts) for rank in comm.ranks)
        known += sum(count for name, count, _ in comm.agreed if name == comm.agreed[0][0])
        if known >= comm.size:
            return "all"
        return f"those whose counts are known ({known:,} of {comm.size:,})"

    @cached_property
    def slow(self) -> frozenset[RasRank]:
        """Those behind: a large job has too many to look through all of them for each."""
        return frozenset(self.behind)

    @cached_property
    def late(self) -> frozenset[int]:
        """The processes here of ranks that are behind or do not answer."""
        named = [rank.local_pid for rank in self.behind]
        named += [lost.local_pid for lost in self.communicator.missing if not lost.left]
        return frozenset(pid for pid in named if pid is not None)

    @cached_property
    def pids(self) -> frozenset[int]:
        """The processes here of all its ranks that are known."""
        return frozenset(
            pid for rank in self.communicator.named if (pid := rank.local_pid) is not None
        )

    @cached_property
    def processes(self) -> frozenset[Process]:
        """The processes of all its ranks that are known, on whatever machine."""
        return frozenset(
            key for rank in self.communicator.named if (key := rank.process_key) is not None
        )

    @cached_property
    def left(self) -> frozenset[Process | None]:
        """The processes that gave this communicator up: they left or aborted it."""
        gone = [lost.process_key for lost in self.communicator.missing if lost.left]
        gone += [rank.process_key for rank in self.communicator.ranks if rank.state == ABORT]
        return frozenset(gone)

    def waiting(self, elsewhere: Collection[Process | None]) -> int:
        """How many of those ahead have nothing to do `elsewhere`, as far as their names tell."""
        return self.ahead_count - sum(
            rank.process_key in elsewhere for rank in self.ahead if rank.process_key
        )


def moving(ras: Iterable[CommunicatorState]) -> frozenset[Process]:
    """The processes of communicators in which something was launched between two answers."""
    return frozenset(who for state in ras if state.still is False for who in state.processes)


def communicator_states(
    replies: Sequence[RasReply], earlier: Sequence[RasReply] = ()
) -> tuple[CommunicatorState, ...]:
    """Every communicator of the answers, the largest first; `earlier` was asked a while before."""
    old = [comm for answer in _answers(earlier) for comm in answer.communicators]
    found = [
        msgspec.structs.replace(
            communicator_state(comm, earlier_of(comm, answer.communicators, old)),
            answer=answer,
            place=reply.place,
        )
        for reply in replies
        for answer in reply.answers
        for comm in answer.communicators
    ]
    return tuple(sorted(found, key=lambda state: -state.communicator.size))


def _answers(replies: Iterable[RasReply]) -> list[RasAnswer]:
    return [answer for reply in replies for answer in reply.answers]


def earlier_of(
    now: RasCommunicator, beside: Sequence[RasCommunicator], old: Sequence[RasCommunicator]
) -> RasCommunicator | None:
    """The same communicator in an earlier answer: by its name, else as the only one of its size.

    A text names only communicators in which something differs.
    """
    if now.name is not None:
        named = next((comm for comm in old if comm.name == now.name), None)
        if named is not None or all(comm.name is not None for comm in old):
            return named
    # A text may count thousands of one size: two are enough to know that it is not the only one.
    own = list(islice((comm for comm in beside if comm.size == now.size), 2))
    found = list(islice((comm for comm in old if comm.size == now.size), 2))
    alone = len(own) == len(found) == 1
    return found[0] if alone and (found[0].name is None or now.name is None) else None


def communicator_state(
    now: RasCommunicator, before: RasCommunicator | None = None
) -> CommunicatorState:
    """How far the ranks of one communicator are; `before`: the same a while ago."""
    extremes = _extremes(now)
    if before is not None and _went_back(extremes, _extremes(before)):
        before = None
    function = _function(extremes)
    still = None if before is None else _still(now, before)
    launched = tuple((name, top) for name, (top, _) in extremes.items() if top)
    old = {} if before is None else _extremes(before)
    grown = (
        None
        if before is None
        else sum(top for _, top in launched) - sum(top for top, _ in old.values())
    )
    if function is None:
        told = len(now.ranks) or sum(ranks for _, ranks, _ in now.agreed[:1])
        return CommunicatorState(
            communicator=now,
            still=still,
            launched=launched,
            ahead=now.ranks,
            ahead_count=told,
            grown=grown,
        )
    # Of ranks that go on, counts are read while they grow.
    if still and (crossed := _crossed(now)):
        counting = tuple(rank for rank in now.ranks if rank.counts)
        return CommunicatorState(
            communicator=now, still=still, launched=launched, ahead=counting, crossed=crossed
        )
    state = _apart(now, function, extremes[function])
    return msgspec.structs.replace(
        state,
        still=still,
        launched=launched,
        grown=grown,
        before=None if before is None else old.get(function, (0, 0))[0],
    )


def _apart(now: RasCommunicator, function: str, extremes: tuple[int, int]) -> CommunicatorState:
    """Who is ahead and who is behind in one collective; `extremes`: its largest and least count."""
    top, least = extremes
    blocked = least + 1 if least < top else top
    ahead = tuple(rank for rank in now.ranks if dict(rank.counts).get(function, -1) >= blocked)
    behind = tuple(rank for rank in now.ranks if dict(rank.counts).get(function, top) < blocked)
    named = [count for rank in now.ranks for name, count in rank.counts if name == function]
    agreed = [(count, each) for name, count, each in now.agreed if name == function]
    return CommunicatorState(
        communicator=now,
        still=None,
        function=function,
        top=top,
        blocked=blocked,
        ahead=ahead,
        ahead_count=len(ahead) + sum(count for count, each in agreed if each >= blocked),
        slowest_ahead=min(
            (each for each in (*named, *(each for _, each in agreed)) if each >= blocked),
            default=None,
        ),
        behind=behind,
        behind_count=len(behind) + sum(count for count, each in agreed if each < blocked),
    )


def _crossed(now: RasCommunicator) -> tuple[tuple[int, str, int], ...]:
    """Two ranks that called different collectives, where the counts of any two prove it."""
    names = sorted(_names(now))
    vectors: dict[tuple[int, ...], int] = {}
    for rank in now.ranks:
        counts = dict(rank.counts)
        if len(counts) == len(names):
            vectors.setdefault(tuple(counts[name] for name in names), rank.rank)
    ordered = sorted(vectors, key=lambda counts: (sum(counts), counts))
    for one, other in pairwise(ordered):
        more = next((at for at, count in enumerate(one) if count > other[at]), None)
        if more is not None:
            less = next(at for at, count in enumerate(one) if count < other[at])
            return (
                (vectors[one], names[more], one[more]),
                (vectors[other], names[less], other[less]),
            )
    return ()


def _still(now: RasCommunicator, before: RasCommunicator) -> bool | None:
    """Whether nothing was launched between two answers; None where they do not say."""
    if _names(now) and _names(before):
        if _twice(now) or _twice(before):
            return None
        if _names(now).keys() == _names(before).keys():
            one, other = _counts(now), _counts(before)
            # A rank that stopped to answer, or began to, launched nothing by that.
            shared = one.keys() & other.keys()
            return all(one[rank] == other[rank] for rank in shared)
        # A text names only ranks that differ, JSON names all: what both tell is how far they are.
        ends, old = _extremes(now), _extremes(before)
        both = ends.keys() & old.keys()
        return all(ends[name] == old[name] for name in both) if both else None
    # A text counts only where ranks differ: from all equal to that, or back, somebody launched.
    healthy = not (_lost(now) or _lost(before))
    return False if healthy and bool(_names(now)) != bool(_names(before)) else None


def _twice(communicator: RasCommunicator) -> bool:
    """Whether an answer gives one rank two counts, so that it contradicts itself."""
    ranks = [rank.rank for rank in communicator.ranks]
    return len(ranks) != len(set(ranks))


def _went_back(now: Extremes, before: Extremes) -> bool:
    """Whether less was launched than before: of another job of that name, or put in first."""
    return any(now[name][0] < before[name][0] for name in now.keys() & before.keys())


def _lost(communicator: RasCommunicator) -> bool:
    return bool(communicator.missing) or "INCOMPLETE" in communicator.marks


def counts_of(communicator: RasCommunicator) -> dict[object, object] | None:
    """All that is counted, by rank, and of ranks that are not named; None where nothing is."""
    return _counts(communicator) if _names(communicator) else None


def _counts(communicator: RasCommunicator) -> dict[object, object]:
    named: dict[object, object] = {rank.rank: rank.counts for rank in communicator.ranks}
    return named | {"agreed": frozenset(communicator.agreed)}


def _function(extremes: Mapping[str, tuple[int, int]]) -> str | None:
    spread = [name for name, (top, least) in extremes.items() if top > least]
    used = [name for name, (top, _) in extremes.items() if top > 0]
    return spread[0] if spread else used[0] if len(used) == 1 else None


def _names(now: RasCommunicator) -> dict[str, None]:
    named = [name for rank in now.ranks for name, _ in rank.counts]
    return dict.fromkeys([*named, *(name for name, _, _ in now.agreed)])


def _extremes(communicator: RasCommunicator) -> Extremes:
    """Largest and smallest count of every collective, in one pass: there may be many of both."""
    found: Extremes = {}
    named = (each for rank in communicator.ranks for each in rank.counts)
    unnamed = ((name, count) for name, _, count in communicator.agreed)
    for name, count in chain(named, unnamed):
        top, least = found.get(name, (count, count))
        found[name] = max(top, count), min(least, count)
    return found
