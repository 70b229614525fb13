"""What files say of jobs: a recorded node, dumps, RAS, the Inspector's records and stacks.

Answers and records of a process that the node lists belong to its job; the rest stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from ..model.copied import at_another
from ..model.severity import JobVerdict
from ..model.snapshot import NodeSnapshot
from ..model.units import seconds
from .asking import JobsReport, answer, match
from .conclude import of_dumps
from .flight.files import FoundDumps
from .flight.files import named as dumps_in
from .flight.files import read as read_dumps
from .grouping import Job, jobs
from .inspector.records import FinishedOperation, InspectorRecords
from .inspector.records import named as records_in
from .inspector.records import read as read_records
from .inspector.telling import FRESH_SECONDS, states_of
from .ras.client import RasReply
from .ras.comparing import CommunicatorState
from .ras.homes import told_apart
from .ras.places import RasPlace
from .saved import SavedAnswer, SavedRas, by_job, communicators_of, states_with_answers
from .saved import named as saved_in
from .saved_stacks import by_job as stacks_by_job
from .saved_stacks import named as stacks_in
from .saved_stacks import state_of as state_of_stacks
from .stacks import RankStack, StackGroup, grouped
from .standing import JobState

CLOCKS_SECONDS = 5.0
"""By so much the start of a process and the first record of it may differ."""
BEHIND_SECONDS, AHEAD_SECONDS = 12 * 3600.0, 14 * 3600.0
"""How far the clocks of zones are behind UTC and ahead of it."""


class JobMaterial(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody kept of jobs in files and folders."""

    dumps: FoundDumps = FoundDumps()
    saved: SavedRas = SavedRas()
    records: InspectorRecords = InspectorRecords()
    stacks: tuple[RankStack, ...] = ()
    """What py-spy printed of processes."""
    others: tuple[str, ...] = ()
    """Sources that hold something else, or something else too."""
    refused: tuple[tuple[str, str], ...] = ()
    """File and why it, or a part of it, is not read."""

    @property
    def told(self) -> bool:
        """Whether any of it was read."""
        return bool(
            self.dumps.dumps or self.saved.answers or self.records.operations or self.stacks
        )

    def report(self, snapshot: NodeSnapshot | None) -> JobsReport:
        """What it says of jobs, beside a node or alone."""
        report = of_files(snapshot, self.dumps, self.saved, self.records)
        _, left = stacks_by_job(self.stacks, report.jobs)
        alone = (state_of_stacks(left),) if left else ()
        return msgspec.structs.replace(report, jobs=(*alone, *report.jobs))

    def stacks_of(self, report: JobsReport) -> tuple[tuple[StackGroup, ...], ...]:
        """Of each job of the report the ranks by their innermost call, where stacks were kept."""
        groups, left = stacks_by_job(self.stacks, report.jobs)
        return (grouped(left), *groups[1:]) if left else tuple(groups)


