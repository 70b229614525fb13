"""What became of the run that a log shows: one state and one sentence."""

from __future__ import annotations

import re

import msgspec

from ...model.english import plural
from ...model.severity import RunState
from .communicator import ABORTED, DESTROYED, STARTED, Communicator
from .milestones import PROGRESS, Milestone, Reached, within
from .report import WARN, LogNote, LogReport


class RunOutcome(msgspec.Struct, frozen=True):
    """The state of a run with the sentence that says it; "" where the text shows no run."""

    state: RunState
    sentence: str = ""
    line: int | None = None
    """The line that shows it."""


NONE = RunOutcome(RunState.UNKNOWN)
_WENT_ON = {
    Milestone.ROWS: "it prints rows of figures",
    Milestone.MOVING: "it makes steps",
    Milestone.SERVING: "the server is up",
}


_TIME_OVER = re.compile(r"CANCELLED AT \S+ DUE TO TIME LIMIT")
_BEFORE_IT = {
    Milestone.ROWS: "it had printed rows of figures",
    Milestone.MOVING: "it had made steps",
    Milestone.SERVING: "the server was up",
    Milestone.FINISHED: "it had come to its end",
}


def time_over(log: LogReport, note: LogNote) -> bool:
    """Whether a line says that the job's time was over, and no end of it stands behind.

    What else stands behind it was printed before: a program's output waits in its buffers, Slurm's
    own words do not.
    """
    said = _TIME_OVER.search(note.text) is not None
    return said and not within(log.milestones, (Milestone.FINISHED,), note.line, 1 << 62)


def outcome_of(log: LogReport) -> RunOutcome:
    """Say what became of the run."""
    reached = {one.what: one for one in log.milestones}
    over = next((note for note in log.notes if time_over(log, note)), None)
    if over is not None:
        had = next((_BEFORE_IT[what] for what in PROGRESS if what in reached), "")
        when = f" after {had}" if had else ""
        said = f"the scheduler ended the job, whose time was over{when}"
        return RunOutcome(RunState.FAILED, said, over.line)
    ended, done = reached.get(Milestone.ENDED), reached.get(Milestone.FINISHED)
    went_on = [reached[what] for what in PROGRESS if what in reached]
    latest = max(went_on, key=lambda one: one.lines[-1], default=None)
    if ended is not None and (latest is None or ended.lines[-1] > latest.lines[-1]):
        return _ended(log, ended, latest)
    if done is not None:
        return RunOutcome(
            RunState.FINISHED, f"the run came to its end{_ranks(log)}", done.lines[-1]
        )
    if latest is not None and (line := _timed_out(log, latest.lines[-1])) is not None:
        said = f"{_BEFORE_IT[latest.what]}{_ranks(log)} before a collective timed out"
        return RunOutcome(RunState.UNKNOWN, said, line)
    if latest is not None:
        state = f"{_WENT_ON[latest.what]}{_ranks(log)} up to the end of this text"
        return RunOutcome(RunState.RUNS, state, latest.lines[-1])
    return _of_communicator(log)


def _timed_out(log: LogReport, since: int) -> int | None:
    """The first line from this one on that tells of a collective's time-out; None without one.

    A progress bar ends in no newline, so the time-out may stand behind it in its own line.
    """
    lines = (one.line for one in log.progress if one.work is not None and one.line >= since)
    return min(lines, default=None)


def _ended(log: LogReport, ended: Reached, latest: Reached | None) -> RunOutcome:
    line = min(one for one in ended.lines if latest is None or one > latest.lines[-1])
    when = f"after {_BEFORE_IT[latest.what]}" if latest is not None else _phase(log, line)
    return RunOutcome(RunState.FAILED, f"a process ended badly {when}".rstrip(), line)


def _phase(log: LogReport, line: int) -> str:
    """How far the communicators were at a line."""
    comm = log.main
    if comm is None or not comm.ranks:
        return ""
    ready = sum(1 for rank in comm.ranks if rank.ready is not None and rank.ready < line)
    if ready == len(comm.ranks):
        return f"after {_all(comm)} ready"
    return f"while communicators were set up: {ready} of {comm.nranks} ranks were ready"


def _all(comm: Communicator) -> str:
    return "its one rank was" if comm.nranks == 1 else f"all {comm.nranks} ranks were"


def _ranks(log: LogReport) -> str:
    comm = log.main
    if comm is None or comm.size_seen_only:
        return ""
    return f", {plural(comm.nranks, 'rank')}"


def _of_communicator(log: LogReport) -> RunOutcome:
    """The state by the library's own lines, where programs say nothing of it."""
    comm = log.main
    if comm is None or not comm.ranks or comm.size_seen_only:
        return NONE
    states = [rank.state for rank in comm.ranks]
    line = max(filter(None, (rank.ready or rank.line for rank in comm.ranks)), default=None)
    if ABORTED in states:
        return RunOutcome(RunState.ABORTED, f"a communicator was aborted{_ranks(log)}", line)
    if all(state is DESTROYED for state in states) and len(states) == comm.nranks:
        return RunOutcome(RunState.FINISHED, f"the run came to its end{_ranks(log)}", line)
    if STARTED in states:
        late = [rank.rank for rank in comm.ranks if rank.state is STARTED]
        ready = len(states) - len(late)
        return RunOutcome(
            RunState.STARTING,
            f"{ready} of {plural(comm.nranks, 'rank')} became ready in this text",
            line,
        )
    if len(states) < comm.nranks:
        return NONE
    behind = "and warnings follow" if _warned(log, line) else "and nothing of a run follows"
    return RunOutcome(RunState.SILENT, f"{_all(comm)} ready, {behind}", line)


def _warned(log: LogReport, line: int | None) -> bool:
    return any(note.level is WARN and note.line > (line or 0) for note in log.notes)
