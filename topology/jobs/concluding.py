"""Puts together what is said about one job."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..model.snapshot import NodeSnapshot
from ..nccl.versions import preferred
from .evidence import facts, host_cpus
from .flight.comparing import WAITS_SECONDS, RecordedGroup, compare, own_frame, ranks_text
from .flight.dump import Dump
from .flight.files import FoundDumps
from .grouping import Job
from .hints import missing_here, pcie_fact, short_sleeps, started_here, traffic_fact
from .judging import Heard, ranks_of, ranks_of_dumps, ranks_of_ras
from .ras.client import RasReply
from .ras.comparing import RasStanding
from .sentence import sentence
from .standing import BAD, HANGS, NOTE, RAS, RECORDER, RUNS, JobFact, JobStanding, RankStanding
from .words import counted, last_of, spoken

MOST_STEPS = 6
NOT_ASKED = "RAS was not asked (--ras)"
NO_ANSWER = "RAS gave no answer"
RECORDED = "nothing of NCCL's RAS is recorded"


def conclude(
    job: Job,
    snapshot: NodeSnapshot,
    heard: Heard,
    found: FoundDumps,
    *,
    asked: bool,
    recorded: bool = False,
    replies: Sequence[RasReply] = (),
) -> JobStanding:
    """Say where one job stands; of a recorded node nothing can be asked."""
    silence = RECORDED if recorded else NO_ANSWER if asked else NOT_ASKED
    numbers = {user.reading.rank for user in job.processes}
    groups = compare([dump for dump in found.dumps if dump.rank in numbers])
    if any(each.still is False for each in heard.ras):
        # Who waited in an older dump has gone on: only what did not fit then still stands.
        none: dict[str, Any] = {"waiting": (), "behind": (), "without_dump": ()}
        groups = tuple(msgspec.structs.replace(group, **none) for group in groups)
    heard = msgspec.structs.replace(heard, groups=groups)
    ranks = ranks_of(job, snapshot.machine, snapshot.readings, heard)
    name = _program(job, heard)
    count = _count(job, ranks, heard)
    labels = {rank.pid: rank.label for rank in ranks if rank.pid is not None}
    cpus = host_cpus(snapshot.machine.host)
    followed = preferred(snapshot.machine)[0].partition("-")[2]
    given = tuple(facts(job, snapshot.readings, heard.activities, labels, cpus, followed))
    said, verdict = sentence(
        name,
        count,
        ranks,
        heard.ras,
        groups,
        silence,
        world=job.world_size,
        costs=[fact.brief for fact in given if fact.brief],
    )
    told = [
        *_of_ranks(ranks),
        *_of_ras(heard.ras),
        *_of_dumps(groups),
        *given,
        *short_sleeps(job, heard.activities, labels),
        *(() if heard.ras else missing_here(job, heard.activities)),
        *(() if verdict == RUNS or recorded else _traffic(job, snapshot, heard)),
    ]
    return JobStanding(
        name=job.name,
        program=name,
        sentence=said,
        verdict=verdict,
        ranks=ranks,
        facts=tuple(told),
        steps=tuple(_steps(ranks, verdict))[:MOST_STEPS],
        unknown=tuple(_unknown(job, heard, found, silence, replies)),
        job=job,
        seconds=next((each.seconds for each in heard.activities.values()), None),
    )


def _traffic(job: Job, snapshot: NodeSnapshot, heard: Heard) -> Iterator[JobFact]:
    """What links carry, where that may say whether a job goes on."""
    yield from traffic_fact(job, snapshot.machine, heard.traffic)
    if snapshot.source == ("live",):
        # A demo's figures are those of a job that runs.
        yield from pcie_fact(job, snapshot.machine, snapshot.readings)


def of_ras(snapshot: NodeSnapshot, heard: Heard) -> JobStanding:
    """A job of which RAS alone knows the processes."""
    ranks = ranks_of_ras(snapshot.machine, heard)
    name = "a job that RAS names"
    count = counted(heard.ras[0].communicator.size, "rank")
    said, verdict = sentence(name, count, ranks, heard.ras, (), NO_ANSWER)
    return JobStanding(
        name=name,
        program=name,
        sentence=said,
        verdict=verdict,
        ranks=ranks,
        facts=(*_of_ranks(ranks), *_of_ras(heard.ras)),
        steps=tuple(_steps(ranks, verdict))[:MOST_STEPS],
        unknown=("its processes: the driver lists none of them on the GPUs here",),
    )


def of_dumps(found: FoundDumps) -> JobStanding | None:
    """What dumps alone say, of a job that need not run any more; None without dumps."""
    if not found.dumps:
        return None
    groups = compare(found.dumps)
    ranks = ranks_of_dumps(groups)
    sizes = [group.size for group in groups if group.size is not None]
    count = counted(max(sizes, default=len(ranks)), "rank")
    said, verdict = sentence("flight recorder", count, ranks, (), groups, RECORDED)
    if verdict not in (HANGS, RUNS) and not any(group.differences for group in groups):
        said = f"flight recorder: {count}, no collective in {_dumps(found.dumps)} was waited for"
        fresh = [place for group in groups for place in group.places if place.ended is False]
        if fresh:
            said = (
                f"flight recorder: {count}, {len(fresh)} in a collective entered less than "
                f"{WAITS_SECONDS:.0f} s before the dump: whether they wait is not known"
            )
        if not groups and all(dump.rank is None for dump in found.dumps):
            said = f"flight recorder: {_dumps(found.dumps)} of unknown rank"
        elif not groups:
            said = f"flight recorder: no collective is recorded in {_dumps(found.dumps)}"
    return JobStanding(
        name="flight recorder",
        program="flight recorder",
        sentence=said,
        verdict=verdict,
        ranks=ranks,
        facts=tuple(_of_dumps(groups)),
        unknown=tuple(
            f"{dump.origin}: its name ends in no rank, so it is left out"
            for dump in found.dumps
            if dump.rank is None
        ),
    )


def _dumps(dumps: Sequence[Dump]) -> str:
    return counted(len(dumps), "dump")


def _program(job: Job, heard: Heard) -> str:
    names = dict.fromkeys(
        name
        for user in job.processes
        if (found := heard.activities.get(user.pid)) is not None and (name := found.program)
    )
    commands = dict.fromkeys(user.reading.command for user in job.processes)
    if len(names) == 1:
        return next(iter(names))
    only = next(iter(commands), None) if len(commands) == 1 else None
    return job.name if only is None or len(job.processes) > 1 else f"{only} {job.processes[0].pid}"


def _count(job: Job, ranks: Sequence[RankStanding], heard: Heard) -> str:
    here, world = len(job.processes), job.world_size
    if world is None:
        known = len(ranks)
        return counted(known, "rank") if known > 1 else "1 process"
    own = {user.pid for user in job.processes}
    ended = {rank.pid for rank in ranks if rank.pid in heard.ended} - own
    local = started_here(job, heard.activities)
    if here + len(ended) == world:
        return counted(world, "rank")
    if local is not None and here + len(ended) < local <= world:
        return f"{here} of {local} ranks that were started here hold{'s' * (here == 1)} a GPU"
    return f"{here} of {world} ranks on this GPU node"


def _of_ranks(ranks: Sequence[RankStanding]) -> Iterator[JobFact]:
    for rank in ranks:
        if rank.trouble is not None and rank.origin is not None:
            numbers = () if rank.rank is None else (rank.rank,)
            weight = NOTE if rank.follows else BAD
            text = f"{rank.label} {rank.trouble}"
            yield JobFact(text=text, origin=rank.origin, weight=weight, ranks=numbers)


def _of_ras(ras: Sequence[RasStanding]) -> Iterator[JobFact]:
    for each in ras:
        size = counted(each.communicator.size, "rank")
        what, top = spoken(each.function or ""), each.top
        same = "all that answered" if each.communicator.missing else "all"
        if each.function is None:
            text = f"communicator of {size}: {same} launched {last_of(each.launched) or 'nothing'}"
        elif each.still is False and each.before != top:
            text = f"communicator of {size}: {what} {each.before} to {top} between two answers"
        elif each.behind:
            text = f"communicator of {size}: {each.ahead_count} launched {what} {top}"
            counts = [dict(rank.counts)[each.function] for rank in each.behind[:4]]
            slow = ", ".join(
                f"{count} by rank {rank.rank}"
                for count, rank in zip(counts, each.behind, strict=False)
            )
            text += f"; {slow}{', ...' * (len(each.behind) > 4)}"
        else:
            text = f"communicator of {size}: {same} launched {what} {top}"
        still = "; none launched anything between two answers" if each.still else ""
        yield JobFact(text=text + still, origin=RAS)


def _of_dumps(groups: Sequence[RecordedGroup]) -> Iterator[JobFact]:
    for group in groups:
        for text in group.differences:
            yield JobFact(text=f"{group.name}: {text}", origin=RECORDER, weight=BAD)
        if group.waiting and group.furthest is not None:
            frame = own_frame(group.waiting[0].last.frames) if group.waiting[0].last else None
            where = (
                "" if frame is None else f", called at {frame.file}:{frame.line} in {frame.name}"
            )
            who = ranks_text([place.rank for place in group.waiting])
            what = f"{spoken(group.furthest.name)} {group.furthest.number}"
            yield JobFact(text=f"{group.name}: {who} in {what}{where}", origin=RECORDER)
        if group.without_dump:
            yield JobFact(
                text=f"{group.name}: no dump of {ranks_text(group.without_dump)}", origin=RECORDER
            )


def _steps(ranks: Sequence[RankStanding], verdict: str) -> Iterator[str]:
    """Commands for the ranks that something is wrong with, then for one that waits."""
    for rank in ranks:
        if rank.trouble is None or rank.pid is None or "has ended" in rank.trouble:
            continue
        state = None if rank.activity is None else rank.activity.stayed
        if state == "stopped":
            yield f"kill -CONT {rank.pid}"
        elif state == "disk sleep":
            yield shlex.join(("sudo", "cat", f"/proc/{rank.pid}/stack"))
        else:
            yield f"py-spy dump --pid {rank.pid}"
    waits = next(
        (r for r in ranks if r.trouble is None and r.pid is not None and r.activity is not None),
        None,
    )
    if waits is not None and waits.pid is not None and verdict != RUNS:
        yield f"py-spy dump --pid {waits.pid}"
        if verdict == HANGS:
            yield f"cuda-gdb -p {waits.pid} -batch -ex 'info cuda kernels'"


def _unknown(
    job: Job, heard: Heard, found: FoundDumps, silence: str, replies: Sequence[RasReply]
) -> Iterator[str]:
    if not heard.ras:
        said = [reply.trouble for reply in replies if reply.trouble is not None]
        none = "RAS names none of its processes" if silence == NO_ANSWER else silence
        yield f"which collective each rank is in: {'; '.join(said) or none}"
    if not heard.activities and any(user.reading.state is not None for user in job.processes):
        yield "what the processes do: /proc was not read twice"
    if not heard.groups and heard.activities:
        yield (
            "the program's lines: no dump of PyTorch's flight recorder; it writes one when a "
            "collective times out"
        )
    for path, why in found.refused:
        yield f"{path}: {why}"
    hidden = [u.pid for u in job.processes if u.reading.variables is None]
    if hidden:
        yield f"variables of pid {', '.join(map(str, hidden[:4]))}: not readable"
