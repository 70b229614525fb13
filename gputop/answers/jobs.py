"""Where the jobs stand: a sentence for each, its ranks, and where each fact is from.

The JSON is gputop.jobs/1: of `gputop jobs`, and of `gputop log` for dumps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import msgspec

from gputop.answers.jobs_document import (
    FlightRecorderRead,
    JobEntry,
    RasAsked,
    dumps_entry,
    job_entry,
    memory_held,
    ras_entry,
    source_of,
)
from gputop.answers.jobs_watch import watch
from gputop.answers.question import Answer, Clash, NodeRequest, Option, Question
from gputop.exits import ANSWERED, CANNOT_TELL, USAGE, Exit
from gputop.reading import below, check_sources, read_snapshot
from gputop.simulating.jobs import simulated
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn
from gputop.terminal.size import text_width
from gputop.topology.jobs.asking import PAUSE_SECONDS, JobsReport, ask_live
from gputop.topology.jobs.flight.files import FoundDumps
from gputop.topology.jobs.from_files import JobMaterial, material_in, of_files
from gputop.topology.jobs.inspector.telling import NAME as INSPECTOR
from gputop.topology.jobs.inspector.telling import states_of
from gputop.topology.jobs.ras.client import SECONDS
from gputop.topology.jobs.ras.memory import Memory
from gputop.topology.jobs.saved import SAVED
from gputop.topology.jobs.stacks import StackGroup, grouped, in_words, stacks
from gputop.topology.jobs.standing import JobState, RankState
from gputop.topology.jobs.traffic import CarriedTraffic
from gputop.topology.model.english import plural
from gputop.topology.model.page import (
    SIMULATED,
    Blank,
    Block,
    Column,
    Commands,
    Page,
    Role,
    Table,
    Text,
)
from gputop.topology.model.severity import BROKEN, NOTICE, JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import UNKNOWN, percent, size, whole
from gputop.topology.wiring.gpu_names import gpu_names

STACKS_HEAD = "Stacks, by py-spy:"


def stacks_of(report: JobsReport) -> tuple[tuple[StackGroup, ...], ...]:
    """Of each job the ranks here, grouped by their innermost call."""
    return tuple(
        grouped(stacks((rank.rank, rank.pid) for rank in job.ranks if rank.pid is not None))
        for job in report.jobs
    )


def stack_blocks(groups: Sequence[StackGroup]) -> Iterator[Block]:
    """One line a group."""
    if groups:
        yield Text(STACKS_HEAD, indent=2)
    for group in groups:
        yield Text(clean(in_words(group), 600), indent=4)


NOTHING_SAVED = (
    "no dump of PyTorch's flight recorder or of py-spy, no answer of NCCL's RAS and no records of "
    "its Inspector"
)
LONGEST_WAIT, LONGEST_WATCH = 60.0, 3600.0
COLUMNS = (
    Column("rank", right=True, optional=True),
    Column("pid", right=True, optional=True),
    Column("GPU", optional=True),
    Column("busy", right=True, optional=True),
    Column("state", optional=True),
    Column("core", right=True, optional=True),
    Column("GPU memory", right=True, optional=True),
    Column("last collective", optional=True),
    Column("host memory", right=True, optional=True),
    Column("what is odd", optional=True),
)
"""The last one says again what the sentence says: it goes first where there is no room."""
WIDEST = 160
MOST_RANKS = 128
"""Rows of a table; those that something is wrong with come before others."""
NEXT = "Next steps, which gputop never takes itself:"


class JobsRequest(NodeRequest, frozen=True, kw_only=True):
    """Say what runs on the GPUs, how far each rank is, and who waits for whom.

    Reads /proc twice, 2 s apart (--over), watches the GPUs meanwhile, asks NCCL's RAS service of
    the jobs on this machine (--no-ras), and reads dumps of PyTorch's flight recorder and records
    of NCCL's Inspector where the ranks write them; --from takes such dumps and records, and what
    `ncclras` and `py-spy dump` printed, too. Nothing is started, stopped or written.
    """

    clashes: ClassVar[tuple[Clash, ...]] = (
        Clash(("--ras",), ("--from",), "--ras asks the jobs of this machine: leave out --from"),
        Clash(("--ras",), ("--no-ras",), "leave out --ras or --no-ras"),
        Clash(
            ("--watch",),
            ("--from", "--demo", "--json"),
            "--watch looks at the jobs here, and prints lines",
        ),
        Clash(
            ("--stacks",),
            ("--from", "--demo", "--watch"),
            "--stacks asks py-spy about processes here, once",
        ),
        Clash(("--inspector",), ("--from",), "--from DIR reads such records too"),
    )
    ras: Annotated[
        bool,
        Option("--ras", "Does nothing: RAS is asked anyway. Accepted for old scripts."),
    ] = False
    no_ras: Annotated[
        bool, Option("--no-ras", "Leave NCCL's RAS service alone, on this machine too.")
    ] = False
    wait: Annotated[
        float,
        Option(
            "--ras-wait",
            "How long to wait for one answer of RAS; with a silent rank it may take 10 s.",
            "SECONDS",
            least=0.05,
            most=LONGEST_WAIT,
        ),
    ] = SECONDS
    inspector: Annotated[
        str,
        Option(
            "--inspector",
            "Read the records of NCCL's Inspector in this folder; without it, in the one that the "
            "ranks' own NCCL_INSPECTOR_DUMP_DIR names.",
            "DIR",
        ),
    ] = ""
    stacks: Annotated[
        bool,
        Option("--stacks", "Have py-spy dump the stacks of the ranks, and group ranks by them."),
    ] = False
    watch: Annotated[
        bool,
        Option("--watch", "Print a line whenever a job's verdict changes, until Ctrl+C."),
    ] = False
    coded: Annotated[
        bool,
        Option(
            "--exit-code",
            "Exit with 2 for a hang, 1 for a job that waits or is slow, 3 where nothing is known; "
            "with --watch, end at the first hang.",
        ),
    ] = False
    over: Annotated[
        float,
        Option(
            "--over",
            "From the first look at the jobs to the second; over a longer time a slow rank goes "
            "on.",
            "SECONDS",
            least=0.05,
            most=LONGEST_WATCH,
        ),
    ] = PAUSE_SECONDS


class JobsAnswer(Answer, frozen=True, kw_only=True, tag="gputop.jobs/1"):
    """All jobs with their sentence, ranks and facts."""

    hidden: ClassVar[tuple[str, ...]] = ("report", "snapshot", "coded")
    stacks: tuple[tuple[StackGroup, ...], ...] | msgspec.UnsetType = msgspec.UNSET
    """With --stacks, or where stacks were kept: of each job, its ranks by their innermost call."""
    remarks = ()
    simulated: bool
    """Whether the node is a demo, whose processes nobody runs."""
    seconds: float | None
    jobs: tuple[JobEntry, ...]
    ras: RasAsked
    traffic: CarriedTraffic | None
    flight_recorder: FlightRecorderRead
    report: JobsReport
    snapshot: NodeSnapshot | None = None
    """None where only dumps and saved answers of RAS were read."""
    coded: bool = False
    """Whether the exit code tells the worst verdict."""

    @property
    def exit_code(self) -> int:
        """Answered; where it was asked for, the code of the worst verdict, of no job too."""
        if not self.coded:
            return ANSWERED
        verdicts = [job.verdict for job in self.report.jobs] or [JobVerdict.UNKNOWN]
        return min(verdicts, key=lambda verdict: verdict.order).exit_code


def answer(request: JobsRequest) -> JobsAnswer:
    """Ask this machine, a demo or files where its jobs stand."""
    check_sources(request.sources, request.demo)
    if request.sources:
        return _of_files(request.sources, coded=request.coded)
    here = request.snapshot()
    if request.demo:
        report = simulated(here, request.demo)
        return answer_of(report, here, simulated=True, coded=request.coded)
    report = _live(request, here)
    if request.inspector:
        report = _with_records(report, request.inspector)
    found = answer_of(report, here, coded=request.coded)
    if request.stacks:
        found = msgspec.structs.replace(found, stacks=stacks_of(found.report))
    return found


def _live(request: JobsRequest, here: NodeSnapshot, memory: Memory | None = None) -> JobsReport:
    return ask_live(
        here,
        ras=not request.no_ras,
        wait=request.wait,
        pause=request.over,
        memory=memory,
        inspector=request.inspector,
    )


def _with_records(report: JobsReport, folder: str) -> JobsReport:
    """The same with what records of other jobs in a folder say that was asked for.

    Raises Exit where it cannot be listed, or has none.
    """
    try:
        found = material_in([folder])
    except OSError as error:
        raise Exit(f"{folder}: {error.strerror or error}", USAGE) from error
    if not os.path.isdir(folder):
        raise Exit(f"--inspector {folder}: no such folder", USAGE)
    here = {rank.pid for job in report.jobs for rank in job.ranks}
    other = tuple(one for one in found.records.operations if one.pid not in here)
    if not found.records.operations:
        why = "".join(f"; {name}: {why}" for name, why in found.refused[:1])
        raise Exit(f"--inspector {folder}: no records of NCCL's Inspector in it{why}", CANNOT_TELL)
    alone = states_of(msgspec.structs.replace(found.records, operations=other), time.time())
    return msgspec.structs.replace(report, jobs=(*report.jobs, *alone))


def carry_out(request: JobsRequest) -> int:
    """Answer once, or watch; gives the exit code."""
    if not request.watch:
        return ONCE.ask(request)

    def look(memory: Memory) -> JobsReport:
        return _live(request, read_snapshot((), None), memory)

    return watch(look, until_hang=request.coded)


def _of_files(sources: tuple[str, ...], *, coded: bool) -> JobsAnswer:
    """What files say: dumps, saved answers of RAS, and a node."""
    found = material_in(sources)
    if not (found.others or found.told):
        if len(found.refused) == 1:
            raise Exit(": ".join(found.refused[0]), CANNOT_TELL)
        _warn_of(found)
        # A dump that is cut off is a file that cannot be used, not a wrong path.
        code = CANNOT_TELL if found.refused else USAGE
        raise Exit(f"{', '.join(sources)}: {NOTHING_SAVED}{below(sources)}", code)
    return of_material(found, sources, coded=coded)


def _warn_of(found: JobMaterial) -> None:
    for path, why in found.refused:
        warn(f"{path}: {why}")


def of_material(found: JobMaterial, sources: Sequence[str], *, coded: bool = False) -> JobsAnswer:
    """The answer of what was read in `sources`; what of it was not is named on stderr."""
    _warn_of(found)
    try:
        snapshot = read_snapshot(found.others, None) if found.others else None
    except Exit as error:
        if not found.told:
            raise
        snapshot = None
        if not set(found.others).isdisjoint(sources):  # not of files that only lie beside
            warn(str(error))
    report = found.report(snapshot)
    said = answer_of(report, snapshot, coded=coded)
    if not found.stacks:
        return said
    return msgspec.structs.replace(said, stacks=found.stacks_of(report))


def of_node(snapshot: NodeSnapshot) -> JobsAnswer:
    """What the snapshot alone says of jobs, with no dump beside it."""
    return answer_of(of_files(snapshot, FoundDumps()), snapshot)


def answer_of(
    report: JobsReport,
    snapshot: NodeSnapshot | None = None,
    *,
    simulated: bool = False,
    coded: bool = False,
) -> JobsAnswer:
    """The answer that a report on jobs gives; `snapshot` is None where no node was read."""
    return JobsAnswer(
        source=_read_from(report) if snapshot is None else tuple(snapshot.source),
        assumptions=() if snapshot is None else tuple(snapshot.assumptions),
        simulated=simulated,
        seconds=report.seconds,
        jobs=tuple(map(job_entry, report.jobs)),
        ras=ras_entry(report),
        traffic=report.traffic,
        flight_recorder=dumps_entry(report),
        report=report,
        snapshot=snapshot,
        coded=coded,
    )


def page(answer: JobsAnswer) -> Page:
    """All jobs; the sentence of each comes first."""
    return Page(title="jobs", blocks=tuple(_blocks(answer)))


def _blocks(answer: JobsAnswer) -> Iterator[Block]:
    report, snapshot = answer.report, answer.snapshot
    if answer.simulated:
        yield Text(f"{SIMULATED}: a demo; no process of it runs here")
    if not report.jobs:
        yield Text(f"? {nothing(snapshot)}")
        for reply in report.ras:
            if reply.trouble is not None and not reply.nobody:
                yield Text(f"RAS: {clean(reply.trouble, 400)}", indent=2)
    for at, job in enumerate(report.jobs):
        if at:
            yield Blank()
        yield sentence_block(job)
        yield from _table(job, snapshot)
        yield from fact_blocks(job)
        if answer.stacks is not msgspec.UNSET:
            yield from stack_blocks(answer.stacks[at])


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
        yield Text(f"{sign} {clean(finding.title, 600)} [{source_of(finding)}]", indent=2)
    for unknown in job.unknown:
        yield Text(f"? {clean(unknown, 600)}", indent=2, role=Role.MUTED)
    if job.steps:
        yield Text(NEXT, indent=2)
        yield Commands(tuple(clean(step, 200) for step in job.steps), indent=4)


def _table(job: JobState, snapshot: NodeSnapshot | None) -> Iterator[Block]:
    ranks = _most_telling(job.ranks)
    held = memory_held(job)
    rows = [_cells(rank, snapshot, held.get(rank.pid)) for rank in ranks]
    known = [at for at in range(len(COLUMNS)) if any(row[at] not in ("", UNKNOWN) for row in rows)]
    if known:
        yield Table(
            tuple(COLUMNS[at] for at in known),
            tuple(tuple(row[at] for at in known) for row in rows),
        )
    left = len(job.ranks) - len(ranks)
    if left:
        yield Text(f"and {plural(left, 'more rank')}; --json has all", indent=2)


def _most_telling(ranks: Sequence[RankState]) -> Sequence[RankState]:
    """The ranks that are shown, in their order."""
    if len(ranks) <= MOST_RANKS:
        return ranks
    order = sorted(range(len(ranks)), key=lambda at: (ranks[at].trouble is None, at))
    return [ranks[at] for at in sorted(order[:MOST_RANKS])]


def _cells(
    rank: RankState, snapshot: NodeSnapshot | None, gpu_memory: int | None
) -> tuple[str, ...]:
    activity = rank.activity
    named = snapshot is not None and rank.gpus
    state, core, memory = UNKNOWN, UNKNOWN, UNKNOWN
    if activity is not None:
        state = activity.stayed or activity.states[1] or UNKNOWN
        memory = size(activity.memory_bytes)
        core = percent(None if activity.cores is None else 100 * activity.cores)
    return (
        whole(rank.rank),
        whole(rank.pid),
        gpu_names(rank.gpus, snapshot.machine) if snapshot is not None and named else UNKNOWN,
        percent(rank.busy_percent),
        state,
        core,
        size(gpu_memory),
        clean(UNKNOWN if rank.last is None else rank.last.name, 40),
        memory,
        clean("" if rank.trouble is None else rank.trouble.text, 60),
    )


def _read_from(report: JobsReport) -> tuple[str, ...]:
    """What was read where no node was: dumps, saved answers of RAS or both."""
    alone = [job.name for job in report.jobs if job.job is None]
    saved = any(name.startswith(SAVED) for name in alone)
    by_inspector = any(name.startswith(INSPECTOR) for name in alone)
    by_dumps = report.dumps.dumps or not (saved or by_inspector)
    return ("flight recorder",) * bool(by_dumps) + ("RAS",) * saved + (INSPECTOR,) * by_inspector


ONCE = Question(
    name="jobs",
    request=JobsRequest,
    answer=answer,
    page=page,
    width=lambda: text_width(WIDEST),
)
QUESTION = msgspec.structs.replace(ONCE, carry_out=carry_out)
