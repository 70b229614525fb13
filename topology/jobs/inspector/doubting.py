"""What in the Inspector's records contradicts itself or is missing, and which jobs they are of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ...model.english import listing, plural
from ...model.gathered import gathered, gathered_by
from ...model.units import size
from ...nccl.decide.summary import duration
from ..collectives import spoken
from .records import FinishedOperation

MOST_NAMED = 3
LONGEST_NAME = 24
FAR_SECONDS = 3600.0
"""Ranks end a collective together, and the plugin writes within minutes; clocks of hosts agree."""

ProcessName = tuple[str, int | None]
"""Host and PID."""


class _Contradictions(msgspec.Struct):
    """How many records contradict another one, and the first two that do."""

    count: int = 0
    first: tuple[FinishedOperation, FinishedOperation] | None = None


def agreed(
    operations: Iterable[FinishedOperation],
) -> tuple[tuple[FinishedOperation, ...], tuple[str, ...]]:
    """The records that no other one of the same process contradicts, and what is said of those.

    One collective of one rank has one size and took one time; the plugin may write it twice.
    """
    every = tuple(operations)
    known: dict[Hashable, FinishedOperation] = {}
    found, bad = _Contradictions(), set[Hashable]()
    for one in every:
        key = _own_key(one)
        before = known.setdefault(key, one)
        if (before.message_bytes, before.seconds) != (one.message_bytes, one.seconds):
            found.first = found.first or (before, one)
            bad.add(key)
    if found.first is None:
        return every, ()
    kept = tuple(one for one in every if _own_key(one) not in bad)
    one, other = found.first
    took = [f"{size(op.message_bytes)} in {duration(1e6 * op.seconds)}" for op in (one, other)]
    left = len(every) - len(kept)
    said = (
        f"{plural(left, 'record')} of which two say different of one collective, left out: "
        f"{spoken(one.name)} {one.number} of rank {one.rank} is {' and '.join(took)}"
    )
    return kept, (said,)


def of_one_time(
    operations: Sequence[FinishedOperation],
) -> tuple[tuple[FinishedOperation, ...], float]:
    """The records without collectives that ranks wrote far apart, and how far, in seconds.

    Records of two runs lie in one folder then, or a clock is wrong.
    """
    spans: dict[Hashable, tuple[float, float]] = {}
    for one in operations:
        if one.peer is None:
            first, last = spans.get(_collective(one), (one.written_at, one.written_at))
            spans[_collective(one)] = min(first, one.written_at), max(last, one.written_at)
    far = {key: last - first for key, (first, last) in spans.items() if last - first > FAR_SECONDS}
    if not far:
        return tuple(operations), 0.0
    kept = (one for one in operations if one.peer is not None or _collective(one) not in far)
    return tuple(kept), max(far.values())


def _collective(one: FinishedOperation) -> Hashable:
    return one.communicator, one.name, one.number


def _own_key(one: FinishedOperation) -> Hashable:
    return one.communicator, one.rank, one.host, one.pid, one.name, one.peer, one.number


def of_several(operations: Iterable[FinishedOperation]) -> frozenset[str]:
    """The communicators in which several processes are one rank, or sizes differ."""
    own: dict[tuple[str, int], ProcessName] = {}
    sizes: dict[str, int] = {}
    mixed = set[str]()
    for one in operations:
        process = one.host, one.pid
        if own.setdefault((one.communicator, one.rank), process) != process:
            mixed.add(one.communicator)
        if sizes.setdefault(one.communicator, one.ranks) != one.ranks:
            mixed.add(one.communicator)
    return frozenset(mixed)


def doubts(operations: Iterable[FinishedOperation]) -> Iterator[str]:
    """Lines on collectives whose ranks contradict each other, or lack records."""
    by = gathered((one.communicator, one) for one in operations if one.peer is None)
    lines: list[str] = []
    gaps: list[_Gap] = []
    for name, own in by.items():
        lines += _contrary(name[:LONGEST_NAME], own)
        gaps += _gaps(own)
    yield from lines[:MOST_NAMED]
    if len(lines) > MOST_NAMED:
        yield f"{len(lines) - MOST_NAMED} more contradictions between records"
    if gaps:
        worst = max(gaps, key=lambda gap: gap.every - gap.compared)
        more = len(gaps) - 1
        also = f"; {plural(more, 'more kind')} of collective so" if more else ""
        yield f"{worst.text}{also}"


def _contrary(name: str, own: Sequence[FinishedOperation]) -> Iterator[str]:
    sizes = sorted({one.ranks for one in own})
    if len(sizes) > 1:
        told = listing([f"{each:,}" for each in sizes], MOST_NAMED)
        yield f"how many ranks communicator {name} has: its records say {told}"
    places: dict[int, set[ProcessName]] = defaultdict(set)
    for one in own:
        places[one.rank].add((one.host, one.pid))
    for rank, processes in sorted(places.items()):
        if len(processes) > 1:
            told = listing([f"pid {pid}" for _, pid in sorted(processes, key=str)], MOST_NAMED)
            yield f"which process rank {rank} of communicator {name} is: records say {told}"
            break
    yield from _sizes_differ(own)


def _sizes_differ(own: Sequence[FinishedOperation]) -> Iterator[str]:
    apart: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for one in own:
        apart[one.name, one.number][one.rank] = one.message_bytes
    odd = [(key, ranks) for key, ranks in apart.items() if len(set(ranks.values())) > 1]
    if odd:
        (kind, number), ranks = odd[0]
        told = listing([f"{size(each)} by rank {rank}" for rank, each in ranks.items()], MOST_NAMED)
        many = f"{plural(len(odd), 'collective')} of which ranks recorded other sizes"
        yield f"{many}: {spoken(kind)} {number}, {told}"


class _Gap(NamedTuple):
    """What lacks records of one collective in one communicator."""

    text: str
    every: int
    compared: int


def _gaps(own: Sequence[FinishedOperation]) -> Iterator[_Gap]:
    ranks = {one.rank for one in own}
    kinds: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for one in own:
        kinds[one.name][one.rank].add(one.number)
    for name, numbers in kinds.items():
        if gap := _gap(name, numbers, ranks):
            yield gap


def _gap(name: str, numbers: Mapping[int, set[int]], ranks: set[int]) -> _Gap | None:
    seen = set[int]().union(*numbers.values())
    first, last = min(seen), max(seen)
    every = last - first + 1
    what = f"{spoken(name)}s" if every != 1 else spoken(name)
    fewest = min(sorted(ranks), key=lambda rank: len(numbers.get(rank, ())))
    least = len(numbers.get(fewest, ()))
    if least == every:
        return None
    compared = len(set.intersection(*(numbers.get(rank, set()) for rank in ranks)))
    if len(seen) == every:
        text = f"lost records: rank {fewest} has those of {least:,} of {every:,} {what}"
    else:
        text = (
            f"what happened in {every - compared:,} of {every:,} {what}: there are records of all "
            f"ranks of {compared:,}, as the plugin writes what ended last"
        )
    return _Gap(text, every, compared)


# Which records are of one job: those of processes that are in one communicator, over any number of
# communicators. A job that is started again has other processes, even where an identifier is the
# same.
def by_job(operations: Sequence[FinishedOperation]) -> list[tuple[FinishedOperation, ...]]:
    """The records of each job, in their order."""
    runs = _runs(operations)
    above: dict[Hashable, Hashable] = {}

    def top(node: Hashable) -> Hashable:
        while above.setdefault(node, node) != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    for one in operations:
        process = one.host, one.pid
        above[top(process)] = top(_communicator(one, runs))
    found = gathered_by(operations, lambda one: top((one.host, one.pid)))
    return [tuple(own) for own in found.values()]


RunKey = tuple[str, str, "int | None"]
"""Communicator, host and PID."""


def _communicator(one: FinishedOperation, runs: Mapping[RunKey, int]) -> Hashable:
    return "communicator", one.communicator, runs.get((one.communicator, one.host, one.pid), 0)


def _runs(operations: Iterable[FinishedOperation]) -> dict[RunKey, int]:
    """Of processes that follow each other as one rank of one communicator, the how manieth is each.

    Those that overlap in time contradict each other, and are of one job.
    """
    spans: dict[tuple[str, int], dict[ProcessName, tuple[float, float]]] = defaultdict(dict)
    for one in operations:
        own = spans[one.communicator, one.rank]
        begun, ended = own.get((one.host, one.pid), (one.written_at, one.written_at))
        own[one.host, one.pid] = min(begun, one.written_at), max(ended, one.written_at)
    runs: dict[RunKey, int] = {}
    mixed = set[str]()
    for (communicator, _), own in spans.items():
        ordered = sorted(own.items(), key=lambda item: item[1])
        for at, ((host, pid), (begun, _)) in enumerate(ordered):
            runs[communicator, host, pid] = at
            if at and begun <= ordered[at - 1][1][1]:
                mixed.add(communicator)
    return {key: at for key, at in runs.items() if key[0] not in mixed}


def named(own: Sequence[FinishedOperation]) -> str:
    """What tells the records of one job from those of another."""
    pids = list(dict.fromkeys(one.pid for one in own if one.pid is not None))
    communicators = list(dict.fromkeys(one.communicator for one in own))
    who = listing([str(pid) for pid in pids], MOST_NAMED)
    which = listing([name[:LONGEST_NAME] for name in communicators], 1)
    of = f"communicator{'s' * (len(communicators) > 1)} {which}"
    return f"pid {who}, {of}" if pids else of
