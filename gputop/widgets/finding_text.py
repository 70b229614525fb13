"""Verdict, number of findings and events as lines on a board."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gputop.printing.verdicts import OF_NODE, checks_done, counted
from gputop.terminal.clean import clean
from gputop.widgets.spans import Line, Span, width_of, wrapped

if TYPE_CHECKING:
    from gputop.live.findings import Shown
    from gputop.topology.diagnosis.events import Event


def verdict_lines(shown: Shown | None, width: int) -> tuple[Line, ...]:
    """The verdict, how many findings of each kind and how many rules were asked: what fits.

    A job that hangs makes no node unfit: the two are counted apart, the worse one first.
    """
    if shown is None:
        return (((" asking the rules…", "muted"),),)
    node, jobs = shown.of_node, shown.of_jobs
    many = counted(node.findings) or "no finding"
    parts = [(node.verdict, f"{OF_NODE} {node.verdict}" if jobs.findings else node.verdict, many)]
    if jobs.findings:
        word = "job" if len(jobs.findings) == 1 else "jobs"
        parts.append((jobs.verdict, word, counted(jobs.findings)))
    parts.sort(key=lambda part: part[0].order)
    spans: list[Span] = []
    for verdict, word, told in parts:
        sign, ink, _ = verdict.shown
        spans += [(f"{' ·' * bool(spans)} {sign} {word}", f"{ink} bold"), (f": {told}", "")]
    rest = (
        (f", {len(shown.silenced)} silenced" if shown.silenced else "", "warn"),
        (f" · {checks_done(shown.diagnosis)}", "muted"),
    )
    for span in rest:
        if width_of((*spans, span)) > width:
            break
        spans.append(span)
    return (tuple(spans),)


def event_lines(events: tuple[Event, ...], width: int) -> tuple[Line, ...]:
    """One line each, the newest first: when, and what."""
    lines: list[Line] = []
    for event in events:
        sign, ink, _ = event.harm.shown
        lines += wrapped(
            (
                (f" {clock(event.last_at)} ", "muted"),
                (f"{sign} ", ink),
                (clean(event.text, 300), ""),
                (_since(event), "muted"),
            ),
            width,
            10,
        )
    return tuple(lines)


def _since(event: Event) -> str:
    if event.first_at == event.last_at:
        return ""
    return f" (first {clock(event.first_at)})"


def clock(at: float) -> str:
    """The time of day here, "14:03:22"."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return "–"
