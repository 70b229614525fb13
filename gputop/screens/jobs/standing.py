"""What the jobs said of themselves, as cells, lines and commands of the screen Jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from gputop.answers.jobs import fact_blocks, sentence_block
from gputop.live.worst_jobs import wrong
from gputop.printing.render import render
from gputop.terminal.clean import clean
from gputop.topology.jobs.standing import JobState, RankState, TroubleKind
from gputop.topology.model.page import Blank, Block, Heading, Role, Text
from gputop.topology.model.severity import JobVerdict
from gputop.topology.model.units import UNKNOWN, percent, seconds, whole
from gputop.widgets.spans import Line, width_of

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.screens.jobs.list import JobRow
    from gputop.topology.jobs.asking import JobsReport
    from gputop.topology.jobs.grouping import Job

NUMBERED = re.compile(r"(.+) (\d+)")
"""The name of a collective and the number of it: "all-reduce 1042"."""
BAR = 12
"""Cells of a rank's progress."""
ENDS = "kill -TERM {}"


class SaidOfRank(NamedTuple):
    """One rank, as its job's answer has it."""

    job: JobState
    rank: RankState

    @property
    def last(self) -> tuple[str, int] | None:
        """The collective that it launched last: its name and number."""
        found = None if self.rank.last is None else NUMBERED.fullmatch(self.rank.last.name)
        return None if found is None else (found[1], int(found[2]))

    @property
    def behind(self) -> int:
        """By how many collectives it is behind those that wait for it; 0 for none, by proof alone.

        Ranks of other communicators count otherwise: only where the answer blames the rank.
        """
        own = self.last
        if own is None or self.rank.kind in (None, TroubleKind.LEFT, TroubleKind.FOLLOWS):
            return 0
        fine = [SaidOfRank(self.job, rank) for rank in self.job.ranks if rank.trouble is None]
        others = [one.last[1] for one in fine if one.last is not None and one.last[0] == own[0]]
        return max(max(others, default=0) - own[1], 0)

    @property
    def waits(self) -> str:
        """For how long it waits for another rank, or for what share of the time, where known."""
        if self.job.verdict is JobVerdict.SLOW and self.rank.waiting is not None:
            return percent(100 * self.rank.waiting)
        waits = self.job.verdict in (JobVerdict.HANGS, JobVerdict.WAITS)
        quiet = self.job.quiet_seconds
        return UNKNOWN if not waits or not quiet or self.rank.trouble else short(seconds(quiet))

    @property
    def core(self) -> str:
        """The CPU time that it took, of one core."""
        activity = self.rank.activity
        cores = None if activity is None else activity.cores
        return percent(None if cores is None else 100 * cores)


def short(duration: str) -> str:
    """Keep the larger unit alone: "3 d" of "3 d 4 h"."""
    return " ".join(duration.split()[:2])


def said_of(answer: JobsReport | None) -> dict[int, SaidOfRank]:
    """Process id -> what was said of it."""
    return {
        rank.pid: SaidOfRank(job, rank)
        for job in (answer.jobs if answer else ())
        for rank in job.ranks
        if rank.pid is not None
    }


def signs_of(
    answer: JobsReport | None, found: Sequence[Job], shown: Shown | None
) -> dict[int, tuple[str, str]]:
    """Process id -> sign and ink: of what is wrong with the rank, else of a finding on its GPUs."""
    signs: dict[int, tuple[str, str]] = {}
    for user in (user for job in found for user in job.processes):
        mark = None if shown is None else shown.mark(*user.gpus, jobs=True)
        if mark is not None:
            signs[user.pid] = mark
    for job in wrong(answer):
        for rank in job.accused:
            if rank.pid is not None:
                signs[rank.pid] = job.verdict.sign, job.verdict.ink
    return signs


def standing_of(answer: JobsReport | None, pids: Sequence[int]) -> JobState | None:
    """What was said about the job of these processes."""
    wanted = set(pids)
    return next(
        (
            job
            for job in (answer.jobs if answer else ())
            if wanted & {rank.pid for rank in job.ranks if rank.pid is not None}
        ),
        None,
    )


def standing_lines(
    job: JobState, pid: int | None, width: int, mark: str, said: str = ""
) -> Iterator[Line]:
    """The sentence with its facts and next steps; of one process, what is said of it alone.

    `said`: what the first lines of the screen say of this job already, in these words or with rank
    and price first; "" where they say nothing of it.
    """
    if pid is not None:
        rank = next((rank for rank in job.ranks if rank.pid == pid), None)
        blocks = [] if rank is None else list(_rank_blocks(rank))
    elif said:
        findings = tuple(one for one in job.findings if one.title not in said)
        blocks = list(fact_blocks(replace(job, findings=findings)))
    else:
        blocks = [sentence_block(job), *fact_blocks(job)]
    if blocks:
        yield from render((Heading(f"Where it stands{mark}"), *blocks, Blank()), width)


