"""What the Inspector's records say of a job, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import islice

import msgspec

from ...model.copied import at_another, copied, may_stand
from ...model.english import listing, plural
from ...model.finding import Finding
from ...model.severity import SLOW, JobVerdict
from ...model.units import gbs, percent, seconds, size
from ...nccl.decide.summary import duration
from ..collectives import spoken
from ..flight.comparing import ranks_text
from ..lateness import MOST_SHARE, about, at_most_slower, between, is_late, wait_for_it, who_waits
from ..standing import (
    JobState,
    KnownBy,
    LastCollective,
    RankState,
    RankTrouble,
    Sentence,
    TroubleKind,
    job_finding,
)
from .blaming import LateFor, late_for
from .comparing import (
    LEAST_SHARE,
    SLOW_SHARE,
    WHOLE_MOMENTS,
    Inspected,
    OperationKind,
    RankWaits,
    compare,
    worst,
)
from .doubting import LONGEST_NAME, by_job, named
from .records import FinishedOperation, InspectorRecords

NAME = "NCCL Inspector"
MOST_KINDS = 8
MOST_NAMED = 3
MOST_JOBS = 64
LATEST = 253_402_300_799.0
"""The last second that has a date of four digits."""
OLD_SECONDS, FRESH_SECONDS = 10.0, 60.0
"""From the first on a record says little of this moment, from the second on nothing."""
OTHERS = "whether other records here are of this job: no process and no communicator is in both"


def sentence(inspected: Inspected, *, why: str = "", then: bool = False) -> Sentence:
    """What the operations prove of who waits for whom, behind "4 ranks, ".

    They have all ended: a collective that never ends leaves no record, so none of this says that
    the job is well. `why`: the late rank is; `then`: they are too old to speak of this moment.
    """
    kind = worst(inspected)
    if kind is not None and kind.late is not None:
        waits, last = _waits_for_it(kind, then=then), _comes_last(kind, then=then)
        if kind.slower is None or kind.slower < SLOW_SHARE:
            bound = "" if kind.share is not None else f"; {_no_price(kind)}"
            reason = f": {why}" if why else ""
            text = f"rank {kind.late.rank} {last}{reason}; {waits}{bound}"
            return Sentence(text, JobVerdict.UNKNOWN)
        brief = is_late(kind.late.rank, _price(kind, kind.slower), why or f"it {last}", then=then)
        verdict = JobVerdict.UNKNOWN if then else JobVerdict.SLOW
        return Sentence(f"{brief}; {f'it {last}; ' * bool(why)}{waits}", verdict, brief)
    turns = next((one for one in inspected.kinds if _waiting_long(one)), None)
    if turns is not None:
        return Sentence(f"no rank is always the last: {_by_turns(turns)}", JobVerdict.UNKNOWN)
    if inspected.kinds:
        return Sentence(_quick(inspected.kinds[0]), JobVerdict.UNKNOWN)
    return Sentence(_why_nothing(inspected), JobVerdict.UNKNOWN)


def _waiting_long(kind: OperationKind) -> list[RankWaits]:
    """The ranks that wait for a share of their time that is worth a sentence."""
    return [one for one in kind.waits if (one.share or 0.0) >= LEAST_SHARE]


def _quick(kind: OperationKind) -> str:
    """Of operations in which ranks wait for little of their time, or for an untold share."""
    most = max(kind.waits, key=lambda one: one.seconds)
    if most.seconds <= kind.transfer_seconds:
        return f"no rank waited long for another: {_transfer(kind)}"
    many = f"{plural(kind.matched, kind.spoken)} of {_bytes(kind)}"
    if most.costs.long is not None:
        often, long = most.costs.long
        waited = f"{_time(long)} in {often:,} of {many}"
    else:
        waited = f"{_time(most.seconds)} in each of {many}, as a mean of long and short waits"
    return f"no rank is always the last: rank {most.rank} waited for others {waited}"


def _comes_last(kind: OperationKind, *, then: bool = False) -> str:
    late = kind.late
    assert late is not None
    comes = "came" if then else "comes"
    return f"{comes} last in {late.last:,} of {plural(kind.matched, kind.spoken)} of {_bytes(kind)}"


def _waits_for_it(kind: OperationKind, *, then: bool = False) -> str:
    """For how long the others wait, of their time where that is known."""
    middle, others = kind.waiting[len(kind.waiting) // 2], len(kind.waiting)
    if middle.costs.long is None:
        each = f"{_time(middle.seconds)} in each"
    else:
        often, long = middle.costs.long
        each = f"{_time(long)} in {often:,} of them"
    if kind.share is not None:
        return wait_for_it(others, kind.share, _how(kind), f", {each}", then=then)
    return f"{who_waits(others, then=then)} for it {each}"


def _how(kind: OperationKind) -> str:
    return "" if kind.whole else "at least"


def _price(kind: OperationKind, slower: float) -> str:
    """How much longer a step takes; two bounds of it where records of the time are missing."""
    if kind.whole:
        return about(slower)
    return between(slower, max(kind.most_slower, slower))


def _no_price(kind: OperationKind) -> str:
    """Why it is not known how much longer a step takes, what it is at most and what would tell."""
    why = "how long a step takes these records do not tell"
    if kind.moments < WHOLE_MOMENTS:
        wrote = "at once" if kind.moments < 2 else "in two parts"
        why += (
            f", as the plugin wrote them {wrote}; keep longer ones, written in three or more, or "
            "start the job with NCCL_INSPECTOR_DUMP_VERBOSE=1"
        )
    if kind.most_slower > MOST_SHARE:
        return why
    return f"a step takes {at_most_slower(kind.most_slower)}; {why}"


def _by_turns(kind: OperationKind) -> str:
    where = f"in {plural(kind.matched, kind.spoken)} of {_bytes(kind)}"
    waiting = _waiting_long(kind)
    if len(waiting) > 1:
        shares = percent(100 * (kind.share or 0.0))
        return f"{where} they wait for each other by turns, {shares} of their time"
    alone, last = waiting[0], max(kind.waits, key=lambda one: one.last)
    return (
        f"{where} rank {alone.rank} alone waits, {percent(100 * (alone.share or 0.0))} of its "
        f"time, and rank {last.rank} comes last in {last.last:,}"
    )


def _transfer(kind: OperationKind) -> str:
    return f"{kind.spoken} of {_bytes(kind)} takes {_takes(kind)}"


def _takes(kind: OperationKind) -> str:
    speed = "" if kind.bus_gbs is None else f", {gbs(kind.bus_gbs)} on the bus"
    return f"{_time(kind.transfer_seconds)}{speed}"


def _bytes(kind: OperationKind) -> str:
    least, most = size(kind.least_bytes), size(kind.message_bytes)
    return most if least == most else f"{least} to {most}"


def _time(seconds: float) -> str:
    return duration(1e6 * seconds)


def _far_apart(inspected: Inspected) -> str:
    return (
        f"its ranks' records were written {seconds(inspected.apart_seconds)} apart, so they are of "
        "two runs, or a clock is wrong; they are not compared"
    )


def _why_nothing(inspected: Inspected) -> str:
    if inspected.apart_seconds:
        return _far_apart(inspected)
    if inspected.contrary:
        return "records that contradict each other, so who waits for whom is not known"
    if inspected.alone:
        _, ranks, every = inspected.alone[0]
        return (
            f"records of {_ranks_in_words(ranks)} alone, of {every:,}, and none of "
            f"{_missing(ranks, every)}: what a rank waited for others is not told apart from the "
            "transfer"
        )
    if inspected.by_cpu and not inspected.kinds:
        return "no record has the GPU's own time, so who waits for whom is not known"
    return f"too few operations that all ranks recorded ({plural(inspected.operations, 'record')})"


def _ranks_in_words(ranks: Sequence[int], more: int = 0) -> str:
    named = [str(rank) for rank in ranks[:MOST_NAMED]]
    left = len(ranks) + more - len(named)
    several = "s" * (len(ranks) + more > 1)
    return f"rank{several} {', '.join(named)} and {left:,} more" if left else ranks_text(ranks)


def _missing(ranks: Sequence[int], every: int) -> str:
    """The ranks without a record, of which there may be a million."""
    have = set(ranks)
    first = list(islice((rank for rank in range(every) if rank not in have), MOST_NAMED))
    return _ranks_in_words(first, every - len(have) - len(first))


def findings(inspected: Inspected, *, then: bool = False) -> Iterator[Finding]:
    """What the records prove, one fact each; `then`: nothing of it is harmful now."""
    found = None if then else worst(inspected)
    guilty = found if found is not None and (found.slower or 0.0) >= SLOW_SHARE else None
    flows = [kind for kind in inspected.flows if kind is found]
    for kind in (*flows, *inspected.kinds[:MOST_KINDS]):
        severity = {"severity": SLOW} if kind is guilty else {}
        ranks = [] if kind.late is None else [kind.late.rank]
        yield job_finding(
            "collective-waits", _line(kind), KnownBy.INSPECTOR, ranks=ranks, **severity
        )
    left = len(inspected.kinds) - MOST_KINDS
    if left > 0:
        text = f"{plural(left, 'more kind')} of operation, in which ranks wait less"
        yield job_finding("collective-waits", text, KnownBy.INSPECTOR)


def _line(kind: OperationKind) -> str:
    group = f" of {kind.group}" if kind.group else ""
    waits = [
        f"rank {one.rank} {_time(one.seconds)}" for one in kind.waiting[:MOST_NAMED] if one.seconds
    ]
    said = f"; waits in each: {listing(waits)}" if waits and kind.held else ""
    last = f"; rank {kind.late.rank} last in {kind.late.last:,}" if kind.late is not None else ""
    return (
        f"{plural(kind.matched, kind.spoken)}{group} of {_bytes(kind)} by "
        f"{plural(kind.ranks, 'rank')}: {_takes(kind)} each{last}{said}"
    )


def unknown(
    inspected: Inspected,
    records: InspectorRecords,
    now: float | None = None,
    late: LateFor | None = None,
) -> Iterator[str]:
    """What the records leave open; `now`: seconds since the epoch, of a job that is seen to run.

    `late`: the late rank, where nothing else tells why it is late.
    """
    if late is not None:
        yield late.question
    yield "whether a rank computes while it transfers or waits: records show operations alone"
    newest = newest_of(records)
    if now is None:
        yield (
            "whether the job still runs, and whether an operation never ended: records are of "
            f"those that have ended{f', the last of them at {_date(newest)}' if newest else ''}"
        )
    elif now - newest >= OLD_SECONDS:
        yield (
            f"what it did since its newest record, {seconds(now - newest)} ago: an operation that "
            "never ends leaves none"
        )
    if records.lost:
        yield f"{plural(records.lost, 'operation')} that the plugin dropped before it wrote them"
    if records.formats:
        told = listing([name or "without a name" for name in records.formats], MOST_NAMED)
        yield (
            f"whether all is understood: records of a format {told}, which gputop does not know, "
            "are read as v4.0"
        )
    yield from inspected.doubts
    if inspected.apart_seconds and inspected.kinds:
        yield f"what some collectives took: {_far_apart(inspected)}"
    if inspected.contradicting:
        yield (
            f"{plural(inspected.contradicting, 'record')} with a bandwidth that is not that of "
            "its bytes and its time, which are counted here"
        )
    if inspected.by_cpu and inspected.kinds:
        yield f"{plural(inspected.by_cpu, 'operation')} of which no GPU took the time, left out"
    if inspected.transfers:
        both = plural(inspected.transfers, "send or receive", "sends and receives")
        yield f"who waits in {both}"
    for name, ranks, every in inspected.alone if inspected.kinds else ():
        yield (
            f"communicator {name[:LONGEST_NAME]}: records of {len(ranks):,} of its {every:,} "
            f"ranks, none of {_missing(ranks, every)}"
        )


def _steps(inspected: Inspected) -> Iterator[str]:
    """What would tell more of the rank that comes last, on the host that its records name."""
    late = late_rank(inspected)
    if late is not None and may_stand(late.pid, "pid"):
        line = copied("py-spy dump --pid {:pid}", late.pid)
        yield at_another(line, late.host or None, "on its node")


def late_rank(inspected: Inspected) -> RankWaits | None:
    """The rank that comes last nearly always, where others wait for it long; None without one."""
    kind = worst(inspected)
    return None if kind is None or (kind.slower or 0.0) < SLOW_SHARE else kind.late


def late_pid(inspected: Inspected) -> int | None:
    """The process of that rank."""
    late = late_rank(inspected)
    return None if late is None else late.pid


def too_old(records: InspectorRecords, now: float | None) -> tuple[str, ...]:
    """What is said of records that are too old to speak of this moment; () of others."""
    newest = newest_of(records)
    if now is None or not newest or now - newest < FRESH_SECONDS:
        return ()
    return (
        f"what the Inspector's records say: the newest is {seconds(now - newest)} old, so they say "
        "nothing of now; `gputop jobs --from DIR` tells of then",
    )


def newest_of(records: InspectorRecords) -> float:
    """When the newest was written, seconds since the epoch; 0 without records."""
    return max((one.written_at for one in records.operations), default=0.0)


def _date(at: float) -> str:
    return datetime.fromtimestamp(min(at, LATEST), timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def states_of(records: InspectorRecords, read_at: float | None = None) -> Iterator[JobState]:
    """What records alone say of each job that wrote them, which need not run any more.

    `read_at`: when the node was read beside which they lie, seconds since the epoch.
    """
    parts = by_job(records.operations)
    left = len(parts) - MOST_JOBS
    apart = (OTHERS,) * (len(parts) > 1)
    if left > 0:
        apart = (f"what records of {left:,} more jobs say: gputop tells of {MOST_JOBS}", *apart)
    for own in parts[:MOST_JOBS]:
        name = f"{NAME} ({named(own)})" if apart else NAME
        yield _state_of(msgspec.structs.replace(records, operations=own), name, read_at, apart)
        apart = apart[-1:]


def _state_of(
    records: InspectorRecords, name: str, read_at: float | None, apart: tuple[str, ...]
) -> JobState:
    inspected = compare(records.operations)
    ago = 0.0 if read_at is None else read_at - newest_of(records)
    then = ago >= FRESH_SECONDS
    late = late_for(inspected, then=then)
    said = sentence(inspected, why="" if late is None else late.why, then=then)
    every = max(one.ranks for one in records.operations)
    when = f"{seconds(ago)} before the node was read: " if then else ""
    return JobState(
        name=name,
        program=name,
        sentence=f"{name}: {when}{plural(every, 'rank')}, {said.text}",
        verdict=said.verdict,
        brief=f"{name}: {when}{said.brief}" if said.brief else "",
        ranks=tuple(_ranks(records.operations, Inspected() if then else inspected)),
        findings=tuple(findings(inspected, then=then)),
        steps=tuple(_steps(inspected)) if said.verdict is JobVerdict.SLOW else (),
        unknown=(
            *apart,
            *unknown(inspected, records, late=late),
        ),
    )


def trouble(inspected: Inspected, rank: int | None) -> RankTrouble | None:
    """That a rank comes last, where it does nearly always and others wait for it."""
    kind = worst(inspected)
    if kind is None or kind.late is None or kind.late.rank != rank:
        return None
    return RankTrouble(_comes_last(kind), KnownBy.INSPECTOR, TroubleKind.BEHIND)


def waits_of(inspected: Inspected) -> dict[int | None, float]:
    """By rank: the share of its time that it waits for the one that makes the job slow."""
    kind = worst(inspected)
    if kind is None or kind.late is None or (kind.slower or 0.0) < SLOW_SHARE:
        return {}
    return {one.rank: one.share for one in kind.waiting if one.share is not None}


def _ranks(operations: Iterable[FinishedOperation], inspected: Inspected) -> Iterator[RankState]:
    """The ranks of the largest communicator, each with the operation that it finished last."""
    last: dict[int, FinishedOperation] = {}
    every = list(operations)
    most = max(one.ranks for one in every)
    for one in every:
        if one.ranks == most and one.peer is None:
            known = last.get(one.rank)
            if known is None or one.written_at >= known.written_at:
                last[one.rank] = one
    waits = waits_of(inspected)
    for rank, one in sorted(last.items()):
        yield RankState(
            waiting=waits.get(rank),
            rank=rank,
            pid=None,
            elsewhere=None if one.pid is None else (one.host, one.pid),
            label=f"rank {rank}",
            trouble=trouble(inspected, rank),
            last=LastCollective(f"{spoken(one.name)} {one.number}", KnownBy.INSPECTOR),
        )
