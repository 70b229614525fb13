"""Processes that have ended: ranks that RAS misses, and those that ended while gputop looked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..sources.files.tree import Tree
from ..sources.linux.process_facts import ZOMBIE_LETTERS
from ..sources.linux.process_files import state
from .grouping import Job
from .ras.answer import RasAnswer
from .ras.comparing import RasStanding
from .standing import GONE, UNTOLD, ZOMBIE, JobStanding, RankStanding


def ended(
    found: Sequence[Job], ras: Sequence[RasStanding], answers: Sequence[RasAnswer], tree: Tree
) -> dict[int, str]:
    """PIDs of processes that were here and have ended, and how that shows."""
    lost = [each for standing in ras for each in standing.communicator.missing]
    lost += [each for told in answers for each in told.silent]
    named = [pid for each in lost if (pid := each.here) is not None]
    gone: dict[int, str] = {}
    for pid in dict.fromkeys([*named, *_seen(found)]):
        if not tree.exists(f"proc/{pid}/stat"):
            gone[pid] = GONE
        elif state(tree, pid) in ZOMBIE_LETTERS:
            gone[pid] = ZOMBIE
    return gone


def _seen(found: Sequence[Job]) -> Iterator[int]:
    """Processes on the GPUs that the operating system described.

    Others are of a namespace that we do not see.
    """
    for job in found:
        for user in job.processes:
            if user.reading.started_at is not None:
                yield user.pid


def over(job: Job, gone: Collection[int]) -> bool:
    """Whether all processes of a job here have ended."""
    return all(user.pid in gone for user in job.processes)


def of_ended(job: Job, ranks: Sequence[RankStanding]) -> JobStanding:
    """A job that ended, as all do: no fault by itself."""
    count = len(job.processes)
    who = "its process here has" if count == 1 else f"its {count} processes here have"
    return JobStanding(
        name=job.name,
        program=job.name,
        sentence=f"{job.name}: {who} ended",
        verdict=UNTOLD,
        ranks=tuple(ranks),
        unknown=("why: `gputop log FILE` reads what the job printed",),
        job=job,
    )