def material_in(sources: Sequence[str], *, texts: bool = True) -> JobMaterial:
    """Read the dumps, saved answers and records in files and folders; links too, as they are named.

    `texts`: whether answers of RAS are looked for in texts. Raises OSError for a folder that cannot
    be listed.
    """
    paths, others, cut = dumps_in(sources)
    dumps = read_dumps(paths, follow=True) if paths else FoundDumps()
    saved, others = saved_in(others) if texts else (SavedRas(), others)
    recorded, others = records_in(others)
    stacks, others = stacks_in(others)
    records = read_records(recorded, follow=True)
    return JobMaterial(
        dumps=dumps,
        saved=saved,
        records=records,
        stacks=stacks,
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
    told, records = saved or SavedRas(), records or InspectorRecords()
    here = () if snapshot is None else jobs(snapshot)
    read_at = None if snapshot is None else snapshot.taken_at
    ours, others = list[list[SavedAnswer]](), list[list[SavedAnswer]]()
    for group in by_job(told):
        (ours if here and _fits(group, here, snapshot) else others).append(group)
    answers = tuple(chain.from_iterable(others))
    own, rest = _parted(records, here, read_at or 0.0)
    states = (
        *_alone(msgspec.structs.replace(told, answers=answers), read_at),
        *filter(None, [of_dumps(dumps)]),
        *states_of(rest, read_at),
    )
    of_node = () if snapshot is None else _of_node(snapshot, ours, own)
    return JobsReport(jobs=(*states, *of_node), dumps=dumps)


def _alone(told: SavedRas, read_at: float | None) -> Iterator[JobState]:
    """The jobs of saved answers, each as it stood when the last one was saved."""
    for state, last in states_with_answers(told):
        apart = _apart(last.answer.timestamp, read_at)
        yield _of_then(state, apart) if apart else state


def _of_node(
    snapshot: NodeSnapshot, groups: Sequence[Sequence[SavedAnswer]], own: InspectorRecords
) -> Iterator[JobState]:
    """The jobs of a node, with the saved answers and the records about them."""
    ours = [[_at_home(one) for one in group] for group in groups]
    ras = tuple(chain.from_iterable(map(communicators_of, ours)))
    replies = tuple(
        RasReply(place=RasPlace(address="saved"), answers=(group[-1].answer,)) for group in ours
    )
    for job in answer(snapshot, {}, ras, replies=replies, recorded=True, records=own).jobs:
        steps = tuple(there(step, snapshot) for step in job.steps)
        yield msgspec.structs.replace(job, steps=steps)


def there(step: str, snapshot: NodeSnapshot) -> str:
    """A line about a process of a recorded node, which is none of this machine."""
    names = {process.hostname for process in snapshot.readings.processes} - {None}
    host = snapshot.machine.host
    own = names.pop() if len(names) == 1 else None if host is None else host.hostname
    return at_another(step, own, "on the node that was read")


def _at_home(one: SavedAnswer) -> SavedAnswer:
    """The same answer; the processes that it names are those that the node lists."""
    return msgspec.structs.replace(one, answer=told_apart(one.answer))


def _fits(group: Sequence[SavedAnswer], here: Sequence[Job], snapshot: NodeSnapshot | None) -> bool:
    """Whether these answers are about a job of the node: they name its processes, or its size.

    Not where they are of another day.
    """
    if _apart(group[-1].answer.timestamp, None if snapshot is None else snapshot.taken_at):
        return False
    ras: Sequence[CommunicatorState] = communicators_of(group)
    found = match(here, ras, [group[-1].answer], [True] * len(here))
    return not found.rest and any(found.answers)


def _apart(timestamp: float | None, read_at: float | None) -> str:
    """How long before or after the node was read RAS answered; "" where it may be the same time.

    RAS tells the clock of its machine, whose zone is between 14 h before and 12 h behind UTC.
    """
    if timestamp is None or not read_at:
        return ""
    ago = read_at - timestamp
    if ago > BEHIND_SECONDS + FRESH_SECONDS:
        return f"about {seconds(ago)} before the node was read"
    return f"about {seconds(-ago)} after the node was read" if -ago > AHEAD_SECONDS else ""


def _of_then(state: JobState, when: str) -> JobState:
    """What was said of a job at another time, which is no verdict on it now."""
    wrong = state.verdict in (JobVerdict.HANGS, JobVerdict.WAITS, JobVerdict.FAULTY)
    text = state.sentence.removeprefix(f"{state.name}: ")
    brief = state.brief.removeprefix(f"{state.name}: ")
    return msgspec.structs.replace(
        state,
        sentence=f"{state.name}: {when}: {text}; whether that is so still is not known",
        brief=f"{state.name}: {when}: {brief}" if brief else "",
        verdict=JobVerdict.FAULTY if wrong else JobVerdict.UNKNOWN,
    )


def _parted(
    records: InspectorRecords, here: Sequence[Job], read_at: float
) -> tuple[InspectorRecords, InspectorRecords]:
    """The records of the jobs here, and the others.

    Others are those of an earlier process with such a PID, and of a job whose newest one is too old
    to speak of the time when the node was read.
    """
    users = {user.pid: user.reading for job in here for user in job.processes}
    jobs_of = {user.pid: job.key for job in here for user in job.processes}
    hosts = {reading.hostname for reading in users.values()} - {None}

    def fits(one: FinishedOperation) -> bool:
        reading = users.get(one.pid or 0)
        if reading is None or (hosts and one.host not in hosts):
            return False
        return one.written_at >= (reading.started_at or 0.0) - CLOCKS_SECONDS

    newest: dict[str, float] = {}
    for one in filter(fits, records.operations):
        key = jobs_of[one.pid or 0]
        newest[key] = max(newest.get(key, 0.0), one.written_at)
    fresh = {key for key, at in newest.items() if read_at - at < FRESH_SECONDS}
    own, rest = list[FinishedOperation](), list[FinishedOperation]()
    for one in records.operations:
        ours = fits(one) and jobs_of[one.pid or 0] in fresh
        (own if ours else rest).append(one)
    return (
        msgspec.structs.replace(records, operations=tuple(own), refused=()),
        msgspec.structs.replace(records, operations=tuple(rest)),
    )
