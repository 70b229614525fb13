"""The picture of a probe: curves for a sweep or a heat map for pairs, with a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content

from gputop.screens.probes.plot import legend, plot
from gputop.terminal.clean import clean
from gputop.widgets.board import Board
from gputop.widgets.pair_matrix import PairMatrix

if TYPE_CHECKING:
    from gputop.screens.probes.sweeps import Sweep
    from gputop.topology.report import Report
    from gputop.widgets.measure import Measure


class ProbeCurve(Board):
    """One sweep, drawn again when it or the size changes."""

    @property
    def plain(self) -> bool:
        """Whether the terminal shows ASCII alone."""
        return "utf" not in self.app.console.encoding.lower()

    def show_sweep(self, sweep: Sweep) -> None:
        """Draw these curves."""
        self.draw_once(lambda: self.show(plot(sweep, *self.size, plain=self.plain)), sweep)


class ProbePicture(Container):
    """Shows one sweep or one heat map."""

    _caption = ""

    def compose(self) -> ComposeResult:
        """The legend above the picture."""
        yield Board(id="probe-legend")
        yield PairMatrix(id="probe-matrix")
        yield ProbeCurve(id="probe-curve")

    @property
    def _curve(self) -> ProbeCurve:
        return self.query_one("#probe-curve", ProbeCurve)

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
        self.matrix.display = False
        self._curve.display = True
        self._curve.show_sweep(sweep)
        board = self.query_one("#probe-legend", Board)
        board.show((legend(sweep, board.size.width, plain=self._curve.plain),))

    def show_heat(self, report: Report, measure: Measure, note: str) -> None:
        """Draw a matrix of pairs."""
        self._curve.display = False
        self.matrix.display = True
        self.matrix.show_measure(report, measure)
        self.query_one("#probe-legend", Board).show((((f" {note}", "muted"),),))
