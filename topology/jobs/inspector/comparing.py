"""Who waits for whom in the operations that the Inspector recorded, and what they cost.

The kernel of a collective runs from the moment at which its own rank comes to the end of the
transfer. So the shortest of the ranks took the transfer alone, and what others took beyond it they
waited for the last one: on two H100 a rank that came 29 ms late took 0.245 ms, the other 29.4 ms.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from statistics import median

import msgspec

from ...model.english import plural
from ..collectives import spoken
from .records import FinishedOperation

LEAST_OPERATIONS = 5
"""From so many of one kind on something is said of it."""
LEAST_SHARE = 0.05
"""From this share of their time on, waiting ranks are worth a sentence."""
SLOW_SHARE = 0.1
"""From this share on it makes the job slow."""
ALWAYS = 0.8
"""From this share of the operations on, one rank is the one that comes last."""


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


class OperationKind(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Operations of one collective and size in one communicator, which all its ranks recorded."""

    communicator: str
    group: str
    ranks: int
    nodes: int | None
    name: str
    message_bytes: int
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

    @cached_property
    def waiting(self) -> tuple[RankWaits, ...]:
        """The others, longest first."""
        late = self.late
        others = [one for one in self.waits if late is None or one.rank != late.rank]
        return tuple(sorted(others, key=lambda one: -one.seconds))

    @property
    def share(self) -> float | None:
        """Of the time of the rank that waits in the middle; None where that is not known."""
        shares = [one.share for one in self.waiting]
        known = [share for share in shares if share is not None]
        return median(known) if known and len(known) == len(shares) else None


class Inspected(msgspec.Struct, frozen=True, kw_only=True):
    """What the records say."""

    kinds: tuple[OperationKind, ...] = ()
    """Those that cost most first."""
    alone: tuple[tuple[str, tuple[int, ...], int], ...] = ()
    """Communicators of which not every rank has records: name, ranks that have, ranks in all."""
    contradicting: int = 0
    """Records whose bandwidth is not that of their bytes and time."""
    by_cpu: int = 0
    """Operations of which the GPU did not take the time, left out."""
    transfers: int = 0
    """Sends and receives, of which nothing is concluded."""
    operations: int = 0


def compare(operations: Sequence[FinishedOperation]) -> Inspected:
    """Put the ranks of each communicator side by side."""
    collectives = [one for one in operations if one.peer is None]
    timed = [one for one in collectives if one.on_gpu and one.seconds > 0]
    by_rank: dict[str, dict[int, list[FinishedOperation]]] = defaultdict(lambda: defaultdict(list))
    for one in timed:
        by_rank[one.communicator][one.rank].append(one)
    kinds: list[OperationKind] = []
    alone: list[tuple[str, tuple[int, ...], int]] = []
    for communicator, ranks in by_rank.items():
        size = max(one.ranks for own in ranks.values() for one in own)
        if len(ranks) < size:
            alone.append((communicator, tuple(sorted(ranks)), size))
        elif size > 1:
            kinds += _kinds(ranks)
    return Inspected(
        kinds=tuple(sorted(kinds, key=lambda one: -_cost(one))),
        alone=tuple(alone),
        contradicting=sum(one.contradicts_itself for one in timed),
        by_cpu=sum(not one.on_gpu for one in collectives),
        transfers=len(operations) - len(collectives),
        operations=len(operations),
    )


def _cost(kind: OperationKind) -> float:
    """What to sort by: the share of the time that ranks wait, else the seconds of one operation."""
    if kind.share is not None:
        return kind.share
    return max((one.seconds for one in kind.waits), default=0.0)


def _kinds(ranks: Mapping[int, Sequence[FinishedOperation]]) -> Iterator[OperationKind]:
    """The operations that all ranks recorded, by collective and size."""
    own = {
        rank: {(one.name, one.number, one.message_bytes): one for one in recorded}
        for rank, recorded in ranks.items()
    }
    shared = set.intersection(*(set(found) for found in own.values()))
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for name, number, size in shared:
        groups[name, size].append(number)
    every = {name: _seconds_each(ranks, name) for name, _ in groups}
    for (name, size), numbers in groups.items():
        if len(numbers) < LEAST_OPERATIONS:
            continue
        part = len(numbers) / sum(len(n) for (other, _), n in groups.items() if other == name)
        each = every[name]
        rows = [{rank: own[rank][name, number, size] for rank in own} for number in sorted(numbers)]
        yield _kind(rows, None if each is None else each / part)


def _seconds_each(ranks: Mapping[int, Sequence[FinishedOperation]], name: str) -> float | None:
    """From one operation of a collective to the next, by their numbers and the plugin's clock."""
    found = []
    for recorded in ranks.values():
        own = sorted((one for one in recorded if one.name == name), key=lambda one: one.number)
        numbers = own[-1].number - own[0].number if own else 0
        passed = own[-1].written_at - own[0].written_at if own else 0.0
        if numbers >= LEAST_OPERATIONS - 1 and passed > 0:
            found.append(passed / numbers)
    return median(found) if len(found) == len(ranks) else None


def _kind(rows: Sequence[Mapping[int, FinishedOperation]], each: float | None) -> OperationKind:
    waited: dict[int, list[float]] = defaultdict(list)
    last: Counter[int] = Counter()
    transfers = []
    held = 0
    for row in rows:
        shortest = min(row.values(), key=lambda one: one.seconds)
        transfers.append(shortest.seconds)
        longest = max(one.seconds for one in row.values()) - shortest.seconds
        if longest > max(shortest.seconds, 50e-6):
            held += 1
            last[shortest.rank] += 1
        for rank, one in row.items():
            waited[rank].append(one.seconds - shortest.seconds)
    first = next(iter(rows[0].values()))
    transfer = median(transfers)
    means = {rank: sum(own) / len(own) for rank, own in waited.items()}
    return OperationKind(
        communicator=first.communicator,
        group=first.group,
        ranks=first.ranks,
        nodes=first.nodes,
        name=first.name,
        message_bytes=first.message_bytes,
        matched=len(rows),
        transfer_seconds=transfer,
        bus_gbs=first.bus_gbs(transfer),
        held=held,
        each_seconds=each,
        waits=tuple(
            RankWaits(
                rank=rank,
                pid=one.pid,
                host=one.host,
                seconds=means[rank],
                last=last[rank],
                share=None if each is None else min(means[rank] / each, 1.0),
            )
            for rank, one in sorted(rows[0].items())
        ),
    )


def worst(inspected: Inspected) -> OperationKind | None:
    """The kind of operation in which a rank lets the others wait longest; None where none does."""
    late = [kind for kind in inspected.kinds if kind.late is not None]
    return next((kind for kind in late if (kind.share or 0.0) >= LEAST_SHARE), None)


def counted(operations: Iterable[FinishedOperation]) -> str:
    """What was recorded: "144 operations of 2 ranks"."""
    own = list(operations)
    ranks = {(one.communicator, one.rank) for one in own}
    return f"{plural(len(own), 'operation')} of {plural(len(ranks), 'rank')}"
