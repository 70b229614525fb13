"""Earlier runs of a probe on this node: time, versions, and how the figures changed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gputop.measuring.history_compare import compare
from gputop.measuring.quantities import headline_place, quantity, unit_text
from gputop.screens.probes.groups import title_of
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.severity import FigureVerdict
from gputop.widgets.spans import Line, Span, left, right, wrapped

if TYPE_CHECKING:
    from gputop.measuring.history import SavedFigure, SavedRun
    from gputop.measuring.history_compare import FigureChange, RunComparison

_MARKED = 8
"""How many changed figures are listed."""


def history_lines(
    runs: Sequence[SavedRun], probe: str, names: Mapping[str, str], width: int
) -> tuple[Line, ...]:
    """The runs of one probe, newest first, below the changes since the earlier ones.

    `runs`: all of the node, oldest first. `names`: address of a device -> its label.
    """
    own = [run for run in runs if run.probe == probe]
    if not own:
        return (((" no earlier run of this probe is kept", "muted"),),)
    comparison = compare(own[-1], own[:-1])
    lines = [*_changes(comparison, names, width)]
    key = _headline(probe, own)
    title = title_of(quantity(key[0], probe), key[1]) if key is not None else ""
    lines.append(((f"{' when':<15}{'level':<8}{title}", "muted"),))
    for number in range(len(own) - 1, -1, -1):
        earlier = own[number - 1] if number else None
        lines.append(_run(own[number], earlier, key))
    return tuple(lines)


def _changes(comparison: RunComparison, names: Mapping[str, str], width: int) -> Iterable[Line]:
    if not comparison.earlier_runs:
        yield ((" the first run that is kept of this probe", "muted"),)
        return
    marked = comparison.marked
    count = f"{comparison.earlier_runs} earlier run{'s' * (comparison.earlier_runs != 1)}"
    known = [change for change in comparison.changes if change.percent is not None]
    if marked:
        yield (
            (" ! ", "warn"),
            (f"{len(marked)} of {len(known)} figures changed", ""),
            (f" against {count}", "muted"),
        )
    elif known:
        yield ((" ✓ ", "good"), ("unchanged", ""), (f" against the median of {count}", "muted"))
    for change in marked[:_MARKED]:
        yield _change(comparison.probe, change, names, width)
    for name, was, now in (*comparison.stack, *comparison.environment):
        text = f" {clean(name, 40)}: {clean(', '.join(was) or 'not set', 60)} → "
        yield from wrapped(((text, "muted"), (clean(now, 60) or "not set", "")), width, 3)


def _change(probe: str, change: FigureChange, names: Mapping[str, str], width: int) -> Line:
    ends = [names.get(end, clean(end, 20)) for end in (change.src, change.dst) if end]
    what = ", ".join(
        part
        for part in (title_of(quantity(change.quantity, probe), change.variant), " → ".join(ends))
        if part
    )
    size = f" {units.size(change.bytes_per_copy)}" if change.bytes_per_copy and not ends else ""
    was = f"{units.figure(change.earlier)} → {units.figure(change.now)} {unit_text(change.unit)}"
    percent = f"{change.percent or 0.0:+.0f} %"
    room = max(width - len(was) - 12, 10)
    return (
        (left(f"   {what}{size}", room), ""),
        (f" {was}", "strong"),
        (right(percent, 8), "warn"),
    )


def _headline(probe: str, runs: Iterable[SavedRun]) -> tuple[str, str | None] | None:
    """The quantity and variant that represent the probe in all its runs."""
    kinds = {
        (figure.quantity, figure.variant): None
        for run in runs
        for figure in run.figures
        if figure.value is not None
    }
    return min(kinds, key=lambda kind: headline_place(kind[0], probe), default=None)


def _value(run: SavedRun, key: tuple[str, str | None]) -> tuple[float, str] | None:
    """Median of the headline's figures at the largest size, with its unit."""
    found: list[SavedFigure] = [
        figure
        for figure in run.figures
        if (figure.quantity, figure.variant) == key and figure.value is not None
    ]
    if not found:
        return None
    largest = max(figure.bytes_per_copy or 0 for figure in found)
    values = [figure.value or 0.0 for figure in found if (figure.bytes_per_copy or 0) == largest]
    return statistics.median(values), unit_text(found[0].unit)


def _run(run: SavedRun, earlier: SavedRun | None, key: tuple[str, str | None] | None) -> Line:
    when = units.moment(run.taken_at, "%m-%d %H:%M")
    spans: list[Span] = [(f" {when:<14}", ""), (left(clean(run.level, 10), 8), "muted")]
    now = None if key is None else _value(run, key)
    before = None if key is None or earlier is None else _value(earlier, key)
    if now is None:
        return (
            *spans,
            (f"{len(run.figures)} figure{'' if len(run.figures) == 1 else 's'}", "muted"),
        )
    words = {figure.judgement for figure in run.figures}
    gravest = next((verdict for verdict in FigureVerdict if verdict in words), None)
    sign, ink, _ = (gravest or FigureVerdict.NO_REFERENCE).shown
    spans.append((right(f"{units.figure(now[0])} {now[1]}", 15), "strong"))
    spans.append((left(f" {sign} {gravest or 'not judged'}", 15), ink))
    if before is not None and before[0]:
        percent = 100 * (now[0] - before[0]) / abs(before[0])
        spans.append((right(f"{percent:+.1f} %", 9), "warn" if abs(percent) > 5 else "muted"))
    return tuple(spans)
