"""Jobs as JSON, gputop.jobs/1: of `gputop jobs`, and of `gputop log` for dumps."""

from __future__ import annotations

from typing import Any

import msgspec

from gputop import __version__
from gputop.topology.jobs.asking import JobsAnswer
from gputop.topology.jobs.saved import SAVED
from gputop.topology.jobs.standing import JobState, RankState
from gputop.topology.model.finding import Kind
from gputop.topology.model.snapshot import NodeSnapshot

SCHEMA = "gputop.jobs/1"


def document(
    snapshot: NodeSnapshot | None, answer: JobsAnswer, *, simulated: bool = False
) -> dict[str, Any]:
    """All jobs with their sentence, ranks and facts; `snapshot` is None where only dumps were read.

    `simulated`: the node is a demo, whose processes nobody runs.
    """
    return {
        "schema": SCHEMA,
        "gputop": __version__,
        "source": _source(answer) if snapshot is None else list(snapshot.source),
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


def _source(answer: JobsAnswer) -> list[str]:
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
                "from": finding.sources[0],
                "weight": "bad" if finding.severity.counts else "note",
                "ranks": [int(rank) for rank in finding.names(Kind.RANK)],
            }
            for finding in job.findings
        ],
        "unknown": list(job.unknown),
        "next": list(job.steps),
    }


def _rank(rank: RankState) -> dict[str, Any]:
    found = rank.activity
    return {
        "rank": rank.rank,
        "pid": rank.pid,
        "gpus": list(rank.gpus),
        "trouble": None if rank.trouble is None else rank.trouble.text,
        "trouble_from": None if rank.trouble is None else rank.trouble.source,
        "last_collective": None if rank.last is None else rank.last.name,
        "last_collective_from": None if rank.last is None else rank.last.source,
        "gpu_busy_percent": rank.busy_percent,
        "states": None if found is None else list(found.states),
        "user_cores": None if found is None else found.user_cores,
        "system_cores": None if found is None else found.system_cores,
        "memory_bytes": None if found is None else found.memory_bytes,
        "grown_bytes": None if found is None else found.grown_bytes,
        "threads": None if found is None else found.threads,
        "asleep": None if found is None else found.asleep,
        "asleep_thread": None if found is None else found.asleep_thread,
        "wait_channel": None if found is None else found.channel,
    }
