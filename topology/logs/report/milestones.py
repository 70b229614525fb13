"""How far a run came, by lines of programs: what stands behind a warning tells if it was survived.

The library's own lines tell when a rank is ready; programs tell the rest.
"""

from __future__ import annotations

import msgspec

from ...model.severity import Word


class Milestone(Word):
    """What a line of a program says of its run.

    rows: a benchmark printed results; moving: training steps, requests that were answered;
    serving: a server is up; finished: the program says that it came to its end; ended: a trace, a
    signal, a code other than 0.
    """

    ROWS = "rows"
    MOVING = "moving"
    SERVING = "serving"
    FINISHED = "finished"
    ENDED = "ended"


PROGRESS = (Milestone.ROWS, Milestone.MOVING, Milestone.SERVING, Milestone.FINISHED)
"""Those that no run reaches whose start failed."""


class Reached(msgspec.Struct, frozen=True):
    """The lines that show one milestone: the first ones and the last of a long log."""

    what: Milestone
    lines: tuple[int, ...]
    """Their numbers, rising; of many some, always the first and the last."""
    first: str
    last: str
    """The first and the last of these lines as they read."""


def within(reached: tuple[Reached, ...], what: tuple[Milestone, ...], after: int, end: int) -> bool:
    """Whether one of these milestones is shown behind one line and before another."""
    return any(after < line < end for one in reached if one.what in what for line in one.lines)


def next_end(reached: tuple[Reached, ...], after: int) -> int:
    """The first line behind this one that shows a bad end; beyond every line where none does."""
    lines = (line for one in reached if one.what is Milestone.ENDED for line in one.lines)
    return min((line for line in lines if line > after), default=1 << 62)
