"""The names of the measures above the matrix, in their groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.widgets.measure import MEASURED, Measure
from gputop.widgets.spans import Line, Span, width_of, wrapped

if TYPE_CHECKING:
    from gputop.topology.hardware.words import Words

NOTHING = "nothing yet"


def measure_lines(
    shown: Sequence[Measure], chosen: Measure, words: Words, made_up: str, width: int
) -> tuple[Line, ...]:
    """The groups on one line, then the unit of the chosen measure and whether it is `made_up`.

    Where the line is full, the other groups show their names alone, then the open one those
    beside the chosen measure: a line that is wider would hide the unit behind a scroll bar.
    """
    whole = _names(shown, chosen, words, all_open=True)
    if width_of(whole) >= width:
        whole = _names(shown, chosen, words, all_open=False)
    beside = len(shown)
    while width_of(whole) >= width and beside:
        beside -= 1
        whole = _names(_near(shown, chosen, beside), chosen, words, all_open=False)
    unit: Line = ((f" {words.say(chosen.unit)}", "muted"), (made_up, "warn"))
    return (whole, *wrapped(unit, width - 1, 1)[:1])


def _near(shown: Sequence[Measure], chosen: Measure, beside: int) -> list[Measure]:
    """The measures without those of the chosen one's group that are further from it than this."""
    group = [measure for measure in shown if measure.group == chosen.group]
    place = group.index(chosen) if chosen in group else 0
    far = {measure.id for at, measure in enumerate(group) if abs(at - place) > beside}
    return [measure for measure in shown if measure.id not in far]


def _names(shown: Sequence[Measure], chosen: Measure, words: Words, *, all_open: bool) -> Line:
    groups: dict[str, list[Measure]] = {}
    for measure in shown:
        groups.setdefault(measure.group, []).append(measure)
    spans: list[Span] = []
    for group, members in groups.items():
        here = chosen in members
        button = f"@screen.show_measure('{members[0].id}')"
        spans.append((f" {words.say(group)} ", f"{'strong' if here else 'muted'} {button}"))
        if not (all_open or here):
            spans.append((f"({len(members)}) ", f"muted {button}"))
            continue
        for measure in members:
            ink = "key bold underline" if measure is chosen else ""
            button = f"@screen.show_measure('{measure.id}')"
            spans += [(" ", ""), (words.say(measure.title), f"{ink} {button}".strip()), (" ", "")]
        spans.append((" ", ""))
    if MEASURED not in groups:
        spans += [(f" {MEASURED} ", "muted"), (f" {NOTHING}", "muted")]
    return tuple(spans)
