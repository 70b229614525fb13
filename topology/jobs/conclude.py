"""Puts together what is said about one job."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ..model.english import listing, plural
from ..model.finding import Finding
from ..model.machine import Machine
from ..model.severity import JobVerdict
from ..model.snapshot import NodeSnapshot
from .evidence import (
    dump_findings,
    findings_here,
    missing_here,
    rank_findings,
    ras_findings,
    short_sleeps,
    started_here,
)
from .flight.comparing import WAITS_SECONDS, RecordedGroup, compare
from .flight.dump import Dump
from .flight.files import FoundDumps, age
from .grouping import Job
from .held_back import blamed, held_back, most_channels, price_of
from .inspector.blaming import LateFor, late_for
from .inspector.comparing import Inspected
from .inspector.comparing import compare as compare_records
from .inspector.predicted import speed_findings
from .inspector.records import InspectorRecords
from .inspector.telling import findings as record_findings
from .inspector.telling import late_pid, too_old, waits_of
from .inspector.telling import unknown as unknown_of_records
from .judge import JobFacts, sentence
from .loads import telling as loads_in_words
from .loads.judging import JudgedLoads, WatchedRank, judge
from .next_steps import debugger, steps_of
from .ras.client import RasReply
from .silence import Silence, silence, traffic_findings
from .standing import (
    LONG_SECONDS,
    JobEvidence,
    JobState,
    KnownBy,
    RankState,
    TroubleKind,
)
from .troubles import (
    MOST_MISSING,
    has_ended,
    ranks_of,
    ranks_of_dumps,
    ranks_of_ras,
    ranks_without_dump,
)

NOT_ASKED = "RAS was not asked (--no-ras)"
NO_ANSWER = "RAS gave no answer"
NAMES_NONE = "RAS names none of its processes"
RECORDED = "nothing of NCCL's RAS is recorded"
UNSTUCK = (JobVerdict.RUNS, JobVerdict.SLOW, JobVerdict.HANGS)


class Inquiry(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for all jobs of a node, apart from what was answered."""

    snapshot: NodeSnapshot
    dumps: FoundDumps = FoundDumps()
    records: InspectorRecords = InspectorRecords()
    """What the Inspector recorded of the ranks here."""
    replies: tuple[RasReply, ...] = ()
    """The last replies of RAS, one a place."""
    asked: bool = False
    """Whether RAS was asked."""
    recorded: bool = False
    """Whether the node is a recorded one, of which nothing can be asked."""
    now: float | None = None
    """Seconds since the epoch; None where the age of dumps is not asked."""

    @property
    def silence(self) -> str:
        """Why RAS says nothing of a job."""
        if self.recorded:
            return RECORDED
        if not self.asked:
            return NOT_ASKED
        return NAMES_NONE if any(reply.answers for reply in self.replies) else NO_ANSWER


