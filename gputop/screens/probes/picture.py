"""The picture of a probe: curves for a sweep or a heat map for pairs, with a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content

from gputop.screens.probes.curve import ProbeCurve
from gputop.screens.probes.sweeps import Sweep
from gputop.terminal.clean import clean
from gputop.widgets.board import Board
from gputop.widgets.measure import Measure
from gputop.widgets.pair_matrix import PairMatrix

if TYPE_CHECKING:
    from gputop.topology.report import Report


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
