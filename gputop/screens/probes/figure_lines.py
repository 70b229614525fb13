"""Draws the figures of one probe as lines: bars with the healthy band, verdicts, causes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gputop.probes.protocol.status import Status
from gputop.screens.probes.entries import ProbeEntry
from gputop.screens.probes.groups import Group, GroupMember
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.severity import FigureVerdict, RungState
from gputop.widgets.measures import verdict_word
from gputop.widgets.meters import band_text, figure_bar, progress, verdict_of
from gputop.widgets.spans import Line, Span, left, right, wrapped

WIDE = 84
"""Width from which the band is written beside the verdict."""
_VERDICT = 15
_LEAST_BAR = 10
_SIGNS = {state.ink: state.sign for state in (RungState.YES, RungState.NO)}
"""Ink of an answer in words -> its sign."""
_LOWS = 4
"""How many low figures of a group are listed one by one."""


def about_lines(entry: ProbeEntry, width: int) -> tuple[Line, ...]:
    """What a probe measures and its cost."""
    said = clean(entry.measures or "a probe that this version of gputop does not know", 600)
    cost = [] if entry.seconds is None else [f"about {units.seconds(entry.seconds)}"]
    if entry.memory_bytes:
        cost.append(f"{units.size(entry.memory_bytes)} on each GPU")
    if entry.minimum_gpus:
        cost.append(f"{entry.minimum_gpus} GPU{'s' * (entry.minimum_gpus > 1)} or more")
    if entry.method:
        cost.append(f"method {clean(entry.method, 40)}")
    lines = wrapped(((f" {said}", ""),), width, 1)
    return (*lines, *wrapped(((f" {' · '.join(cost)}", "muted"),), width, 1)) if cost else lines


def entry_lines(
    entry: ProbeEntry, four_numbers: Iterable[str], patterns: Mapping[str, str], width: int
) -> tuple[Line, ...]:
    """Progress or end, figures and notes of a probe; () before its first run."""
    return (
        *standing_lines(entry, width),
        *figure_lines(entry, four_numbers, patterns, width),
        *note_lines(entry, width),
    )


def standing_lines(entry: ProbeEntry, width: int) -> tuple[Line, ...]:
    """The progress of a running probe, or how and why it ended."""
    run = entry.run
    if run is not None and run.status == Status.RUNNING:
        of = f"{run.done}/{run.total} " if run.total else "starting "
        room = max(min(width - 40, 30), 8)
        bar = progress(run.done, run.total, room)
        what = left(entry.what, max(width - room - len(of) - 5, 0)).rstrip()
        return (((" ▶ ", "good"), (of, "strong"), *bar, (f"  {what}", "muted")),)
    if run is None or run.status == Status.WAITING or not entry.text:
        return ()
    sign, ink = entry.mark
    if run.status == Status.FINISHED:
        return wrapped(((f" {sign} ", ink), (entry.text, "muted")), width, 3)
    word = run.status.replace("-", " ")
    head: Line = ((f" {sign} {word}: ", ink), (entry.text, ""))
    return wrapped(head, width, 3)


def figure_lines(
    entry: ProbeEntry, four_numbers: Iterable[str], patterns: Mapping[str, str], width: int
) -> tuple[Line, ...]:
    """Bars of all figures, low figures or their pattern, causes, and the four numbers.

    `patterns`: quantity -> a sentence on its matrix.
    """
    if not entry.groups:
        return ()
    lines: list[Line] = []
    columns = _columns(entry.groups, width)
    for group in entry.groups:
        lines += _group(group, columns, listed=not patterns)
        pattern = patterns.get(group.quantity.key)
        if pattern:
            lines += wrapped((("   ! ", "bad"), (clean(pattern, 400), "")), width, 5)
    causes = [
        clean(member.judgement.cause, 300)
        for group in entry.groups
        for member in group.members
        if member.judgement is not None and member.judgement.cause
    ]
    if causes:
        lines.append(())
    # One cause of two figures still differs in the share that is left of each.
    distinct = {cause.partition(":")[0]: cause for cause in reversed(causes)}
    for cause in list(reversed(distinct.values()))[:4]:
        lines += wrapped(((" Cause: ", "warn bold"), (cause, "")), width, 3)
    for number, line in enumerate(four_numbers):
        lines += [] if number else [()]
        lines += _four_numbers(line, width)
    return tuple(lines)


def note_lines(entry: ProbeEntry, width: int) -> tuple[Line, ...]:
    """The notes of the probe."""
    lines: list[Line] = [()] if entry.notes and entry.groups else []
    for note in entry.notes:
        lines += wrapped(((" Note: ", "strong"), (note, "")), width, 3)
    return tuple(lines)


def _four_numbers(line: str, width: int) -> tuple[Line, ...]:
    """The line of the four numbers; its last part, the measured one, is bold and never wrapped."""
    before, arrow, last = clean(line, 400).rpartition(" → ")
    if len(line) + 1 <= width:
        return (((f" {before}{arrow}", ""), (last, "strong")),)
    lines = wrapped(((f" {before}", ""),), width, 3)
    return (*lines, ((f"  {arrow}", ""), (last, "strong")))


class _Columns(NamedTuple):
    """Widths of the parts of a row."""

    name: int
    bar: int
    value: int
    band: int


def _columns(groups: Iterable[Group], width: int) -> _Columns:
    """Fit the longest name and figure, but leave a readable bar."""
    groups = tuple(groups)
    wide = width >= WIDE
    band = 11 if wide else 0
    texts = [len(f"{group.range_text} {group.unit}") + 1 for group in groups if group.numbers]
    value = min(max(15, *texts, 0), 20)
    least = 27 if wide else 25
    titles = [len(group.title) + 7 for group in groups]
    name = max(min(max(titles, default=0), width - value - _VERDICT - band - _LEAST_BAR), least)
    return _Columns(name, max(width - name - value - _VERDICT - band, 6), value, band)


def _group(group: Group, columns: _Columns, *, listed: bool) -> list[Line]:
    if not group.numbers:
        return [_words(group, columns)]
    lines = [_row(group.title, group.members, group.range_text, group.unit, group.worst, columns)]
    if listed and 0 < len(group.bad) < len(group.members):
        # If all are low, one line is enough; if some are, name them.
        for member in group.bad[:_LOWS]:
            text = units.figure(member.figure.value)
            lines.append(_row(f"  {member.who}", (member,), text, group.unit, member, columns))
        if len(group.bad) > _LOWS:
            lines.append(((f"   and {len(group.bad) - _LOWS} more", "muted"),))
    return lines


def _row(
    title: str,
    members: Sequence[GroupMember],
    text: str,
    unit: str,
    worst: GroupMember,
    columns: _Columns,
) -> Line:
    """One bar: name, bar with its band, figures, verdict, and the band where there is room."""
    name = columns.name
    values = [member.figure.value for member in members if member.figure.value is not None]
    judgement = worst.judgement
    band = None if judgement is None else judgement.band
    sign, word, ink = verdict_of(judgement)
    if len(members) > 1:
        low = sum(1 for member in members if member.verdict == FigureVerdict.LOW)
        short = f"{title} ×{len(members)}"
        long = f"{short}, {low} low" if 0 < low < len(members) else short
        title = next((text for text in (long, short) if len(text) < name - 1), title)
    spans: list[Span] = [
        (left(f" {title}", name), "muted" if title.startswith("  ") else ""),
        *figure_bar(min(values), max(values), band, "bar" if ink == "muted" else ink, columns.bar),
        (right(f"{text} {unit}", columns.value), "strong"),
        (left(f" {sign} {word}", _VERDICT), ink),
    ]
    if columns.band and band is not None:
        spans.append((right(band_text(band), columns.band), "muted"))
    return tuple(spans)


def _words(group: Group, columns: _Columns) -> Line:
    """A group without numbers: each verdict with its count."""
    counts: dict[str, int] = {}
    for member in group.members:
        said = member.figure.verdict or "no figure"
        counts[said] = counts.get(said, 0) + 1
    spans: list[Span] = [(left(f" {group.title}", columns.name), "")]
    for said, count in counts.items():
        word, ink = verdict_word(said)
        sign = _SIGNS.get(ink, FigureVerdict.NO_REFERENCE.sign)
        spans.append((f"{sign} {word} ", ink))
        spans.append((f"{count} of {len(group.members)}  ", "muted"))
    return tuple(spans)