def conclude(job: Job, evidence: JobEvidence, inquiry: Inquiry) -> JobState:
    """Say where one job stands."""
    snapshot = inquiry.snapshot
    groups, ago = _recorded_groups(job, evidence, inquiry)
    evidence = msgspec.structs.replace(evidence, groups=groups)
    ranks = ranks_of(job, snapshot.machine, snapshot.readings, evidence)
    if has_ended(job, evidence.ended):
        return _of_ended(job, ranks)
    given = tuple(findings_here(job, snapshot, evidence.activities, ranks))
    records = _own_records(job, inquiry)
    aged = too_old(records, inquiry.now)
    inspected = compare_records(() if aged else records.operations)
    judged = _judged(job, evidence, snapshot)
    ranks = _with_loads(ranks, judged, inspected)
    reason = loads_in_words.reason(judged, job, evidence.activities, snapshot.readings)
    late = late_for(inspected, job.own_gpu(late_pid(inspected), snapshot.readings))
    held = held_back(snapshot, job, judged, inspected)
    facts = JobFacts(
        ranks=ranks,
        ras=evidence.ras,
        inspected=inspected,
        why_late="" if late is None else late.why,
        stands_out=loads_in_words.sentence(judged, reason),
        stuck=judged.stuck,
        composition=loads_in_words.in_short(judged.ranks),
        held_back=price_of(held, judged, inspected),
        groups=groups,
        silence=inquiry.silence,
        world=job.world_size,
        asleep={pid: loads_in_words.sleeps_in(seen) for pid, seen in judged.sleeps.items()},
        costs=[finding.brief for finding in given if finding.brief],
        ago=ago,
    )
    program = _program(job, evidence)
    said, verdict, brief = sentence(program, _count(job, ranks, evidence), facts)
    if verdict is JobVerdict.RUNS:
        ranks = tuple(map(_at_work, ranks))
    quiet = _quiet(job, evidence, snapshot)
    if quiet.brief and verdict not in UNSTUCK:
        said = f"{said}; {quiet.brief}"
    runs = verdict in (JobVerdict.RUNS, JobVerdict.SLOW)
    several = evidence.twice and len(job.processes) > 1 and not inspected.kinds
    findings = [
        *rank_findings(ranks),
        *ras_findings(evidence.ras),
        *dump_findings(groups),
        *record_findings(inspected),
        *speed_findings(inspected, snapshot, job, held),
        *loads_in_words.findings(judged),
        *given,
        *short_sleeps(job, evidence.activities, ranks),
        *missing_here(job, evidence),
        *(() if runs else quiet.findings),
        *(() if runs else _of_traffic(job, evidence, inquiry)),
    ]
    return JobState(
        name=job.name,
        program=program,
        sentence=said,
        verdict=verdict,
        brief=brief,
        ranks=ranks,
        findings=tuple(findings),
        steps=steps_of(
            ranks, verdict, judged.late_pid or late_pid(inspected), debugger(snapshot.machine)
        ),
        unknown=(
            *_slow_or_stuck(ranks, verdict),
            *_unknown(job, evidence, inquiry),
            *(() if inquiry.recorded else loads_in_words.unknown(judged, several=several)),
            *aged,
            *_unknown_of_records(
                inspected, records, inquiry, None if _told(late, judged, reason) else late
            ),
            *(() if runs else quiet.unknown),
        ),
        variables=blamed(held, said),
        job=job,
        seconds=next((activity.seconds for activity in evidence.activities.values()), None),
        quiet_seconds=facts.quiet_seconds,
    )


def _of_traffic(job: Job, evidence: JobEvidence, inquiry: Inquiry) -> Iterable[Finding]:
    """What the counters of a job that does not run say; a recording has none."""
    if inquiry.recorded:
        return ()
    node, counted, shared = inquiry.snapshot, evidence.traffic, evidence.shared
    return traffic_findings(job, node.machine, node.readings, counted, shared, live=node.is_live)


def _quiet(job: Job, evidence: JobEvidence, snapshot: NodeSnapshot) -> Silence:
    """How long nothing has moved for a job, as far as it ran and was watched."""
    begun = job.started_at
    lasts = None if begun is None else max(snapshot.taken_at - begun, 0.0)
    return silence(job, snapshot.machine, evidence.past, evidence.traffic, lasts)


def _unknown_of_records(
    inspected: Inspected, records: InspectorRecords, inquiry: Inquiry, late: LateFor | None
) -> Iterator[str]:
    """What the records leave open; `late`: the rank of which nothing else tells the reason."""
    if inspected.operations:
        yield from unknown_of_records(inspected, records, inquiry.now, late)
    yield from (f"{path}: {why}" for path, why in records.refused)


def _told(late: LateFor | None, judged: JudgedLoads, reason: str) -> bool:
    """Whether the watch tells why that rank is late."""
    seen = judged.late
    return bool(reason) and late is not None and seen is not None and seen.rank == late.rank


def _at_work(rank: RankState) -> RankState:
    """The same rank without a trouble, where it is behind because it works alone."""
    behind = rank.kind is TroubleKind.BEHIND
    return msgspec.structs.replace(rank, trouble=None) if behind else rank


def _own_records(job: Job, inquiry: Inquiry) -> InspectorRecords:
    """What the Inspector recorded of the processes of one job."""
    own = {user.pid for user in job.processes}
    operations = tuple(one for one in inquiry.records.operations if one.pid in own)
    return msgspec.structs.replace(inquiry.records, operations=operations)


def _with_loads(
    ranks: tuple[RankState, ...], judged: JudgedLoads, inspected: Inspected
) -> tuple[RankState, ...]:
    """The ranks, each with what its GPU did, and how long it waits for the one that is late."""
    loads = {one.pid: one for one in judged.ranks}
    recorded, waits = waits_of(inspected), judged.waits
    return tuple(
        msgspec.structs.replace(
            rank,
            load=loads.get(rank.pid or 0),
            place=loads_in_words.place_of(judged.sleeps.get(rank.pid or 0, {})),
            waiting=recorded.get(rank.rank, waits.get(rank.pid)),
        )
        for rank in ranks
    )


