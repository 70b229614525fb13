"""Who waits for whom in the operations that the Inspector recorded, why, and what they cost.

The kernel of a collective runs from the moment at which its own rank comes to the end of the
transfer. So the shortest of the ranks took the transfer alone, and what others took beyond it they
waited for the last one: on two H100 a rank that came 29 ms late took 0.245 ms, the other 29.4 ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from statistics import linear_regression, median
from typing import NamedTuple

import msgspec

from ...model.english import plural
from ...model.gathered import gathered
from ..collectives import spoken
from ..lateness import Lateness
from .doubting import agreed, doubts, of_one_time, of_several
from .lengthening import Lengthening, lengthening
from .records import FinishedOperation

LEAST_OPERATIONS = 5
"""From so many of one kind on something is said of it."""
WHOLE_MOMENTS = 3
"""At which the plugin wrote: what lies between the first and the last is whole. Of two the second
may be cut, so that a share of the time is one at least."""
PAUSE_TIMES, SHORTEST_PAUSE = 20, 0.001
"""A pause of the plugin is so many times as long as that between most of its lines, in seconds."""
ROOM = 1.05
"""Means of a few operations may be this much over the time that passed."""
LEAST_SHARE = 0.05
"""From this share of their time on, waiting ranks are worth a sentence."""
SLOW_SHARE = 0.1
"""From this share on it makes the job slow."""
ALWAYS = 0.8
"""From this share of the operations on, one rank is the one that comes last."""
MOSTLY = 2 / 3
"""Of the waiting for a rank: so much of it shows why that one is late."""
AHEAD_SECONDS = 0.001
"""So long before its kernel no callback of a stream runs, by which CUDA graphs launch."""


class OperationPace(NamedTuple):
    """How often a collective comes."""

    seconds: float
    """From one to the next."""
    whole: bool
    """Whether all that the plugin wrote meanwhile is there; else it is as long at most."""


class PaceKnown(NamedTuple):
    """How often a collective comes, and how often the plugin wrote meanwhile."""

    pace: OperationPace | None
    moments: int
    """At which it wrote, on the rank of which it did least often."""


class WaitingCall(NamedTuple):
    """Calls of a rank that came last, which stood before its GPU while others waited for it."""

    share: float
    """Of their waiting, in which its program had called, and its GPU had not begun."""
    seconds: float
    """From its call to the begin of its kernel, median."""


class RankWaits(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank did in one kind of operation."""

    rank: int
    pid: int | None
    host: str
    seconds: float
    """It waited for others, mean over the operations."""
    last: int
    """In how many it came last and others waited."""
    share: float | None
    """Of its time that it waited so; None where that is not known."""
    costs: Lengthening
    """By how much that lengthens a step."""
    slower: float | None = None
    """The share of its time that it loses by that; None where that is not known."""
    queue: WaitingCall | None = None
    """How its calls stood where others waited for it; None where no event trace says so."""


