"""Puts together what is said about one job."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..model.snapshot import NodeSnapshot
from ..nccl.versions import preferred
from .ended import of_ended, over
from .evidence import facts, host_cpus
from .flight.comparing import WAITS_SECONDS, compare
from .flight.dump import Dump
from .flight.files import FoundDumps, age
from .grouping import Job
from .heard import Heard
from .hints import (
    missing_here,
    pcie_fact,
    short_sleeps,
    slow_or_stuck,
    started_here,
    traffic_fact,
    undated,
)
from .judging import STOPPED, TRACED, ranks_of, ranks_of_dumps, ranks_of_ras
from .ras.client import RasReply
from .reported import dump_facts, ras_facts
from .sentence import quiet_seconds, sentence
from .silence import silence, xgmi_fact
from .standing import BAD, HANGS, NOTE, RUNS, WAITS, JobFact, JobStanding, RankStanding
from .words import counted

MOST_STEPS = 6
NOT_ASKED = "RAS was not asked (--ras)"
NO_ANSWER = "RAS gave no answer"
NAMES_NONE = "RAS names none of its processes"
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
    now: float | None = None,
) -> JobStanding:
    """Say where one job stands; of a recorded node nothing can be asked.

    `now`: seconds since the epoch; None where the age of dumps is not asked.
    """
    answered = any(reply.answers for reply in replies)
    heard_nothing = (NAMES_NONE if answered else NO_ANSWER) if asked else NOT_ASKED
    unheard = RECORDED if recorded else heard_nothing
    numbers = {user.reading.rank for user in job.processes}
    groups = compare([dump for dump in found.dumps if dump.rank in numbers])
    ago = age([dump for dump in found.dumps if dump.rank in numbers], now)
    if heard.moves or (ago is not None and any(each.counts for each in heard.ras)):
        # RAS knows who waits now, a dump who waited: only what did not fit then still stands.
        none: dict[str, Any] = {"waiting": (), "behind": (), "without_dump": ()}
        groups = tuple(msgspec.structs.replace(group, **none) for group in groups)
    heard = msgspec.structs.replace(heard, groups=groups)
    ranks = ranks_of(job, snapshot.machine, snapshot.readings, heard)
    if over(job, heard.ended):
        return of_ended(job, ranks)
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
        unheard,
        world=job.world_size,
        costs=[fact.brief for fact in given if fact.brief],
        ago=ago,
    )
    begun = job.started_at
    lasts = None if begun is None else max(snapshot.taken_at - begun, 0.0)
    quiet = silence(job, snapshot.machine, heard.past, heard.traffic, lasts)
    if quiet.brief and verdict not in (RUNS, HANGS):
        said = f"{said}; {quiet.brief}"
    told = [
        *rank_facts(ranks),
        *ras_facts(heard.ras),
        *dump_facts(groups),
        *given,
        *short_sleeps(job, heard.activities, ranks),
        *(() if heard.ras else missing_here(job, heard.activities)),
        *(() if verdict == RUNS else quiet.facts),
        *(() if verdict == RUNS or recorded else _traffic(job, snapshot, heard)),
    ]
    return JobStanding(
        name=job.name,
        program=name,
        sentence=said,
        verdict=verdict,
        ranks=ranks,
        facts=tuple(told),
        steps=tuple(steps_of(ranks, verdict))[:MOST_STEPS],
        unknown=(
            *slow_or_stuck(ranks, verdict),
            *_unknown(job, heard, found, unheard, replies),
            *(() if verdict == RUNS else quiet.unknown),
        ),
        job=job,
        seconds=next((each.seconds for each in heard.activities.values()), None),
        quiet_seconds=quiet_seconds(heard.ras),
    )


def _traffic(job: Job, snapshot: NodeSnapshot, heard: Heard) -> Iterator[JobFact]:
    """What links carry, where that may say whether a job goes on."""
    machine, readings, shared = snapshot.machine, snapshot.readings, heard.shared
    yield from traffic_fact(job, machine, heard.traffic, shared)
    if snapshot.source == ("live",):
        # A demo's figures are those of a job that runs.
        yield from pcie_fact(job, machine, readings, shared)
        yield from xgmi_fact(job, machine, readings, shared)


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
        facts=(*rank_facts(ranks), *ras_facts(heard.ras)),
        steps=tuple(steps_of(ranks, verdict))[:MOST_STEPS],
        unknown=(
            "its processes: the driver lists none of them on the GPUs here"
            if any(each.pids for each in heard.ras)
            else "its processes: this answer of RAS names none, so it may be a job named here too",
        ),
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
        facts=tuple(dump_facts(groups)),
        unknown=(
            *undated(groups),
            *(
                f"{dump.origin}: its name ends in no rank, so it is left out"
                for dump in found.dumps
                if dump.rank is None
            ),
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


def rank_facts(ranks: Sequence[RankStanding]) -> Iterator[JobFact]:
    """What is wrong with each rank."""
    for rank in ranks:
        if rank.trouble is not None and rank.origin is not None:
            numbers = () if rank.rank is None else (rank.rank,)
            weight = NOTE if rank.follows or rank.left else BAD
            text = f"{rank.label} {rank.trouble}"
            yield JobFact(text=text, origin=rank.origin, weight=weight, ranks=numbers)


def steps_of(ranks: Sequence[RankStanding], verdict: str) -> Iterator[str]:
    """Commands for the ranks that something is wrong with, then for one that waits."""
    for rank in ranks:
        if rank.trouble is not None and rank.elsewhere is not None:
            host, pid = rank.elsewhere
            yield f"py-spy dump --pid {pid}  # at {host or 'its machine'}"
        if rank.trouble is None or rank.pid is None or "has ended" in rank.trouble:
            continue
        state = None if rank.activity is None else rank.activity.stayed
        if state == "stopped" or rank.trouble == STOPPED:
            yield f"kill -CONT {rank.pid}"
        elif rank.trouble == TRACED:
            yield f"grep TracerPid /proc/{rank.pid}/status"
        elif rank.activity is not None and rank.activity.asleep_thread is not None:
            number = rank.activity.asleep_thread.rpartition("(")[2].rstrip(")")
            yield shlex.join(("sudo", "cat", f"/proc/{rank.pid}/task/{number}/stack"))
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
        if verdict in (HANGS, WAITS):
            yield f"cuda-gdb -p {waits.pid} -batch -ex 'info cuda kernels'"


def _unknown(
    job: Job, heard: Heard, found: FoundDumps, silence: str, replies: Sequence[RasReply]
) -> Iterator[str]:
    if heard.assumed is not None:
        yield heard.assumed
    if not heard.ras:
        said = [reply.trouble for reply in replies if reply.trouble is not None]
        yield f"which collective each rank is in: {'; '.join(said) or silence}"
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