def _judged(job: Job, evidence: JobEvidence, snapshot: NodeSnapshot) -> JudgedLoads:
    """What its GPUs did, where each rank has one of its own."""
    machine, taken = snapshot.machine, [gpu for user in job.ranked for gpu in user.gpus]
    watched: list[WatchedRank] = []
    for user in job.ranked:
        activity = evidence.activities.get(user.pid)
        gpu = machine.gpu(user.gpus[0]) if len(user.gpus) == 1 else None
        if user.reading.rank is None or gpu is None or taken.count(gpu.address) > 1:
            return JudgedLoads(sleeps=evidence.loads.sleeps)
        watched.append(
            WatchedRank(
                rank=user.reading.rank,
                pid=user.pid,
                address=gpu.address,
                cores=None if activity is None else activity.cores,
                first=None if activity is None else activity.first_cores,
                nvlinked=bool(gpu.nvlinks_up),
            )
        )
    pids = frozenset(one.pid for one in watched)
    together = evidence.together(pids)
    return judge(watched, evidence.loads, together=together, channels=most_channels(job))


def _recorded_groups(
    job: Job, evidence: JobEvidence, inquiry: Inquiry
) -> tuple[tuple[RecordedGroup, ...], str | None]:
    """The process groups in the dumps of a job, and how old these are."""
    numbers = {user.reading.rank for user in job.processes}
    dumps = [dump for dump in inquiry.dumps.dumps if dump.rank in numbers]
    groups, ago = compare(dumps), age(dumps, inquiry.now)
    if evidence.moves or (ago is not None and any(state.counts for state in evidence.ras)):
        # RAS knows who waits now, a dump who waited: only what did not fit then still stands.
        groups = tuple(
            msgspec.structs.replace(group, waiting=(), behind=(), without_dump=())
            for group in groups
        )
    return groups, ago


def _of_ended(job: Job, ranks: tuple[RankState, ...]) -> JobState:
    """A job that ended, as all do: no fault by itself."""
    count = len(job.processes)
    who = "its process here has" if count == 1 else f"its {count} processes here have"
    return JobState(
        name=job.name,
        program=job.name,
        sentence=f"{job.name}: {who} ended",
        verdict=JobVerdict.UNKNOWN,
        ranks=ranks,
        unknown=("why: `gputop log FILE` reads what the job printed",),
        job=job,
    )


def of_ras(
    machine: Machine,
    evidence: JobEvidence,
    name: str = "a job that RAS names",
    count: str | None = None,
) -> JobState:
    """A job of which RAS alone knows the processes."""
    ranks = ranks_of_ras(machine, evidence)
    if count is None:
        count = plural(evidence.ras[0].communicator.size, "rank")
    facts = JobFacts(ranks=ranks, ras=evidence.ras, silence=NO_ANSWER, world=evidence.world)
    said, verdict, brief = sentence(name, count, facts)
    named = any(state.pids for state in evidence.ras)
    return JobState(
        name=name,
        program=name,
        sentence=said,
        verdict=verdict,
        brief=brief,
        ranks=ranks,
        findings=(*rank_findings(ranks), *ras_findings(evidence.ras)),
        steps=steps_of(ranks, verdict, kernels=debugger(machine)),
        unknown=(
            "its processes: the driver lists none of them on the GPUs here"
            if named
            else "its processes: this answer of RAS names none, so it may be a job named here too",
        ),
        quiet_seconds=facts.quiet_seconds,
    )


