"""Which warnings a run survived: what is behind them disproves that they stopped it."""

from __future__ import annotations

import re

from ...logs.report.communicator import DESTROYED, STARTED, RankSeen
from ...logs.report.milestones import PROGRESS, next_end, within
from ...logs.report.outcome import time_over
from ...logs.report.report import LogNote, LogReport

OF_RAS = "NCCL's RAS thread complains; it moves no data, and a run goes on without it"
WATCHES = "The thread answers `ncclras` and listens to the other ranks. A job does not need it."
FAR = 1 << 62
"""Beyond every line."""
_WATCHDOG = re.compile(r"[Ww]atchdog|collective operation timeout|Heartbeat monitor")
"""It gives up on a collective that is not of the start; another rank's bar may move behind it."""


def survived(log: LogReport, note: LogNote) -> bool:
    """Whether what a line complains of did not stop the run: it went on behind it.

    A line of a start is survived where the ranks of its host are ready behind it, any line where
    rows, steps or answers follow, or all ranks leave the communicator in order, and no bad end
    does. A start that is tried again behind an end disproves nothing.
    """
    if time_over(log, note):
        return False
    end = next_end(log.milestones, note.line)
    if _starting(log, note) and not (end != FAR and _WATCHDOG.search(note.text)):
        return _ready(log, note, end) or within(log.milestones, PROGRESS, note.line, end)
    if end != FAR:
        return False
    return within(log.milestones, PROGRESS, note.line, FAR) or _left_in_order(log, note)


def of_ras(note: LogNote) -> bool:
    """Whether NCCL's RAS thread says it, which moves no data: a job runs on without it."""
    where = note.where or ""
    return where.startswith(("ras/", "src/ras/")) or note.text.startswith("RAS ")


def _ranks_of(log: LogReport, note: LogNote) -> list[list[RankSeen]]:
    """The ranks of each communicator that may have printed a line."""
    return [
        [rank for rank in comm.ranks if not note.hosts or rank.host in note.hosts]
        for comm in log.communicators
    ]


def _starting(log: LogReport, note: LogNote) -> bool:
    """Whether no rank that may have printed the line was ready before it."""
    ready = (
        rank.ready for ranks in _ranks_of(log, note) for rank in ranks if rank.ready is not None
    )
    began = within(log.milestones, PROGRESS, 0, note.line)
    return not began and all(line > note.line for line in ready)


def _left_in_order(log: LogReport, note: LogNote) -> bool:
    """Whether all ranks of a communicator that may have printed the line destroyed it later."""
    return any(
        len(comm.ranks) == comm.nranks
        and any(not note.hosts or rank.host in note.hosts for rank in comm.ranks)
        and all(rank.state is DESTROYED and (rank.left or 0) > note.line for rank in comm.ranks)
        for comm in log.communicators
    )


def _ready(log: LogReport, note: LogNote, end: int) -> bool:
    """Whether all ranks of a communicator that may have printed the line became ready behind it."""
    return any(
        ranks
        and all(
            rank.state is not STARTED and rank.ready is not None and note.line < rank.ready < end
            for rank in ranks
        )
        for ranks in _ranks_of(log, note)
    )
