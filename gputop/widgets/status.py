"""The texts of the bars: tabs, where the figures come from, what goes on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from gputop.probes.protocol.status import Status
from gputop.terminal.clean import clean
from gputop.topology.model.readings import pace_seconds
from gputop.topology.model.units import seconds
from gputop.topology.sources import MAKERS
from gputop.widgets.spans import EMPTY, Line, Span, cut, width_of

if TYPE_CHECKING:
    from gputop.measuring.state import SuiteState
    from gputop.topology.diagnosis.events import Event
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report


INVENTED, PROBED = "invented figures ", "probes simulated "
"""What is said beside the tabs of a demo, before its probes ran and after; the tabs leave room for
it, or at least for its first or last word, which stays in sight."""
LEAST = len("simulated ")
NO_SIGNS: Mapping[str, Span] = MappingProxyType({})
NUMBERS = "1234567890"
"""The tenth screen has 0; those behind it have their tab, the palette and the mouse."""


def number_key(place: int) -> str:
    """The key of the screen at this place, counted from 0; "" where no number is left."""
    return NUMBERS[place] if place < len(NUMBERS) else ""


def tabs(
    names: Sequence[str], shown: str, width: int = 1000, signs: Mapping[str, Span] = NO_SIGNS
) -> Line:
    """Names of the screens with their number keys; the shown one stands out.

    `signs`: what stands behind some names, so that one sees where to look. The tabs leave room for
    a word on where the figures come from: first the blanks go, and only at last the ends of names,
    those of the longest first.
    """
    titles = [name.capitalize() for name in names]
    wide = ((" gputop ", "strong"), (" ", ""), *_tabs(names, titles, shown, " ", " ", signs))
    tries = (
        (wide, len(INVENTED)),
        *((_tabs(names, titles, shown, "", gap, signs), LEAST) for gap in (" ", "")),
        *(
            (_tabs(names, short, shown, "", "", signs), LEAST)
            for short in _shortened(names, titles, shown)
        ),
    )
    fitting = (line for line, need in tries if width_of(line) + need <= width)
    last = _tabs(names, [title[:3] for title in titles], shown, "", "", signs)
    return next(fitting, cut(last, width))


def _shortened(names: Sequence[str], titles: Sequence[str], shown: str) -> Iterator[list[str]]:
    """Titles with one more of them cut each time, the longest first; the shown one stays."""
    short = list(titles)
    places = [place for place, name in enumerate(names) if name != shown]
    for place in sorted(places, key=lambda place: -len(titles[place])):
        short[place] = titles[place][:4]
        yield list(short)


def _tabs(
    names: Sequence[str],
    titles: Sequence[str],
    shown: str,
    lead: str,
    gap: str,
    signs: Mapping[str, Span],
) -> Line:
    spans: list[tuple[str, str]] = []
    for place, (name, title) in enumerate(zip(names, titles, strict=True)):
        action = f"@screen('{name}')"
        spans.append((f"{lead}{number_key(place)}{gap}", f"key bold {action}"))
        here = "strong underline" if name == shown else "muted"
        spans.append((title, f"{here} {action}"))
        if name in signs:
            sign, ink = signs[name]
            spans.append((f"{lead}{sign}", f"{ink} {action}"))
        spans.append((" ", ""))
    return tuple(spans)


def _invented(name: str, room: int, *, simulated: bool) -> Line:
    """That a demo is one, in as many words as there is room for."""
    whole = f"{INVENTED.strip()}, {PROBED}" if simulated else INVENTED
    short = PROBED if simulated else INVENTED
    for said in (whole, short):
        if len(name) + 3 + len(said) <= room:
            return ((name, "warn @demos"), (f" · {said}", "muted @demos"))
    if len(short) > room:
        short = "simulated " if simulated else "invented "
    return ((short, "warn @demos"),)


def source_line(snapshot: NodeSnapshot | None, room: int) -> Line:
    """Say whether the figures are live, invented or from a file; `room`: columns for it."""
    if snapshot is None:
        return (("reading the node… ", "muted"),)
    if snapshot.is_live:
        return (("● ", "good"), ("live ", "muted"))
    name = clean(", ".join(snapshot.source), max(room - 6, 8))
    if any(source.startswith("demo ") for source in snapshot.source):
        return _invented(name, room, simulated=snapshot.simulated)
    if snapshot.simulated:
        if len(name) + len("from  · ") + len(PROBED) > room:
            return ((PROBED if len(PROBED) <= room else "simulated ", "warn"),)
        return (("from ", "muted"), (name, "strong"), (f" · {PROBED}", "warn"))
    return (("from ", "muted"), (f"{name} ", "strong"))


def status_line(
    snapshot: NodeSnapshot | None,
    probe: SuiteState | None,
    trouble: str,
    interval: float,
    figures: Line = EMPTY,
) -> Line:
    """What a person has to know right now; empty when all is quiet.

    `figures`: how those of a probe that has finished stand.
    """
    if trouble:
        return ((" ! ", "bad"), (clean(trouble), "bad"))
    if probe is not None:
        return probe_line(probe, figures)
    return late_line(snapshot, interval)


_REMARK = re.compile(r" \([^()]*\)$")
"""What stands in brackets behind a clause, which goes first where there is no room."""
WORKING = "working it out …"


def what_if_line(changes: Sequence[str], summary: Sequence[str], width: int) -> Line:
    """The banner of a what-if: all answers are those of a node with these changes.

    The key that undoes it always has its room. Of the changes, those are named that leave room for
    the first clause of the summary; of its further clauses, those that fit are there.
    """
    undo: Line = (("· ", "muted"), ("u", "key bold @undo"), (" undo ", "muted @undo"))
    first = _REMARK.sub("", clean(summary[0], 200)) if summary else WORKING
    room = width - len(" WHAT IF   ") - width_of(undo) - len(first) - 3
    head: Line = ((" WHAT IF ", "pick"), (f" {_named(changes, room)} ", "warn"), *undo)
    if not summary:
        return (*head, ("· ", "muted"), (WORKING, "muted"))
    spans, room = [*head], width - width_of(head)
    shorter = (_REMARK.sub("", summary[0]), *summary[1:])
    for count in (2, 1):
        if sum(len(clause) + 3 for clause in shorter[:count]) - 1 <= room:
            fits = sum(len(clause) + 3 for clause in summary[:count]) - 1 <= room
            summary = summary if fits else shorter
            break
    for place, clause in enumerate(summary):
        said = clean(clause, 200)
        if place and len(said) + 2 > room:
            break
        spans += [("· ", "muted"), (f"{said} ", "strong")]
        room -= len(said) + 3
    return tuple(spans)


def _named(changes: Sequence[str], room: int) -> str:
    """The changes that fit, and how many more there are; the first one always."""
    told = [clean(change, 200) for change in changes]
    for count in range(len(told), 0, -1):
        rest = f", {len(told) - count} more" if count < len(told) else ""
        said = ", ".join(told[:count]) + rest
        if len(said) <= room:
            break
    return said


NEWS_SECONDS = 30.0
"""How long a message stays in the status line."""


def news_line(events: Sequence[Event], now: float, place: int) -> Line:
    """What happened last, for a while; `now` and its time are seconds since the epoch."""
    if not events or not 0 <= now - events[0].last_at < NEWS_SECONDS:
        return EMPTY
    from gputop.widgets.finding_text import clock

    newest = events[0]
    sign, ink, _ = newest.harm.shown
    others = sum(0 <= now - event.last_at < NEWS_SECONDS for event in events) - 1
    more = f", {others} more" if others else ""
    return (
        (f" {sign} ", ink),
        (f"{clock(newest.last_at)} {clean(newest.text, 120)}{more}", ink),
        (" · ", "muted"),
        (f"{place}", "key bold @screen('findings')"),
        (" shows it ", "muted"),
    )


_POOR = ("low", "too long")


def counted(report: Report, measured: Collection[Hashable]) -> Line:
    """The clause "· ▼ 2 of 11 figures low" of the figures with these keys; may be empty.

    `measured`: `Measurement.key` of what a run measured. Figures of earlier runs are not counted.
    """
    from gputop.measuring.judged import judged
    from gputop.widgets.meters import verdict_of

    known = judged(report)
    figures = [
        figure
        for figure in report.snapshot.measurements
        if figure.value is not None and figure.key in measured
    ]
    if not figures:
        return EMPTY
    verdicts = [verdict_of(known.of(figure)) for figure in figures]
    words = Counter(word for _, word, _ in verdicts)
    poor = [(word, ink) for _, word, ink in verdicts if word in _POOR]
    if poor:
        alarms = [word for word, ink in poor if ink == "bad"]
        shown = alarms or [word for word, _ in poor]
        many = f"▼ {len(shown)} of {len(figures)} figures {' or '.join(sorted(set(shown)))}"
        if not alarms:
            return ((" · ", "muted"), (f"{many}, all explained", "warn"))
        more = len(poor) - len(alarms)
        rest = ((f", {more} more explained", "warn"),) if more else ()
        return ((" · ", "muted"), (many, "bad"), *rest)
    said: list[tuple[str, str]] = []
    if healthy := words["healthy"]:
        said.append((f"✓ {healthy} of {len(figures)} figures healthy", "good"))
    if high := words["high"]:
        said.append((f"▲ {high} of {len(figures)} figures high", "warn"))
    if unknown := words["no reference"]:
        said.append((f"{unknown} without a reference", "muted"))
    line: list[tuple[str, str]] = []
    for one in said:
        line += [(", " if line else " · ", "muted"), one]
    return tuple(line)


def probe_line(probe: SuiteState, figures: Line = EMPTY) -> Line:
    """How far a probe is, or how it ended."""
    name = clean(probe.name)
    if probe.running:
        step = probe.current
        count = f"{step.done}/{step.total}" if step is not None and step.total else "starting"
        return (
            (" ▶ ", "good"),
            (f"{name if step is None else clean(step.name)} {count} ", "strong"),
            (f"{clean((step is not None and step.what) or probe.text)}  ", ""),
            ("Esc", "key bold @step_back"),
            (" cancels", "muted"),
        )
    if probe.status == Status.FINISHED:
        text = clean(probe.text).rstrip(".")
        told = text if len(probe.steps) > 1 else f"{name}: {text[:1].lower()}{text[1:]}"
        return ((f" {told}", "good"), *figures)
    ink = "warn" if probe.status == Status.CANCELLED else "bad"
    head: Line = ((f" {name} {probe.status}", ink),)
    if probe.forcible:
        # Before the reason, which may be longer than the line.
        head += ((" (", "muted"), ("P", "key bold @probe(True)"), (" forces it)", "muted"))
    return (*head, (": ", ink), (clean(probe.text), ""))


def late_line(snapshot: NodeSnapshot | None, interval: float) -> Line:
    """Name the sources that have not answered for too long."""
    if snapshot is None:
        return EMPTY
    late = [
        f"{clean(state.source)} not answering for {seconds(state.waiting_seconds)}"
        for state in snapshot.states
        if state.waiting_seconds is not None
    ]
    return ((" ! ", "warn"), (" · ".join(late), "warn")) if late else EMPTY


def figures_age(snapshot: NodeSnapshot, interval: float) -> float | None:
    """Age of the moving figures when they are older than two intervals, in seconds; else None."""
    makers = {gpu.vendor for gpu in snapshot.machine.gpus}
    newest: dict[str, float] = {}
    for state in snapshot.states:
        maker = MAKERS.get(state.source)
        age = state.age_seconds if state.source.endswith("_readings") else None
        if maker is not None and maker in makers and age is not None:
            newest[maker] = min(age, newest.get(maker, age))
    oldest = max(newest.values(), default=None)
    longest = 2 * max(interval, pace_seconds(len(snapshot.machine.gpus)))
    return oldest if oldest is not None and oldest > longest else None