def _rank_blocks(rank: RankState) -> Iterator[Block]:
    if rank.trouble is not None:
        text = f"{clean(rank.trouble.text, 300)} [{rank.trouble.source}]"
        yield Text(text, indent=1, hanging=0, role=Role.BAD)
    if rank.last is not None:
        text = f"last collective: {clean(rank.last.name, 60)} [{rank.last.source}]"
        yield Text(text, indent=1, hanging=0)


def progress_lines(job: JobState, width: int) -> tuple[Line, ...]:
    """How far each rank is; () where fewer than two are counted alike.

    A full bar is the furthest rank, a cell less stands for a collective, or for as many as the
    title says where ranks are far apart.
    """
    found = [SaidOfRank(job, rank) for rank in job.ranks]
    counted = [(one, one.last[1]) for one in found if one.last is not None]
    names = {one.last[0] for one, _ in counted if one.last is not None}
    if len(counted) < 2 or len(names) > 1:
        return ()
    numbers = [number for _, number in counted]
    top, each = max(numbers), max((max(numbers) - min(numbers)) // (BAR - 2), 1)
    cells: list[Line] = []
    for one, number in counted:
        gap = -((number - top) // each)
        ink = job.verdict.ink if one.behind else "bar"
        text = f"{BAR * '█'}"[gap:].ljust(BAR)
        late = " ◄ behind" if one.behind else ""
        cells.append(
            (
                (f"{whole(one.rank.rank):>4} ", ""),
                (text, ink),
                (f" {number:,}", ""),
                (late, f"{ink} bold"),
            )
        )
    step = f"{each:,}" if each == 1 else f"up to {each:,}"
    title = f"{next(iter(names))} launched: a full bar is {top:,}, a cell less {step} behind"
    return (((clean(title, width), "key bold"),), *_across(cells, width), ())


def composition_lines(job: JobState, width: int) -> tuple[Line, ...]:
    """What the time of each rank's GPU is made of; () where it is not known of all of them.

    A bar is all of the time.
    """
    loads = [rank.load for rank in job.ranks]
    known = [load for load in loads if load is not None]
    if len(known) < max(len(loads), 1):
        return ()
    title: Line = (
        ("A bar is all time: ", "key bold"),
        ("█ computing (%)", "bar"),
        (", ", "muted"),
        ("▒ transferring or waiting", "warn"),
        (", · without work", "muted"),
    )
    cells: list[Line] = []
    for rank, load in zip(job.ranks, known, strict=True):
        wide = 2 * BAR
        work = round(wide * load.computing)
        busy = max(round(wide * load.busy), work)
        cells.append(
            (
                (f"{whole(rank.rank):>4} ", ""),
                ("█" * work, "bar"),
                ("▒" * (busy - work), "warn"),
                ("·" * (wide - busy), "muted"),
                (f" {percent(100 * load.computing)}", ""),
            )
        )
    return (title, *_across(cells, width), ())


def _across(cells: Sequence[Line], width: int) -> Iterator[Line]:
    """Cells side by side, four at most."""
    wide = max(map(width_of, cells), default=0) + 2
    across = max(min(width // wide, 4), 1)
    for at in range(0, len(cells), across):
        line: Line = ()
        for cell in cells[at : at + across]:
            line = (*line, *cell, (" " * (wide - width_of(cell)), ""))
        yield line


def steps_for(row: JobRow, answer: JobsReport | None, text: str) -> tuple[str, ...]:
    """What `y` copies: the next steps, then the line that ends the process; () for none.

    `text`: what is known of a process that no step is about.
    """
    pids = [user.pid for user in row.job.processes] if row.user is None else [row.user.pid]
    job = standing_of(answer, pids)
    if row.user is None:
        blamed = [] if job is None else [rank.pid for rank in job.accused if rank.pid in pids]
        steps = () if job is None else job.steps[:1]
        return (*steps, *map(ENDS.format, blamed[:1]))
    word = re.compile(rf"\b{row.user.pid}\b")
    steps = () if job is None else tuple(filter(word.search, job.steps))
    return (*(steps or (text,)), ENDS.format(row.user.pid))
