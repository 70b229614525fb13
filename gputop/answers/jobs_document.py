"""What the document of jobs holds as plain data: jobs, their ranks, RAS, and dumps."""

from __future__ import annotations

from typing import TypedDict

from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.loads.judging import RankLoad
from gputop.topology.jobs.ras.answer import RasAnswer
from gputop.topology.jobs.standing import JobState, KnownBy, RankState
from gputop.topology.model.finding import Finding, Kind
from gputop.topology.model.readings import ProcessState
from gputop.topology.model.severity import JobVerdict

JobFact = TypedDict("JobFact", {"text": str, "from": str, "weight": str, "ranks": list[int]})
"""One thing that is known of a job; its weight is "bad" or "note"."""


class JobRank(TypedDict):
    """One rank of a job; None where nobody told it."""

    rank: int | None
    pid: int | None
    gpus: list[str]
    trouble: str | None
    trouble_from: KnownBy | None
    last_collective: str | None
    last_collective_from: KnownBy | None
    gpu_busy_percent: float | None
    states: list[ProcessState | None] | None
    user_cores: float | None
    system_cores: float | None
    memory_bytes: int | None
    grown_bytes: int | None
    threads: int | None
    asleep: bool | None
    asleep_thread: str | None
    wait_channel: str | None
    queued: float | None
    gpu_memory_bytes: int | None
    load: RankLoad | None
    waiting: float | None


class JobEntry(TypedDict):
    """One job: its sentence, its ranks, and what is known of it."""

    name: str
    program: str
    verdict: JobVerdict
    sentence: str
    brief: str
    quiet_seconds: float | None
    world_size: int | None
    ranks: list[JobRank]
    facts: list[JobFact]
    unknown: list[str]
    next: list[str]


class RasPlaceAsked(TypedDict):
    """What came of asking NCCL's RAS service at one place."""

    address: str
    seconds: float
    trouble: str | None
    silent_connections: int
    answers: tuple[RasAnswer, ...]


class RasAsked(TypedDict):
    """Whether RAS was asked, and where."""

    asked: bool
    places: list[RasPlaceAsked]


class DumpRead(TypedDict):
    """A dump of PyTorch's flight recorder."""

    rank: int | None
    file: str
    entries: int


class RefusedDump(TypedDict):
    """A file that could not be read as one."""

    file: str
    why: str


class FlightRecorderRead(TypedDict):
    """The dumps that were read, and the files that could not be."""

    dumps: list[DumpRead]
    refused: list[RefusedDump]


def ras_entry(report: JobsReport) -> RasAsked:
    """Where RAS was asked."""
    places: list[RasPlaceAsked] = [
        {
            "address": reply.place.address,
            "seconds": round(reply.seconds, 4),
            "trouble": reply.trouble,
            "silent_connections": reply.silent,
            "answers": reply.answers,
        }
        for reply in report.ras
    ]
    return {"asked": report.ras_asked, "places": places}


def dumps_entry(report: JobsReport) -> FlightRecorderRead:
    """The dumps."""
    found = report.dumps
    return {
        "dumps": [
            {"rank": dump.rank, "file": dump.origin, "entries": len(dump.entries)}
            for dump in found.dumps
        ],
        "refused": [{"file": file, "why": why} for file, why in found.refused],
    }


def source_of(finding: Finding) -> str:
    """Where a fact about a job is from: "/proc", "RAS"."""
    return ", ".join(finding.sources)


def memory_held(job: JobState) -> dict[int | None, int | None]:
    """By process: what it holds on its GPUs, as far as the driver says."""
    return {} if job.job is None else {user.pid: user.memory_bytes for user in job.job.processes}


def job_entry(job: JobState) -> JobEntry:
    """A job with its ranks."""
    held = memory_held(job)
    return {
        "name": job.name,
        "program": job.program,
        "verdict": job.verdict,
        "sentence": job.sentence,
        "brief": job.brief or job.sentence,
        "quiet_seconds": job.quiet_seconds,
        "world_size": None if job.job is None else job.job.world_size,
        "ranks": [_rank(rank, held.get(rank.pid)) for rank in job.ranks],
        "facts": [
            {
                "text": finding.title,
                "from": source_of(finding),
                "weight": "bad" if finding.severity.counts else "note",
                "ranks": [int(rank) for rank in finding.names(Kind.RANK)],
            }
            for finding in job.findings
        ],
        "unknown": list(job.unknown),
        "next": list(job.steps),
    }


def _rank(rank: RankState, gpu_memory: int | None) -> JobRank:
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
        "user_cores": None if activity is None else activity.user_cores,
        "system_cores": None if activity is None else activity.system_cores,
        "memory_bytes": None if activity is None else activity.memory_bytes,
        "grown_bytes": None if activity is None else activity.grown_bytes,
        "threads": None if activity is None else activity.threads,
        "asleep": None if activity is None else activity.asleep,
        "asleep_thread": None if activity is None else activity.asleep_thread,
        "wait_channel": rank.place if activity is None else activity.channel or rank.place,
        "queued": None if activity is None else activity.queued,
        "gpu_memory_bytes": gpu_memory,
        "load": rank.load,
        "waiting": rank.waiting,
    }