def of_dumps(found: FoundDumps) -> JobState | None:
    """What dumps alone say, of a job that need not run any more; None without dumps."""
    if not found.dumps:
        return None
    name = "flight recorder"
    groups = compare(found.dumps)
    ranks = ranks_of_dumps(groups)
    sizes = [group.size for group in groups if group.size is not None]
    count = plural(max(sizes, default=len(ranks)), "rank")
    facts = JobFacts(ranks=ranks, groups=groups, silence=RECORDED)
    said, verdict, brief = sentence(name, count, facts)
    if verdict not in UNSTUCK and not any(group.differences for group in groups):
        said = f"{name}: {_nothing_waited_for(found.dumps, groups, count)}"
    waited = any(group.waiting for group in groups)
    left = len(ranks_without_dump(groups)) - MOST_MISSING
    return JobState(
        name=name,
        program=name,
        sentence=said,
        verdict=verdict,
        brief=brief,
        ranks=ranks,
        findings=tuple(dump_findings(groups)),
        unknown=(
            *(
                (
                    "how long ranks had waited: a dump does not say when it was written, and its "
                    "file may be a later copy",
                )
                * waited
            ),
            *(
                (
                    f"{left:,} more ranks without a dump are not listed: "
                    f"gputop lists {MOST_MISSING:,} of them",
                )
                * (left > 0)
            ),
            *(
                f"{dump.origin}: its name ends in no rank, so it is left out"
                for dump in found.dumps
                if dump.rank is None
            ),
        ),
    )


def _nothing_waited_for(dumps: Sequence[Dump], groups: Sequence[RecordedGroup], count: str) -> str:
    number = plural(len(dumps), "dump")
    if not groups and all(dump.rank is None for dump in dumps):
        return f"{number} of unknown rank"
    if not groups:
        return f"no collective is recorded in {number}"
    fresh = [place for group in groups for place in group.places if place.ended is False]
    if fresh:
        return (
            f"{count}, {len(fresh)} in a collective entered less than {WAITS_SECONDS:.0f} s before "
            "the dump: whether they wait is not known"
        )
    return f"{count}, no collective in {number} was waited for"


def _program(job: Job, evidence: JobEvidence) -> str:
    names = dict.fromkeys(
        name
        for user in job.processes
        if (activity := evidence.activities.get(user.pid)) is not None
        and (name := activity.program)
    )
    if len(names) == 1:
        return next(iter(names))
    first, *others = job.processes
    command = first.reading.command
    return job.name if others or command is None else f"{command} {first.pid}"


def _count(job: Job, ranks: Sequence[RankState], evidence: JobEvidence) -> str:
    here, world = len(job.ranked), job.world_size
    if world is None:
        return plural(len(ranks), "rank") if len(ranks) > 1 else "1 process"
    own = {user.pid for user in job.processes}
    ended = {rank.pid for rank in ranks if rank.pid in evidence.ended} - own
    local = started_here(job, evidence.activities)
    if here + len(ended) == world:
        return plural(world, "rank")
    if local is not None and here + len(ended) < local <= world:
        return f"{here} of {local} ranks that were started here hold{'s' * (here == 1)} a GPU"
    return f"{here} of {world} ranks on this GPU node"


def _slow_or_stuck(ranks: Iterable[RankState], verdict: JobVerdict) -> Iterator[str]:
    """The question about ranks that only are behind, as those are that take longer than others."""
    if verdict is not JobVerdict.WAITS:
        return
    late = [
        rank.label
        for rank in ranks
        if rank.trouble is not None
        and rank.kind is not TroubleKind.LEFT
        and (rank.kind is TroubleKind.SHORT or rank.trouble.source is KnownBy.RAS)
    ]
    who = listing(late, 3) if late else "those that are behind"
    yield (
        f"whether {who} still come{'s' * (len(late) == 1)}: a rank that evaluates, writes a "
        "checkpoint or loads data alone looks the same; `gputop jobs --over 60` watches "
        f"for longer, and no progress for {LONG_SECONDS / 60:.0f} min is called a hang"
    )


def _unknown(job: Job, evidence: JobEvidence, inquiry: Inquiry) -> Iterator[str]:
    if evidence.assumed is not None:
        yield evidence.assumed
    if not evidence.ras:
        said = [reply.trouble for reply in inquiry.replies if reply.trouble is not None]
        yield f"which collective each rank is in: {'; '.join(said) or inquiry.silence}"
    described = any(user.reading.state is not None for user in job.processes)
    if not evidence.activities and described:
        yield "what the processes do: /proc was not read twice"
    if not evidence.groups and evidence.activities:
        yield (
            "the program's lines: no dump of PyTorch's flight recorder; it writes one when a "
            "collective times out"
        )
    for path, why in inquiry.dumps.refused:
        yield f"{path}: {why}"
    hidden = [user.pid for user in job.processes if user.reading.variables is None]
    if hidden:
        yield f"variables of pid {', '.join(map(str, hidden[:4]))}: not readable"
