"""Which answer of RAS is about which job here.

JSON names the processes of all ranks. A text names only those that stand out: of a healthy job
none. What both know then: the process that answered, else how many processes and GPUs the job has.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .grouping import Job
from .ras.answer import RasAnswer
from .ras.comparing import RasStanding
from .words import counted


class Matched(msgspec.Struct, frozen=True):
    """What RAS says of the jobs here."""

    jobs: tuple[tuple[RasStanding, ...], ...]
    """Of each job its communicators, the largest first."""
    answers: tuple[tuple[RasAnswer, ...], ...]
    """Of each job the answers that these are from; also one without communicators."""
    assumed: tuple[str | None, ...]
    """Of each job what is taken for granted about its answer; None where it is proven."""
    rest: tuple[RasStanding, ...]
    """Communicators of none of these jobs."""


def match(
    jobs: Sequence[Job],
    ras: Sequence[RasStanding],
    answers: Sequence[RasAnswer] = (),
    alive: Sequence[bool] = (),
) -> Matched:
    """Give each job its answers; an answer that several jobs may have written goes to none.

    `answers`: all of them, those without communicators too; `alive`: whether each job still has
    processes, without which nothing is taken for its answer.
    """
    gone = [at for at, lives in enumerate(alive) if not lives]
    told = list({id(each.answer): each.answer for each in ras if each.answer is not None}.values())
    told += [each for each in answers if not any(each is other for other in told)]
    owners: dict[int, int] = {}
    assumed: list[str | None] = [None] * len(jobs)
    for answer in told:
        known = answer.pids if answer.speaker is None else answer.pids | {answer.speaker}
        for number, job in enumerate(jobs):
            if known & _pids(job):
                owners.setdefault(id(answer), number)
    for answer in told:
        if id(answer) in owners or answer.job is None:
            continue
        free = [at for at in range(len(jobs)) if at not in (*owners.values(), *gone)]
        found = [at for at in free if _fits(jobs[at], answer, ras)]
        if len(found) == 1 and not answer.pids:
            owners[id(answer)] = found[0]
            assumed[found[0]] = (
                "whether the answer of RAS is about this job: it names no process, and is taken "
                f"for its, as no other job here has {counted(answer.job.processes, 'rank')} and "
                "listens there"
            )
    parts: list[list[RasStanding]] = [[] for _ in jobs]
    rest: list[RasStanding] = []
    for each in ras:
        owner = owners.get(id(each.answer)) if each.answer is not None else _by_pids(jobs, each)
        (rest if owner is None else parts[owner]).append(each)
    return Matched(
        jobs=tuple(_once(part) for part in parts),
        answers=tuple(
            tuple(each for each in told if owners.get(id(each)) == number)
            for number in range(len(jobs))
        ),
        assumed=tuple(assumed),
        rest=tuple(rest),
    )


def _pids(job: Job) -> frozenset[int]:
    return frozenset(user.pid for user in job.processes)


def _by_pids(jobs: Sequence[Job], each: RasStanding) -> int | None:
    return next((at for at, job in enumerate(jobs) if each.pids & _pids(job)), None)


def _fits(job: Job, answer: RasAnswer, ras: Sequence[RasStanding]) -> bool:
    """Whether a job may have given an answer that names no process."""
    place = next((each.place for each in ras if each.answer is answer), None)
    if answer.job is None or (place is not None and place.pids and not place.pids & _pids(job)):
        return False
    here, all_of = len(job.processes), answer.job.processes
    if job.world_size is not None:
        return job.world_size == all_of
    return here == (answer.job.processes_per_node or all_of) and here <= all_of


def _once(own: Sequence[RasStanding]) -> tuple[RasStanding, ...]:
    """Without what a second process of the job said again: texts of two may be of one moment.

    The answer that names something is kept, else the first.
    """
    texts = {id(each.answer): each.answer for each in own if each.answer and not _named(own, each)}
    if len(texts) < 2 and len(texts) == len({id(each.answer) for each in own}):
        return tuple(own)
    named = [each for each in own if id(each.answer) not in texts]
    kept = next(iter(texts), None) if not named else None
    return tuple(each for each in own if id(each.answer) not in texts or id(each.answer) == kept)


def _named(own: Sequence[RasStanding], each: RasStanding) -> bool:
    return any(other.communicator.name is not None for other in own if other.answer is each.answer)
