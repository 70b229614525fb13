"""What files say of jobs: a recorded node, dumps, saved answers of RAS, the Inspector's records.

Answers and records of a process that the node lists belong to its job; the rest stands alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..model.snapshot import NodeSnapshot
from .asking import JobsReport, answer, match
from .conclude import of_dumps
from .flight.files import FoundDumps
from .flight.files import named as dumps_in
from .flight.files import read as read_dumps
from .grouping import Job, jobs
from .inspector.records import FinishedOperation, InspectorRecords
from .inspector.records import named as records_in
from .inspector.records import read as read_records
from .inspector.telling import state_of
from .ras.client import RasReply
from .ras.comparing import CommunicatorState
from .ras.homes import told_apart
from .ras.places import RasPlace
from .saved import SavedAnswer, SavedRas, by_job, communicators_of, states_from_saved
from .saved import named as saved_in


class JobMaterial(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody kept of jobs in files and folders."""

    dumps: FoundDumps = FoundDumps()
    saved: SavedRas = SavedRas()
    records: InspectorRecords = InspectorRecords()
    others: tuple[str, ...] = ()
    """Sources that hold something else, or something else too."""
    refused: tuple[tuple[str, str], ...] = ()
    """File and why it, or a part of it, is not read."""

    @property
    def told(self) -> bool:
        """Whether any of it was read."""
        return bool(self.dumps.dumps or self.saved.answers or self.records.operations)

    def report(self, snapshot: NodeSnapshot | None) -> JobsReport:
        """What it says of jobs, beside a node or alone."""
        return of_files(snapshot, self.dumps, self.saved, self.records)


def material_in(sources: Sequence[str], *, texts: bool = True) -> JobMaterial:
    """Read the dumps, saved answers and records in files and folders; links too, as they are named.

    `texts`: whether answers of RAS are looked for in texts. Raises OSError for a folder that cannot
    be listed.
    """
    paths, others, cut = dumps_in(sources)
    dumps = read_dumps(paths, follow=True) if paths else FoundDumps()
    saved, others = saved_in(others) if texts else (SavedRas(), others)
    recorded, others = records_in(others)
    records = read_records(recorded, follow=True)
    return JobMaterial(
        dumps=dumps,
        saved=saved,
        records=records,
        others=others,
        refused=(*cut, *dumps.refused, *saved.refused, *records.refused),
    )


def of_files(
    snapshot: NodeSnapshot | None,
    dumps: FoundDumps,
    saved: SavedRas | None = None,
    records: InspectorRecords | None = None,
) -> JobsReport:
    """What they say, the jobs of the node last. Nothing is asked."""
    here = () if snapshot is None else jobs(snapshot)
    told, ours = saved or SavedRas(), list[list[SavedAnswer]]()
    if here:
        ours = [group for group in by_job(told) if _fits(group, here)]
    fitting = [one for group in ours for one in group]
    ours = [[_at_home(one) for one in group] for group in ours]
    alone = msgspec.structs.replace(
        told, answers=tuple(one for one in told.answers if one not in fitting)
    )
    own, rest = _parted(records or InspectorRecords(), here)
    others = (of_dumps(dumps), state_of(rest))
    states = (*states_from_saved(alone), *(one for one in others if one is not None))
    if snapshot is None:
        return JobsReport(jobs=states, dumps=dumps)
    ras = tuple(state for group in ours for state in communicators_of(group))
    replies = tuple(
        RasReply(place=RasPlace(address="saved"), answers=(group[-1].answer,)) for group in ours
    )
    found = answer(snapshot, {}, ras, replies=replies, recorded=True, records=own)
    return JobsReport(jobs=(*states, *found.jobs), dumps=dumps)


def _at_home(one: SavedAnswer) -> SavedAnswer:
    """The same answer; the processes that it names are those that the node lists."""
    return msgspec.structs.replace(one, answer=told_apart(one.answer))


def _fits(group: Sequence[SavedAnswer], here: Sequence[Job]) -> bool:
    """Whether these answers are about a job of the node: they name its processes, or its size."""
    ras: Sequence[CommunicatorState] = communicators_of(group)
    found = match(here, ras, [group[-1].answer], [True] * len(here))
    return not found.rest and any(found.answers)


def _parted(
    records: InspectorRecords, here: Sequence[Job]
) -> tuple[InspectorRecords, InspectorRecords]:
    """The records of the jobs here, and the others."""
    pids = {user.pid for job in here for user in job.processes}
    hosts = {user.reading.hostname for job in here for user in job.processes} - {None}
    own, rest = list[FinishedOperation](), list[FinishedOperation]()
    for one in records.operations:
        ours = one.pid in pids and (not hosts or one.host in hosts)
        (own if ours else rest).append(one)
    return (
        msgspec.structs.replace(records, operations=tuple(own), refused=()),
        msgspec.structs.replace(records, operations=tuple(rest)),
    )
