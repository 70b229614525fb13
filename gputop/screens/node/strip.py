"""One line of the Node screen: when something happened in the last day, and the worst of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gputop.terminal.clean import clean
from gputop.topology.diagnosis.case import Case
from gputop.topology.events.timeline import timeline
from gputop.topology.model.severity import Severity
from gputop.topology.model.units import moment
from gputop.widgets.spans import EMPTY, Line, Span, cut, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gputop.topology.report import Report

HOURS = 24
CELLS = ((150, 48), (110, 24), (0, 12))
"""Cells of a terminal from which the day has so many."""
LEAST_TEXT = 30
NOW = "now"
END: Line = (("H", "key bold @question('events')"), (" events ", "muted @question('events')"))


class Happening(NamedTuple):
    """One thing that happened."""

    at: float
    """Seconds since the epoch."""
    severity: Severity
    text: str


def happened(report: Report) -> tuple[float, str, list[Happening]]:
    """The end of the last day that is known, its name, and what happened in that day.

    Events of a log, and what was seen while this ran; a line of the log is told once.
    """
    case = Case(report.node)
    marks = [
        Happening(one.at, one.severity, f"{one.where}: {one.what}" if one.where else one.what)
        for one in timeline(case).events
        if one.at is not None
    ]
    seen = [Happening(one.last_at, one.harm, one.text) for one in report.events]
    newest = max((mark.at for mark in marks), default=0.0)
    known = case.on_node or not newest
    end, name = (case.snapshot.taken_at, NOW) if known else (newest, moment(newest, "%H:%M"))
    logged = {int(mark.at) for mark in marks}
    marks += [mark for mark in seen if int(mark.at) not in logged]
    return end, name, [mark for mark in marks if 0 <= end - mark.at < HOURS * 3600]


def strip_line(report: Report, width: int) -> tuple[Line, Line]:
    """The worst of the last day in words, and at the right all of it on a line of time."""
    if not report.events and not report.snapshot.kernel_events:
        return EMPTY, EMPTY
    end, name, marks = happened(report)
    if not marks:
        return EMPTY, EMPTY
    day = _cells(end, marks, width)
    right: Line = ((f"{HOURS} h ", "muted"), *day, (f" {name}  ", "muted"), *END)
    worst = min(marks, key=lambda mark: (mark.severity.order, -mark.at))
    sign, ink, _ = worst.severity.shown
    more: Line = ((f", {len(marks) - 1} more", "muted"),) if len(marks) > 1 else ()
    said: Line = (
        (f" {sign} ", ink),
        (f"{moment(worst.at, '%H:%M')} ", "muted"),
        (clean(worst.text, 300), ink if worst.severity.counts else ""),
    )
    room = width - width_of(right) - width_of(more) - 1
    if room < LEAST_TEXT:
        right, room = EMPTY, width - width_of(more)
    return (*cut(said, room), *more), right


def _cells(end: float, marks: Sequence[Happening], width: int) -> Line:
    """Cells of equal time, half an hour to two: the sign of the worst that happened in it."""
    count = next(cells for least, cells in CELLS if width >= least)
    worst: dict[int, Severity] = {}
    for mark in marks:
        cell = count - 1 - int((end - mark.at) / (HOURS * 3600) * count)
        before = worst.get(cell, mark.severity)
        worst[cell] = min(before, mark.severity, key=lambda one: one.order)
    spans: list[Span] = []
    for cell in range(count):
        sign, ink, _ = worst[cell].shown if cell in worst else ("─", "bar-rest", "")
        if spans and spans[-1][1] == ink:
            spans[-1] = (spans[-1][0] + sign, ink)
        else:
            spans.append((sign, ink))
    return tuple(spans)
