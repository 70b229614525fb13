"""The list of probes: state, cost and last result, with a cursor that follows a name."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.screens.probes.entries import ProbeEntry
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.widgets.named_list import NamedList, with_order
from gputop.widgets.spans import Line, heads, left, right, width_of

_NAME, _STATE, _COST, _MEMORY, _GPUS = 15, 10, 6, 9, 5
_WHOLE = 60
"""Columns from which the state has its word, and the list says what a probe needs."""


def _head(width: int) -> Line:
    probe, cost = left("   probe", 3 + _NAME), right("cost", _COST)
    if width < _WHOLE:
        return heads(probe, cost, "  last result")
    needs = right("memory", _MEMORY), right("GPUs", _GPUS)
    return heads(probe, left("state", _STATE), cost, *needs, "  last result")


class ProbeList(NamedList):
    """One line for each probe; a double click opens the explanation."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(fixed_rows=1, id=id, classes=classes)
        self._entries: tuple[ProbeEntry, ...] = ()

    @property
    def entry(self) -> ProbeEntry | None:
        """The selected probe."""
        return self._entries[self.place] if self._entries else None

    def show_entries(self, entries: Sequence[ProbeEntry]) -> None:
        """Show these probes."""
        width = self.scrollable_content_region.width or 78
        known = {entry.name: entry for entry in entries}
        names = self.in_order(known, _head(width), lambda name: self._line(known[name], width))
        self._entries = tuple(known[name] for name in names)
        self.take_names(names)
        self.draw()

    def draw(self) -> None:
        """Draw the heading and the entries."""
        width = self.scrollable_content_region.width or 78
        lines = [with_order(_head(width), self.column, falling=self.falling)]
        lines += [self._line(entry, width) for entry in self._entries]
        self.show(lines, self.marks_at(width))

    def _line(self, entry: ProbeEntry, width: int) -> Line:
        sign, ink = entry.mark
        chosen = entry.name == self.selected
        cost = "–" if entry.seconds is None or entry.absent else about(entry.seconds)
        state = left(entry.word, _STATE), "muted" if entry.word in ("not run", "waiting") else ink
        least = f"{entry.minimum_gpus}+" if entry.minimum_gpus else "–"
        memory = units.size(entry.memory_bytes or None).replace(".0", "")
        needs = ((right(memory, _MEMORY), "muted"), (right(least, _GPUS), "muted"))
        whole = width >= _WHOLE
        line = (
            ("›" if chosen else " ", "strong"),
            (f"{sign} ", ink),
            (left(clean(entry.name, 40), _NAME), "strong" if chosen else ""),
            *(state,) * whole,
            (right(cost, _COST), "muted"),
            *needs * whole,
            ("  ", ""),
        )
        return (*line, *_result(entry, width - width_of(line)))


def _result(entry: ProbeEntry, room: int) -> Line:
    """The figure that represents the probe, and the worst verdict among its figures."""
    group = entry.headline
    if group is None and entry.absent:
        return ((left("not on a demo", room).rstrip(), "muted"),)
    if group is None:
        text = entry.text if entry.status is not None and entry.status.over else entry.what
        return ((left(text, room).rstrip(), "muted"),)
    sign, word, ink = entry.verdict
    if group.numbers:
        value = f"{units.figure(group.worst.figure.value)} {group.unit}".strip()
    else:
        value = clean(group.worst.figure.verdict or units.UNKNOWN, 20)
    said = "" if word == "no reference" else f" {sign} {word}"
    title = group.title.partition(",")[0]
    if len(title) + 1 + len(value) + len(said) <= room:
        value = f"{title} {value}" if room > 30 else value
    return ((left(value, max(room - len(said), 0)).rstrip(), ""), (said, ink))


def about(seconds: float) -> str:
    """An estimate that fits its column: "33 s", "30 min"."""
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
