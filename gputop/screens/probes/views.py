"""Chooses the view of a probe: its figures, a curve, a heat map, or earlier runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gputop.screens.probes.entries import ProbeEntry
from gputop.screens.probes.groups import Group
from gputop.screens.probes.head import view_line
from gputop.screens.probes.sweeps import Sweep, sweeps
from gputop.widgets.measure import Measure
from gputop.widgets.measures import measured_cells
from gputop.widgets.spans import Line

if TYPE_CHECKING:
    from gputop.measuring.judged import Judged
    from gputop.screens.probes.expected import ExpectedFigures
    from gputop.screens.probes.picture import ProbePicture
    from gputop.topology.model.snapshot import Measurement
    from gputop.topology.report import Report

FIGURES, CURVE, HEAT, EARLIER = "figures", "curve", "heat map", "earlier runs"
_LEAST_PAIRS = 2
"""A matrix needs at least both directions of a pair."""


class ProbeViews:
    """The views of the selected probe; the choice is kept for the next probe."""

    def __init__(self) -> None:
        self._wanted = FIGURES
        self._number = 0
        self._narrow = False
        self._sweeps: tuple[Sweep, ...] = ()
        self._heats: tuple[Measure, ...] = ()
        self._probe = ""

    @property
    def state(self) -> object:
        """The values that decide which view is drawn."""
        return (self._wanted, self._number)

    @property
    def names(self) -> tuple[str, ...]:
        """The available views; on a wide screen figures and earlier runs are always visible."""
        pictures = (*((CURVE,) if self._sweeps else ()), *((HEAT,) if self._heats else ()))
        return (FIGURES, *pictures, EARLIER) if self._narrow else pictures

    @property
    def shown(self) -> str:
        """The shown view: the chosen one, else the first; "" without any."""
        names = self.names
        return self._wanted if self._wanted in names else next(iter(names), "")

    def look_at(
        self,
        entry: ProbeEntry,
        figures: Sequence[Measurement],
        judged: Judged,
        narrow: bool,
    ) -> None:
        """Find the views of a probe."""
        if entry.name != self._probe:
            self._probe, self._number = entry.name, 0
        self._narrow = narrow
        self._sweeps = sweeps(figures, judged, judged.names)
        self._heats = heat_maps(entry.groups)

    def expect(self, entry: ProbeEntry, expected: ExpectedFigures, narrow: bool) -> None:
        """Find the views of a probe that has not run: curves of what it should find."""
        known = expected.known
        if known is not None:
            self.look_at(entry, (), known, narrow)
            self._sweeps = sweeps(expected.figures, known, known.names, expected=True)

    def step(self, step: int) -> None:
        """Choose the next or the previous view."""
        names = self.names
        if names:
            self._wanted = names[(names.index(self.shown) + step) % len(names)]
            self._number = 0

    def choose(self, name: str) -> None:
        """Choose a view by its name."""
        self._wanted, self._number = name, 0

    def turn(self, step: int) -> None:
        """Choose another picture of the same kind."""
        count = len(self._pictures)
        if count:
            self._number = (self._number + step) % count

    @property
    def _pictures(self) -> Sequence[Sweep | Measure]:
        if self.shown == CURVE:
            return self._sweeps
        return self._heats if self.shown == HEAT else ()

    def line(self) -> tuple[Line, ...]:
        """The names of the views, if only one is shown at a time."""
        return (view_line(self.names, self.shown),) if self._narrow else ()

    def draw(self, picture: ProbePicture, report: Report) -> bool:
        """Draw the picture; returns False without one."""
        pictures = self._pictures
        if not pictures:
            return False
        shown = pictures[self._number % len(pictures)]
        more = f" · {self._number % len(pictures) + 1} of {len(pictures)} ← →"
        more = more if len(pictures) > 1 else ""
        other = " · m: " + next((n for n in self.names if n != self.shown), "")
        if self._narrow or len(self.names) < 2:
            other = ""
        unit = f", {shown.unit}" if shown.unit else ""
        if isinstance(shown, Sweep):
            made_up = f", {shown.basis}" if shown.basis else ""
            picture.caption(f"{shown.title}{unit} by message size{made_up}{more}{other}")
            picture.show_sweep(shown)
        else:
            made_up = shown.made_up(report.snapshot)
            picture.caption(f"{shown.title}{unit}{made_up}{more}{other}")
            picture.show_heat(report, shown, "rows send, columns receive · ✓ healthy ▼ low ▲ high")
        return True


def heat_maps(groups: Iterable[Group]) -> tuple[Measure, ...]:
    """A measure for each group of pairs, those with numbers first."""
    found = [
        group
        for group in groups
        if sum(1 for member in group.members if member.figure.src and member.figure.dst)
        >= _LEAST_PAIRS
    ]
    found.sort(key=lambda group: not group.numbers)
    return tuple(
        Measure(
            f"{group.quantity.key} {group.variant or ''}",
            group.title,
            group.unit,
            measured_cells(group.quantity.key, group.variant, signs=True),
            less_is_better=not group.quantity.more_is_better,
            probed=True,
        )
        for group in found
    )