class OperationKind(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Operations of one collective in one communicator, which all its ranks recorded.

    They are of one size, or of all sizes that the program gave.
    """

    communicator: str
    group: str
    ranks: int
    nodes: int | None
    name: str
    message_bytes: int
    least_bytes: int
    """Of the smallest of them."""
    matched: int
    """Operations that every rank recorded."""
    transfer_seconds: float
    """Median of what the last rank took."""
    bus_gbs: float | None
    """Bus bandwidth of that time in GB/s."""
    held: int
    """In how many somebody waited longer than the transfer took, and longer than 50 us."""
    each_seconds: float | None
    """From one such operation to the next; None where that is not known."""
    waits: tuple[RankWaits, ...]
    whole: bool = True
    """Whether all was written in the time that shares are of; else they are that at least."""
    moments: int = 0
    """At which the plugin wrote, on the rank of which it did least often."""
    called_ahead: bool = False
    """Whether calls of its communicator are seen to be those of a program, which runs ahead of its
    GPU, and not those of a captured graph."""

    @property
    def spoken(self) -> str:
        """The field's word: "all-reduce"."""
        return spoken(self.name)

    @cached_property
    def late(self) -> RankWaits | None:
        """The rank that comes last nearly always, where others wait for it."""
        if self.held < LEAST_OPERATIONS or self.held < ALWAYS * self.matched:
            return None
        most = max(self.waits, key=lambda one: one.last)
        return most if most.last >= ALWAYS * self.held else None

    @property
    def lateness(self) -> Lateness | None:
        """How the late rank is late; None where that is not proven.

        Others wait for a GPU where the call stood in its queue meanwhile, and for the program
        where it did not. All is of the clock of one host, and of how long others waited.
        """
        queue = None if self.late is None else self.late.queue
        if queue is None:
            return None
        if queue.share >= MOSTLY:
            return Lateness.GPU
        return Lateness.HOST if queue.share <= 1 - MOSTLY and self.called_ahead else None

    @cached_property
    def waiting(self) -> tuple[RankWaits, ...]:
        """The others, longest first."""
        late = self.late
        others = [one for one in self.waits if late is None or one.rank != late.rank]
        return tuple(sorted(others, key=lambda one: -one.seconds))

    @property
    def share(self) -> float | None:
        """Of the time of the rank that waits in the middle; None where that is not known."""
        return _middle([one.share for one in self.waiting])

    @property
    def slower(self) -> float | None:
        """The share of the time that a step loses by it; None where that is not known."""
        return _middle([one.slower for one in self.waiting])

    @property
    def most_slower(self) -> float:
        """The same at most, which the operations alone tell."""
        return median([one.costs.most_share for one in self.waiting])


def _middle(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return median(known) if known and len(known) == len(shares) else None


class Inspected(msgspec.Struct, frozen=True, kw_only=True):
    """What the records say."""

    kinds: tuple[OperationKind, ...] = ()
    """Of one size each; those that cost most first."""
    flows: tuple[OperationKind, ...] = ()
    """Collectives of several sizes, each as a whole: a step begins with one of another size, as
    the first part of its gradients is."""
    alone: tuple[tuple[str, tuple[int, ...], int], ...] = ()
    """Communicators of which not every rank has records: name, ranks that have, ranks in all."""
    contradicting: int = 0
    """Records whose bandwidth is not that of their bytes and time."""
    by_cpu: int = 0
    """Operations of which the GPU did not take the time, left out."""
    transfers: int = 0
    """Sends and receives, of which nothing is concluded."""
    operations: int = 0
    contrary: bool = False
    """Whether some of them contradict others, which are left out."""
    apart_seconds: float = 0.0
    """How far apart ranks wrote their records of some collectives, which are left out; else 0."""
    doubts: tuple[str, ...] = ()
    """Lines on records that contradict each other, and on those that are missing."""


def compare(operations: Sequence[FinishedOperation]) -> Inspected:
    """Put the ranks of each communicator side by side; a record that stands twice counts once."""
    given = tuple(dict.fromkeys(operations))
    operations, contrary = agreed(given)
    every = len(operations)
    operations, apart = of_one_time(operations)
    told = operations if apart else given
    mixed = of_several(operations)
    collectives = [one for one in operations if one.peer is None]
    timed = [one for one in collectives if one.on_gpu and one.seconds > 0]
    by_rank: dict[str, dict[int, list[FinishedOperation]]] = defaultdict(lambda: defaultdict(list))
    for one in timed:
        by_rank[one.communicator][one.rank].append(one)
    kinds: list[OperationKind] = []
    flows: list[OperationKind] = []
    alone: list[tuple[str, tuple[int, ...], int]] = []
    for communicator, ranks in by_rank.items():
        size = max(one.ranks for own in ranks.values() for one in own)
        if communicator in mixed:
            continue
        if len(ranks) < size:
            alone.append((communicator, tuple(sorted(ranks)), size))
        elif size > 1:
            rows = _Rows(ranks)
            kinds += rows.kinds()
            flows += rows.flows()
    return Inspected(
        kinds=tuple(sorted(kinds, key=lambda one: -_cost(one))),
        flows=tuple(flows),
        alone=tuple(alone),
        contradicting=sum(one.contradicts_itself for one in timed),
        by_cpu=sum(not one.on_gpu for one in collectives),
        transfers=len(operations) - len(collectives),
        operations=every,
        apart_seconds=apart,
        contrary=bool(contrary or mixed),
        doubts=(*contrary, *doubts(one for one in told if one.on_gpu)),
    )


def _cost(kind: OperationKind) -> float:
    """What to sort by: the share of the time that ranks wait, else the seconds of one operation."""
    if kind.share is not None:
        return kind.share
    return max((one.seconds for one in kind.waits), default=0.0)


Row = Mapping[int, FinishedOperation]
"""One operation by rank."""


class _Rows:
    """The operations of one communicator that all its ranks recorded."""

    def __init__(self, ranks: Mapping[int, Sequence[FinishedOperation]]) -> None:
        self._own = {
            rank: {(one.name, one.number, one.message_bytes): one for one in recorded}
            for rank, recorded in ranks.items()
        }
        shared = set.intersection(*map(set, self._own.values()))
        self._sizes = gathered(((name, size), number) for name, number, size in shared)
        self._names = gathered((name, (number, size)) for name, number, size in shared)
        self._pace = {name: _pace(ranks, name) for name in self._names}
        waits = (one.ahead_seconds or 0.0 for own in ranks.values() for one in own)
        self._ahead = sum(wait >= AHEAD_SECONDS for wait in waits) >= LEAST_OPERATIONS

    def kinds(self) -> Iterator[OperationKind]:
        """Those of one collective and size."""
        for (name, size), numbers in self._sizes.items():
            if len(numbers) < LEAST_OPERATIONS:
                continue
            pace, moments = self._pace[name]
            if pace is not None:
                part = len(numbers) / len(self._names[name])
                pace = pace._replace(seconds=pace.seconds / part)
            rows = [self._row(name, number, size) for number in sorted(numbers)]
            yield _kind(rows, PaceKnown(pace, moments), self._ahead)

    def flows(self) -> Iterator[OperationKind]:
        """Those of one collective, of which there are several sizes."""
        for name, every in self._names.items():
            if len(every) >= LEAST_OPERATIONS and len({size for _, size in every}) > 1:
                rows = [self._row(name, number, size) for number, size in sorted(every)]
                yield _kind(rows, self._pace[name], self._ahead)

    def _row(self, name: str, number: int, size: int) -> Row:
        return {rank: own[name, number, size] for rank, own in self._own.items()}


def _pace(ranks: Mapping[int, Sequence[FinishedOperation]], name: str) -> PaceKnown:
    """From one operation of a collective to the next, by their numbers and when they began.

    Without event traces by the plugin's clock. It may write many at once: what it wrote first came
    to pass in a time that is not known, and what it wrote last may be cut. No pace where it wrote
    once.
    """
    found, moments = [], []
    for recorded in ranks.values():
        own = sorted((one for one in recorded if one.name == name), key=lambda one: one.number)
        if begun := _begun(own):
            found.append((begun, True))
            moments.append(WHOLE_MOMENTS)
            continue
        written = _written_together(own)
        whole = len(written) >= WHOLE_MOMENTS
        kept = written[:-1] if whole else written
        if len(kept) < 2:
            moments.append(len(written))
            continue
        first, last = kept[0][0].written_at, kept[-1][0].written_at
        passed, numbers = last - first, kept[-1][-1].number - kept[0][-1].number
        from_then = (one for one in recorded if first < one.written_at <= last)
        took = sum(one.seconds for one in from_then)
        # One communicator does one after the other: what takes longer was not done in that time.
        fits = numbers > 0 and passed > 0 and took <= passed * ROOM
        moments.append(len(written) if fits else 1)
        if fits:
            found.append((_slope(kept), whole))
    least = min(moments, default=0)
    if len(found) < len(ranks):
        return PaceKnown(None, least)
    each = median(each for each, _ in found)
    return PaceKnown(OperationPace(each, all(whole for _, whole in found)), least)


def _begun(own: Sequence[FinishedOperation]) -> float | None:
    """Seconds from one begin to the next, where each operation has one and they go on in order."""
    begun = [one.begun_at for one in own if one.begun_at is not None]
    if len(begun) < max(len(own), LEAST_OPERATIONS) or begun != sorted(begun):
        return None
    numbers = [one.number - own[0].number for one in own]
    if numbers[-1] <= 0:
        return None
    return linear_regression(numbers, [at - begun[0] for at in begun]).slope


def _slope(written: Sequence[Sequence[FinishedOperation]]) -> float:
    """Seconds of an operation, by all moments: a step may end just before one or just after it."""
    numbers = [part[-1].number - written[0][-1].number for part in written]
    begun = written[0][0].written_at
    return linear_regression(numbers, [part[0].written_at - begun for part in written]).slope


def _kind(rows: Sequence[Row], known: PaceKnown, called_ahead: bool) -> OperationKind:
    pace = known.pace
    waited: dict[int, list[float]] = defaultdict(list)
    last: dict[int, list[tuple[FinishedOperation, float]]] = defaultdict(list)
    transfers = []
    held = 0
    for row in rows:
        shortest = min(row.values(), key=lambda one: one.seconds)
        transfers.append(shortest.seconds)
        longest = max(one.seconds for one in row.values()) - shortest.seconds
        if longest > max(shortest.seconds, 50e-6):
            held += 1
            last[shortest.rank].append((shortest, longest))
        for rank, one in row.items():
            waited[rank].append(one.seconds - shortest.seconds)
    first = next(iter(rows[0].values()))
    sizes = {one.message_bytes for row in rows for one in row.values()}
    transfer = median(transfers)
    return OperationKind(
        communicator=first.communicator,
        group=first.group,
        ranks=first.ranks,
        nodes=first.nodes,
        name=first.name,
        message_bytes=max(sizes),
        least_bytes=min(sizes),
        matched=len(rows),
        transfer_seconds=transfer,
        bus_gbs=first.bus_gbs(transfer) if len(sizes) == 1 else None,
        held=held,
        each_seconds=None if pace is None else pace.seconds,
        whole=pace is None or pace.whole,
        moments=known.moments,
        called_ahead=called_ahead,
        waits=tuple(
            _waits(one, waited[rank], [row[rank].seconds for row in rows], last[rank], pace)
            for rank, one in sorted(rows[0].items())
        ),
    )


def _waits(
    one: FinishedOperation,
    waited: Sequence[float],
    took: Sequence[float],
    last: Sequence[tuple[FinishedOperation, float]],
    pace: OperationPace | None,
) -> RankWaits:
    costs, mean = lengthening(waited, took), sum(waited) / len(waited)
    return RankWaits(
        rank=one.rank,
        pid=one.pid,
        host=one.host,
        seconds=mean,
        last=len(last),
        share=_share(mean, pace),
        costs=costs,
        slower=_share(costs.seconds, pace),
        queue=_queue(last),
    )


def _queue(last: Sequence[tuple[FinishedOperation, float]]) -> WaitingCall | None:
    """How the calls of operations stood in which a rank came last, each with the longest wait."""
    ahead = [one.ahead_seconds for one, _ in last]
    known = [seconds for seconds in ahead if seconds is not None]
    if not known or len(known) < len(ahead):
        return None
    waits = [wait for _, wait in last]
    stood = sum(map(min, known, waits))
    outstanding = [one for one, wait in zip(known, waits, strict=True) if 2 * wait >= max(waits)]
    return WaitingCall(stood / sum(waits), median(outstanding))


def _written_together(own: Sequence[FinishedOperation]) -> list[list[FinishedOperation]]:
    """Operations by the moments at which the plugin wrote: a pause far longer than most parts them.

    Where it writes each one as it ends, all pauses are alike, and each is a moment of its own.
    """
    if len(own) < LEAST_OPERATIONS:
        return []
    pauses = [after.written_at - before.written_at for before, after in pairwise(own)]
    usual = median(pauses)
    many = any(pause > PAUSE_TIMES * max(usual, SHORTEST_PAUSE) for pause in pauses)
    parts = [[own[0]]]
    for pause, one in zip(pauses, own[1:], strict=True):
        if not many or pause > PAUSE_TIMES * max(usual, SHORTEST_PAUSE):
            parts.append([])
        parts[-1].append(one)
    return parts


def _share(seconds: float, pace: OperationPace | None) -> float | None:
    """None where more is waited than passes, or where a small share may be a larger one."""
    if pace is None or seconds > pace.seconds * ROOM:
        return None
    share = min(seconds / pace.seconds, 1.0)
    return share if pace.whole or share >= SLOW_SHARE else None


def worst(inspected: Inspected) -> OperationKind | None:
    """The operations in which a rank lets the others wait longest; None where none does."""
    late = [kind for kind in (*inspected.flows, *inspected.kinds) if kind.late is not None]
    costly = [kind for kind in late if kind.share is None or kind.share >= LEAST_SHARE]
    return max(costly, key=_waited, default=None)


def _waited(kind: OperationKind) -> tuple[float, float]:
    """The share of the time that ranks wait, and all their waiting in seconds."""
    return kind.share or 0.0, kind.matched * sum(one.seconds for one in kind.waits)


def counted(operations: Iterable[FinishedOperation]) -> str:
    """What was recorded: "144 operations of 2 ranks"."""
    own = list(operations)
    ranks = {(one.communicator, one.rank) for one in own}
    return f"{plural(len(own), 'operation')} of {plural(len(ranks), 'rank')}"
