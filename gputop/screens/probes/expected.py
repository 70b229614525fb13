"""What a probe should find here, drawn before it ran: the healthy bands and the expected curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gputop.measuring.judged import Judged
from gputop.screens.probes.groups import Group, groups
from gputop.simulating.probes import expected_figures
from gputop.terminal.clean import clean
from gputop.topology.expectation.judgement import ESTIMATE
from gputop.topology.model.units import figure
from gputop.widgets.meters import band_text, edges, figure_bar
from gputop.widgets.spans import Line, left, right, wrapped

if TYPE_CHECKING:
    from gputop.topology.expectation.judgement import Band
    from gputop.topology.model.snapshot import Measurement
    from gputop.topology.report import Report

_BAND, _BASIS, _LEAST_BAR = 24, 10, 8
WIDE = 64
"""Width from which a row says on what its band rests."""
_SHORTEST_BAR = 4
"""A shorter bar shows no band."""
_LONGEST_NAME = 36


WITHIN = " in range is not yet healthy: a pair is also judged by its links and by its peers"
NO_BANDS = (" no reference for this hardware", "muted")


class ExpectedFigures:
    """The expected figures of the probe that was asked for last."""

    def __init__(self) -> None:
        self._for: tuple[object, ...] = ()
        self.figures: tuple[Measurement, ...] = ()
        self.known: Judged | None = None
        self._groups: list[Group] = []

    def look_at(self, report: Report, probe: str) -> None:
        """Work out what this probe should find, if that is not known already."""
        machine = report.snapshot.machine
        if self._for == (machine, probe, report.node.decided):
            return
        self._for = (machine, probe, report.node.decided)
        # Without a prediction a collective would make one, which takes some tenths of a second.
        self.figures = expected_figures(report, probe) if report.node.decided else ()
        snapshot = msgspec.structs.replace(report.snapshot, measurements=self.figures)
        self.known = Judged(report.follow(snapshot))
        self._groups = groups(self.figures, self.known, self.known.names)

    def lines(self, width: int) -> tuple[Line, ...]:
        """A band for each figure that has one, below a heading; one line where there is none."""
        banded = [(group, band) for group in self._groups if (band := _band(group)) is not None]
        if not banded:
            return ((NO_BANDS,),) if self.known is not None else ()
        # A tilde marks an estimate.
        guessed = any(band.basis == ESTIMATE for _, band in banded)
        title = "healthy (~ estimate)" if guessed else "healthy (range)"
        basis = _BASIS if width >= WIDE else 0
        names = [len(group.title) + 3 for group, _ in banded]
        name = min(max(names), _LONGEST_NAME, max(width - _BAND - basis - _LEAST_BAR, 12))
        bar = max(width - name - _BAND - basis, 0)
        tops: dict[str, float] = {}
        for group, band in banded:
            tops[group.unit] = max(tops.get(group.unit, 0.0), edges(band)[1])
        head = (
            (left(" expected", name), "muted"),
            (_scale(tops, bar), "muted"),
            (right(title, _BAND), "muted"),
        )
        rows = (_row(group, band, (name, bar, basis), tops[group.unit]) for group, band in banded)
        pairs = any(figure.src and figure.dst for figure in self.figures)
        return (head, *rows, *(wrapped(((WITHIN, "muted"),), width, 1) if pairs else ()))


def _band(group: Group) -> Band | None:
    judgement = group.worst.judgement
    return None if judgement is None else judgement.band


def _scale(tops: dict[str, float], width: int) -> str:
    """What the ends of the bars stand for: those of one unit have one scale."""
    (unit, top), *others = tops.items()
    end = "most of its unit" if others else f"{figure(top)} {unit}"
    return f"0{end:>{width - 1}}" if width > len(end) + 2 else " " * width


def _healthy(band: Band) -> str:
    """What a healthy one gives, and its range: "380 (323–437)"."""
    if band.healthy is None:
        return band_text(band)
    about = "~" if band.basis == ESTIMATE else ""
    return f"{about}{figure(band.healthy)} ({band_text(band).removeprefix(about)})"


def _row(group: Group, band: Band, widths: tuple[int, int, int], top: float) -> Line:
    name, bar, basis = widths
    drawn = figure_bar(0.0, 0.0, band, "muted", bar, top)
    return (
        (left(f" {clean(group.title, 60)}", name), ""),
        *(drawn if bar >= _SHORTEST_BAR else ((" " * bar, ""),)),
        (right(f"{_healthy(band)} {group.unit}", _BAND), "strong"),
        (left(f" {band.basis}", basis), "muted"),
    )
