"""Where the jobs stand: a sentence for each, its ranks, and where each fact is from.

The JSON is gputop.jobs/1: of `gputop jobs`, and of `gputop log` for dumps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from gputop import __version__
from gputop.printing.render import texts
from gputop.terminal.clean import clean
from gputop.topology.jobs.asking import JobsAnswer
from gputop.topology.jobs.saved import SAVED
from gputop.topology.jobs.standing import JobState, RankState
from gputop.topology.model.finding import Finding, Kind
from gputop.topology.model.page import (
    SIMULATED,
    Blank,
    Block,
    Column,
    Commands,
    Role,
    Table,
    Text,
)
from gputop.topology.model.severity import BROKEN, NOTICE
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import UNKNOWN, percent, size, whole
from gputop.topology.wiring.gpu_names import gpu_names

SCHEMA = "gputop.jobs/1"
COLUMNS = (
    Column("rank", right=True, optional=True),
    Column("pid", right=True, optional=True),
    Column("GPU", optional=True),
    Column("busy", right=True, optional=True),
    Column("state", optional=True),
    Column("core", right=True, optional=True),
    Column("memory", right=True, optional=True),
    Column("last collective", optional=True),
    Column("what is odd", optional=True),
)
"""The last one says again what the sentence says: it goes first where there is no room."""
WIDEST = 160
MOST_RANKS = 128
"""Rows of a table; those that something is wrong with come before others."""
NEXT = "Next steps, which gputop never takes itself:"


def text(
    snapshot: NodeSnapshot | None, answer: JobsAnswer, width: int, *, simulated: bool = False
) -> str:
    """All jobs as lines for a terminal; the sentence of each comes first."""
    return "\n".join(texts(page(snapshot, answer, simulated=simulated), min(width, WIDEST)))


def page(
    snapshot: NodeSnapshot | None, answer: JobsAnswer, *, simulated: bool = False
) -> Iterator[Block]:
    """All jobs; `simulated`: the node is a demo."""
    if simulated:
        yield Text(f"{SIMULATED}: a demo; no process of it runs here")
    if not answer.jobs:
        yield Text(f"? {nothing(snapshot)}")
        for reply in answer.ras if answer.ras_asked else ():
            if reply.trouble is not None:
                yield Text(f"RAS: {clean(reply.trouble, 400)}", indent=2)
    for at, job in enumerate(answer.jobs):
        if at:
            yield Blank()
        yield sentence_block(job)
        yield from _table(job, snapshot)
        yield from fact_blocks(job)


def nothing(snapshot: NodeSnapshot | None) -> str:
    """Why there is no job, as far as that is known."""
    readings = () if snapshot is None else snapshot.readings.gpus
    lists = [gpu.processes for gpu in readings]
    if not lists or None in lists:
        return "no job is seen: the driver does not say which processes use the GPUs"
    host = None if snapshot is None else snapshot.machine.host
    container = None if host is None else host.container
    if container is not None and container.kind is not None:
        return "no job is seen; from inside a container the host's are not listed"
    return "no process uses a GPU"


def sentence_block(job: JobState) -> Block:
    """The sentence about a job, with the sign of its verdict."""
    ink = Role(job.verdict.ink)
    return Text(((f"{job.verdict.sign} ", ink), (clean(job.sentence, 2000), ink)))


def fact_blocks(job: JobState) -> Iterator[Block]:
    """What is known of a job, what is not, and the commands that tell more."""
    for finding in job.findings:
        sign = (BROKEN if finding.severity.counts else NOTICE).sign
        yield Text(f"{sign} {clean(finding.title, 600)} [{_source(finding)}]", indent=2)
    for unknown in job.unknown:
        yield Text(f"? {clean(unknown, 600)}", indent=2, role=Role.MUTED)
    if job.steps:
        yield Text(NEXT, indent=2)
        yield Commands(tuple(clean(step, 200) for step in job.steps), indent=4)


def _source(finding: Finding) -> str:
    """Where a fact about a job is from: "/proc", "RAS"."""
    return ", ".join(finding.sources)


def _table(job: JobState, snapshot: NodeSnapshot | None) -> Iterator[Block]:
    ranks = _most_telling(job.ranks)
    rows = [_cells(rank, snapshot) for rank in ranks]
    known = [at for at in range(len(COLUMNS)) if any(row[at] not in ("", UNKNOWN) for row in rows)]
    if known:
        yield Table(
            tuple(COLUMNS[at] for at in known),
            tuple(tuple(row[at] for at in known) for row in rows),
        )
    left = len(job.ranks) - len(ranks)
    if left:
        yield Text(f"and {left:,} more rank{'s' * (left > 1)}; --json has all", indent=2)


def _most_telling(ranks: Sequence[RankState]) -> Sequence[RankState]:
    """The ranks that are shown, in their order."""
    if len(ranks) <= MOST_RANKS:
        return ranks
    order = sorted(range(len(ranks)), key=lambda at: (ranks[at].trouble is None, at))
    return [ranks[at] for at in sorted(order[:MOST_RANKS])]


def _cells(rank: RankState, snapshot: NodeSnapshot | None) -> tuple[str, ...]:
    activity = rank.activity
    named = snapshot is not None and rank.gpus
    state, core, memory = UNKNOWN, UNKNOWN, UNKNOWN
    if activity is not None:
        state = activity.stayed or activity.states[1] or UNKNOWN
        memory = size(activity.memory_bytes)
        if activity.user_cores is not None:
            core = percent(100 * (activity.user_cores + (activity.system_cores or 0.0)))
    return (
        whole(rank.rank),
        whole(rank.pid),
        gpu_names(rank.gpus, snapshot.machine) if snapshot is not None and named else UNKNOWN,
        percent(rank.busy_percent),
        state,
        core,
        memory,
        clean(UNKNOWN if rank.last is None else rank.last.name, 40),
        clean("" if rank.trouble is None else rank.trouble.text, 60),
    )


def document(
    snapshot: NodeSnapshot | None, answer: JobsAnswer, *, simulated: bool = False
) -> dict[str, Any]:
    """All jobs with their sentence, ranks and facts; `snapshot` is None where only dumps were read.

    `simulated`: the node is a demo, whose processes nobody runs.
    """
    return {
        "schema": SCHEMA,
        "gputop": __version__,
        "source": _read_from(answer) if snapshot is None else list(snapshot.source),
        "assumptions": [] if snapshot is None else list(snapshot.assumptions),
        "simulated": simulated,
        "seconds": answer.seconds,
        "jobs": [_job(job) for job in answer.jobs],
        "ras": {
            "asked": answer.ras_asked,
            "places": [
                {
                    "address": reply.place.address,
                    "seconds": round(reply.seconds, 4),
                    "trouble": reply.trouble,
                    "silent_connections": reply.silent,
                    "answers": msgspec.to_builtins(reply.answers),
                }
                for reply in answer.ras
            ],
        },
        "traffic": msgspec.to_builtins(answer.traffic),
        "flight_recorder": {
            "dumps": [
                {"rank": dump.rank, "file": dump.origin, "entries": len(dump.entries)}
                for dump in answer.dumps.dumps
            ],
            "refused": [{"file": file, "why": why} for file, why in answer.dumps.refused],
        },
    }


def _read_from(answer: JobsAnswer) -> list[str]:
    """What was read where no node was: dumps, saved answers of RAS or both."""
    saved = any(job.job is None and job.name.startswith(SAVED) for job in answer.jobs)
    return [*(["flight recorder"] if answer.dumps.dumps or not saved else []), *["RAS"] * saved]


def _job(job: JobState) -> dict[str, Any]:
    return {
        "name": job.name,
        "program": job.program,
        "verdict": job.verdict,
        "sentence": job.sentence,
        "quiet_seconds": job.quiet_seconds,
        "world_size": None if job.job is None else job.job.world_size,
        "ranks": [_rank(rank) for rank in job.ranks],
        "facts": [
            {
                "text": finding.title,
                "from": _source(finding),
                "weight": "bad" if finding.severity.counts else "note",
                "ranks": [int(rank) for rank in finding.names(Kind.RANK)],
            }
            for finding in job.findings
        ],
        "unknown": list(job.unknown),
        "next": list(job.steps),
    }


MEASURED = (
    "user_cores",
    "system_cores",
    "memory_bytes",
    "grown_bytes",
    "threads",
    "asleep",
    "asleep_thread",
)
"""Fields of an activity that JSON holds by their names."""


def _rank(rank: RankState) -> dict[str, Any]:
    activity, trouble, last = rank.activity, rank.trouble, rank.last
    return {
        "rank": rank.rank,
        "pid": rank.pid,
        "gpus": list(rank.gpus),
        "trouble": None if trouble is None else trouble.text,
        "trouble_from": None if trouble is None else trouble.source,
        "last_collective": None if last is None else last.name,
        "last_collective_from": None if last is None else last.source,
        "gpu_busy_percent": rank.busy_percent,
        "states": None if activity is None else list(activity.states),
        **{name: getattr(activity, name, None) for name in MEASURED},
        "wait_channel": None if activity is None else activity.channel,
    }
