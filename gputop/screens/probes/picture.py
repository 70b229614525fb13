"""The picture of a probe: curves for a sweep or a heat map for pairs, with a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual_plotext import PlotextPlot

from gputop.screens.probes.sweeps import Sweep
from gputop.terminal.clean import clean
from gputop.theming import inks_of
from gputop.topology.model.units import figure
from gputop.widgets.board import Board
from gputop.widgets.measure import Measure
from gputop.widgets.pair_matrix import PairMatrix
from gputop.widgets.spans import Line, width_of

if TYPE_CHECKING:
    from gputop.topology.report import Report

# Draws curves over message size with textual-plotext; imported only when one is shown.
INKS = ("bar", "accent", "link-net", "link-c2c")
DOTS = ("●", "○", "◆", "◇")
"""Marker of the measured points of each series, so that colour is not the only difference."""
PLAIN_DOTS = ("o", "x", "+", "*")
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
TICKS = (
    (4 * _KIB, "4K"),
    (64 * _KIB, "64K"),
    (_MIB, "1M"),
    (16 * _MIB, "16M"),
    (256 * _MIB, "256M"),
    (_GIB, "1G"),
    (4 * _GIB, "4G"),
)
_AXIS_ROWS = 2
"""The axis of sizes and its labels."""
_ALONE = 8.0
"""A band that is known at a single size is drawn from an eighth of that size on."""


class ProbeCurve(PlotextPlot):
    """One sweep, drawn again when the sweep, the size or the theme changes."""

    can_focus = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._sweep: Sweep | None = None
        self._top = 1.0
        """Upper end of the axis of values."""

    def show_sweep(self, sweep: Sweep | None) -> None:
        """Draw these curves."""
        if sweep != self._sweep:
            self._sweep = sweep
            self.refresh()

    @property
    def _ascii_only(self) -> bool:
        return "utf" not in self.app.console.encoding.lower()

    def legend(self, width: int) -> Line:
        """The legend: the marker of each series and the meaning of the dashes."""
        if self._sweep is None:
            return ()
        dots = PLAIN_DOTS if self._ascii_only else DOTS
        spans: list[tuple[str, str]] = []
        for number, series in enumerate(self._sweep.series[: len(DOTS)]):
            spans += [(f" {dots[number]} ", f"{INKS[number]} bold"), (f"{series.name}  ", "")]
        if self._sweep.band:
            _, low, high = self._sweep.band[-1]
            spans += [(" ╌ ", "good"), (f"healthy {figure(low)}–{figure(high)} ", "")]
            # Half a name says nothing; the explanation has it whole.
            if width_of(spans) + len(self._sweep.source) < width:
                spans.append((self._sweep.source, "muted"))
        return tuple(spans)

    def render(self) -> Text:
        """Draw the axes, the band and the curves."""
        width, height = self.size
        plot: Any = self.plt
        plot.clear_figure()
        plot.plotsize(width, height)
        plot._set_size(width, height)  # as PlotextPlot does: plotsize alone is not enough
        ground = self._rgb("background")
        plot.canvas_color(ground)
        plot.axes_color(ground)
        plot.ticks_color(self._rgb("muted"))
        if self._sweep is None or width < 20 or height < 4:
            return Text()
        self._axes(plot, self._sweep)
        self._draw_band(plot, self._sweep, width)
        self._draw_series(plot, self._sweep)
        return Text.from_ansi(plot.build())

    def _axes(self, plot: Any, sweep: Sweep) -> None:
        sizes = [size for series in sweep.series for size, _ in series.points]
        values = [value for series in sweep.series for _, value in series.points]
        top = 1.08 * max(*values, *(high for _, _, high in sweep.band), 0.0) or 1.0
        self._top = top
        step = _step(top, max(self.size.height // 3, 2))
        marks = [step * number for number in range(int(top / step) + 1)]
        plot.xaxes(True, False)
        plot.yaxes(True, False)
        # Room for the markers of the first and the last point.
        plot.xlim(_log(min(sizes)) - 0.2, _log(max(sizes)) + 0.2)
        plot.ylim(0, top)
        ticks = [tick for tick in TICKS if min(sizes) <= tick[0] <= max(sizes)]
        plot.xticks([_log(size) for size, _ in ticks], [label for _, label in ticks])
        plot.yticks(marks, [f"{mark:g}" for mark in marks])

    def _draw_band(self, plot: Any, sweep: Sweep, width: int) -> None:
        if not sweep.band:
            return
        band: Sequence[tuple[float, float, float]] = sweep.band
        first, last = band[0][0], band[-1][0]
        if len(band) == 1:
            first /= _ALONE
            band = ((first, *band[0][1:]), *band)
        # Twice as many points as columns: none is left out by rounding.
        count = 2 * width
        sizes = [first * (last / first) ** (number / count) for number in range(count + 1)]
        places = [_log(size) for size in sizes]
        marker = "-" if self._ascii_only else "╌"
        for edge in (1, 2):
            heights = [_between(band, size, edge) for size in sizes]
            plot.scatter(places, heights, marker=marker, color=self._rgb("good"))

    def _draw_series(self, plot: Any, sweep: Sweep) -> None:
        plain = self._ascii_only
        dots = PLAIN_DOTS if plain else DOTS
        series = list(enumerate(sweep.series[: len(DOTS)]))
        for number, curve in reversed(series):
            sizes = [_log(size) for size, _ in curve.points]
            values = [value for _, value in curve.points]
            colour = self._rgb(INKS[number])
            if not plain:
                values = [self._fine(value) for value in values]
            plot.plot(sizes, values, marker="." if plain else "braille", color=colour)
        for number, curve in reversed(series):
            sizes = [_log(size) for size, _ in curve.points]
            values = [value for _, value in curve.points]
            plot.scatter(sizes, values, marker=dots[number], color=self._rgb(INKS[number]))

    def _fine(self, value: float) -> float:
        """Shift a braille line so that it runs through the cells of its points.

        plotext spreads rows of cells and rows of dots (four in a cell) over the same limits, so
        an unshifted line is up to a row away from points, band and ticks.
        """
        rows = max(self.size.height - _AXIS_ROWS, 2)
        return self._top * (4 * (rows - 1) * value / self._top + 1.5) / (4 * rows - 1)

    def _rgb(self, name: str) -> tuple[int, int, int]:
        colour = inks_of(self.app).colour(name)
        return (128, 128, 128) if colour is None else colour.rgb


def _log(size: float) -> float:
    """Position on the axis of sizes, which is logarithmic."""
    return math.log2(size)


def _between(band: Sequence[tuple[float, float, float]], size: float, edge: int) -> float:
    """The edge of the band at a size, interpolated on the logarithmic axis."""
    before = band[0]
    for after in band[1:]:
        if size <= after[0] or after is band[-1]:
            span = math.log(after[0] / before[0])
            share = math.log(size / before[0]) / span if span else 1.0
            return before[edge] + (after[edge] - before[edge]) * min(max(share, 0.0), 1.0)
        before = after
    return before[edge]


def _step(top: float, marks: int) -> float:
    """The distance between ticks: 1, 2 or 5 times a power of ten."""
    rough = top / max(marks, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(step for step in (1, 2, 5, 10) if step * power >= rough)


class ProbePicture(Container):
    """Shows one sweep or one heat map; the plotting library is imported for the first sweep."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._curve: ProbeCurve | None = None
        self._caption = ""

    def compose(self) -> ComposeResult:
        """The legend and the matrix; the plot is added with the first sweep."""
        yield Board(id="probe-legend")
        yield PairMatrix(id="probe-matrix")

    @property
    def matrix(self) -> PairMatrix:
        """The heat map."""
        return self.query_one("#probe-matrix", PairMatrix)

    def caption(self, text: str) -> None:
        """Write the title into the rule above."""
        if text != self._caption:
            self._caption = text
            # Content, because a string would be parsed as markup.
            self.border_title = Content(clean(text, 200))

    def show_sweep(self, sweep: Sweep) -> None:
        """Draw curves."""
        if self._curve is None:
            self._curve = ProbeCurve(id="probe-curve")
            self.mount(self._curve)
        self.matrix.display = False
        self._curve.display = True
        self._curve.show_sweep(sweep)
        legend = self.query_one("#probe-legend", Board)
        legend.show((self._curve.legend(legend.size.width),))

    def show_heat(self, report: Report, measure: Measure, note: str) -> None:
        """Draw a matrix of pairs."""
        if self._curve is not None:
            self._curve.display = False
        self.matrix.display = True
        self.matrix.show_measure(report, measure)
        self.query_one("#probe-legend", Board).show((((f" {note}", "muted"),),))
