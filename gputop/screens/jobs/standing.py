"""What the jobs say of themselves: asked when the screen opens and on a key, never on a tick."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from gputop.answers.jobs import fact_blocks, sentence_block
from gputop.live.findings import Shown
from gputop.live.past import past_of
from gputop.live.recent import Recent
from gputop.printing.render import render
from gputop.simulating.jobs import simulated
from gputop.terminal.clean import clean
from gputop.topology.jobs.asking import JobsAnswer, ask_live
from gputop.topology.jobs.grouping import Job
from gputop.topology.jobs.silence import STOPPED_SECONDS
from gputop.topology.jobs.standing import JobState, RankState, TroubleKind
from gputop.topology.model.page import SIMULATED, Blank, Block, Heading, Role, Text
from gputop.topology.model.severity import JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.demos.demo import names
from gputop.widgets.spans import Line

DEMO = "demo "
WRONG = (JobVerdict.HANGS, JobVerdict.FAULTY, JobVerdict.WAITS)
"""The verdicts that stand above the list, the worst first."""


def is_live(snapshot: NodeSnapshot) -> bool:
    """Whether the jobs are those of this machine, which may be asked."""
    return snapshot.source == ("live",)


def of_demo(snapshot: NodeSnapshot) -> JobsAnswer | None:
    """The simulated answer of a demo; None for anything else."""
    source = snapshot.source[0] if len(snapshot.source) == 1 else ""
    name = source.removeprefix(DEMO)
    return simulated(snapshot, name) if source.startswith(DEMO) and name in names() else None


def asking(
    snapshot: NodeSnapshot, before: JobsAnswer | None, recent: Recent
) -> Callable[[], JobsAnswer]:
    """What asks the jobs of this machine, which takes up to some seconds: for a thread alone.

    `before`: what they said last, so that standing still since then is known; `recent`: what the
    GPUs carried lately, which is read at once. Nothing is said of it before the readings go back
    far enough to call a GPU silent: a rate needs two, so at first none has any.
    """
    memory = None if before is None else before.memory
    past = past_of(recent) if recent.watched_seconds >= STOPPED_SECONDS else None
    return partial(ask_live, snapshot, ras=True, memory=memory, past=past)


def described(snapshot: NodeSnapshot) -> frozenset[int]:
    """The processes on the GPUs that the operating system describes, by number."""
    return frozenset(process.pid for process in snapshot.readings.processes)


def headline(answer: JobsAnswer | None, snapshot: NodeSnapshot) -> Line | None:
    """The sentence about the job that is worst off; None where none hangs, waits or is faulty."""
    found = [job for job in (answer.jobs if answer else ()) if job.verdict in WRONG]
    if not found:
        return None
    worst = min(found, key=lambda job: job.verdict.order)
    sign, ink, _ = worst.verdict.shown
    more = f" · {len(found) - 1} more" if len(found) > 1 else ""
    mark = "" if is_live(snapshot) else f" · {SIMULATED}"
    text = f"{sign} {clean(worst.sentence, 1000)}"
    return ((text, f"{ink} bold"), (f"{more}{mark}", "muted"))


def signs_of(
    answer: JobsAnswer | None, found: Sequence[Job], shown: Shown | None
) -> dict[int, tuple[str, str]]:
    """Process id -> sign and ink: of what is wrong with the rank, else of a finding on its GPUs."""
    signs: dict[int, tuple[str, str]] = {}
    for user in (user for job in found for user in job.processes):
        mark = None if shown is None else shown.mark(*user.gpus)
        if mark is not None:
            signs[user.pid] = mark
    for job in answer.jobs if answer else ():
        for rank in job.ranks:
            odd = rank.kind not in (None, TroubleKind.LEFT)
            if rank.pid is not None and odd and job.verdict in WRONG:
                signs[rank.pid] = job.verdict.sign, job.verdict.ink
    return signs


def standing_of(answer: JobsAnswer | None, pids: Sequence[int]) -> JobState | None:
    """What was said about the job of these processes."""
    mine = set(pids)
    return next(
        (
            job
            for job in (answer.jobs if answer else ())
            if mine & {rank.pid for rank in job.ranks if rank.pid is not None}
        ),
        None,
    )


def standing_lines(job: JobState, pid: int | None, width: int, mark: str) -> Iterator[Line]:
    """The sentence with its facts and next steps; of one process, what is said of it alone."""
    blocks: list[Block] = [sentence_block(job), *fact_blocks(job)]
    if pid is not None:
        rank = next((rank for rank in job.ranks if rank.pid == pid), None)
        blocks = [] if rank is None else list(_rank_blocks(rank))
    if blocks:
        yield from render((Heading(f"Where it stands{mark}"), *blocks, Blank()), width)


def _rank_blocks(rank: RankState) -> Iterator[Block]:
    if rank.trouble is not None:
        text = f"{clean(rank.trouble.text, 300)} [{rank.trouble.source}]"
        yield Text(text, indent=1, hanging=0, role=Role.BAD)
    if rank.last is not None:
        text = f"last collective: {clean(rank.last.name, 60)} [{rank.last.source}]"
        yield Text(text, indent=1, hanging=0)
