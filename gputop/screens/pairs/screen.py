"""Pairs: every ordered pair of devices, one measure at a time, and why the selected one is so."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.containers import Container
from textual.widget import Widget

from gputop.measuring.judged import judged
from gputop.pages.screen import page_lines, page_text
from gputop.screens.pairs.ladder import ladder_lines, pair_findings, pattern_lines
from gputop.screens.view import View
from gputop.terminal.clean import clean
from gputop.topology.explain.nccl import library_first
from gputop.topology.explain.why import why_pair
from gputop.widgets.board import Board
from gputop.widgets.key import Key, note, scroll_keys
from gputop.widgets.link_matrix import READING
from gputop.widgets.measures import measures
from gputop.widgets.pair_matrix import PairMatrix, devices
from gputop.widgets.spans import Line, wrapped

if TYPE_CHECKING:
    from gputop.screens.host import ScreenHost
    from gputop.topology.model.page import Page
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report


class PairsScreen(View):
    """Heat map and explanation."""

    TITLE = "Pairs"
    KEYS = (
        Key(
            "up,k",
            "move(-1, 0)",
            help="select a pair: rows are sources, columns destinations",
            written="↑ ↓ ← →",
        ),
        Key("down,j", "move(1, 0)"),
        Key("left,h", "move(0, -1)"),
        Key("right,l", "move(0, 1)"),
        Key(
            "m,right_square_bracket",
            "measure(1)",
            "measure",
            "next and previous measure",
            written="m  M",
        ),
        Key("M,left_square_bracket", "measure(-1)"),
        note("p", "probe the selected pair, both directions"),
        Key(
            "a",
            "probe_all",
            "all",
            "probe all pairs",
            command="Probe all pairs",
            about="Measure every pair of GPUs",
        ),
        Key(
            "n",
            "app.probe_nccl(False)",
            "run {library}",
            "run {libraries} itself on all GPUs and compare its log with the prediction",
        ),
        note("beside it", "four rungs of P2P: ✓ yes, ✗ no, – not asked or not tried"),
        *scroll_keys("scroll_steps", 5, "scroll the explanation"),
    )
    LINE = ("m", "w", "p", "a", "n")

    def __init__(self, name: str, gputop: ScreenHost) -> None:
        super().__init__(name, gputop)
        self._measure = 0

    def body(self) -> Iterable[Widget]:
        """Names of the measures, the matrix beside the steps."""
        yield Board(id="measure")
        with Container(id="pairs"):
            yield PairMatrix(id="matrix", classes="titled")
            yield Board(id="steps", classes="titled")
        yield Board(id="pattern")

    def draw(self, report: Report) -> None:
        """Bring every part up to date."""
        matrix = self.query_one("#matrix", PairMatrix)
        snapshot = report.snapshot
        # Nothing here moves with the readings.
        state = (
            snapshot.machine,
            snapshot.measurements,
            report.matrix is None,
            self._measure,
            id(report.prediction),
            report.diagnosis,
            self.gputop.findings.quiet,
        )
        names, pattern = self.query_one("#measure", Board), self.query_one("#pattern", Board)
        steps, width = self.query_one("#steps", Board), self.app.size.width
        names.draw_once(
            lambda: names.show(self._measure_lines(snapshot)),
            self._measure,
            snapshot.machine,
            snapshot.simulated,
            width,
        )
        matrix.draw_once(lambda: self._draw_matrix(report, matrix), *state, matrix.pair)
        steps.draw_once(lambda: self._draw_steps(report, steps), *state, matrix.pair)
        pattern.draw_once(
            lambda: self._draw_pattern(report, pattern), *state[:2], self._measure, width
        )
        matrix.caption(f"{'← → ' if matrix.wider else ''}rows send, columns receive")

    def _draw_matrix(self, report: Report, matrix: PairMatrix) -> None:
        if len(report.snapshot.machine.gpus) < 2:
            matrix.show((((" a pair needs two GPUs", "muted"),),))
        elif report.matrix is None:
            matrix.show(READING)
        else:
            matrix.show_measure(report, measures()[self._measure], self.shown)

    def _draw_pattern(self, report: Report, board: Board) -> None:
        """Show what the pattern of the measured matrix means; hide the board if there is none."""
        quantity = measures()[self._measure].quantity
        text = ""
        if quantity and report.snapshot.measurements:
            text = judged(report).pattern(quantity)
        board.display = bool(text)
        head: Line = ((" ! ", "bad"), (clean(text, 400), ""))
        board.show(wrapped(head, self.app.size.width - 1, 3) if text else ())

    def _measure_lines(self, snapshot: NodeSnapshot) -> tuple[Line, ...]:
        shown = measures()[self._measure]
        spans: list[tuple[str, str]] = [(" ", "")]
        for index, measure in enumerate(measures()):
            title = self.gputop.words.say(measure.title)
            spans.append((title, "strong underline" if index == self._measure else "muted"))
            spans.append(("  ", ""))
        width, unit = self.app.size.width - 1, self.gputop.words.say(shown.unit)
        names = wrapped(spans, width, indent=1)
        if len(names) > (1 if self.has_class("-narrow") else 2):
            names = (
                (
                    (f" {self.gputop.words.say(shown.title)}", "strong"),
                    (f"  {self._measure + 1} of {len(measures())}, m: next", "muted"),
                ),
            )
        made_up = (shown.made_up(snapshot), "warn")
        return (*names, *wrapped(((f" {unit}", "muted"), made_up), width, indent=1))

    def _draw_steps(self, report: Report, steps: Board) -> None:
        if report.matrix is None or len(report.snapshot.machine.gpus) < 2:
            steps.show(())
            return
        why = self.why()
        pair = self.query_one("#matrix", PairMatrix).pair
        names = {address: label for label, address in devices(report, measures()[0])}
        if pair is not None:
            steps.caption(f"{names.get(pair[0], pair[0])} to {names.get(pair[1], pair[1])}")
        width = (steps.size.width or 60) - 1
        lines = list[Line]() if pair is None else self._ladder(report, *pair, width)
        steps.show((*lines, *(() if why is None else page_lines(why, width))))

    def _ladder(self, report: Report, src: str, dst: str, width: int) -> list[Line]:
        """The four rungs, and the findings about the two."""
        lines: list[Line] = []
        for part in (
            ladder_lines(report, src, dst, width),
            pair_findings(self.shown, src, dst, width),
            # Below the matrix it stands where the measure shows it.
            () if measures()[self._measure].quantity else pattern_lines(report, src, dst, width),
        ):
            lines += [*part, ()] if part else []
        return lines

    def on_pair_matrix_pair_picked(self, message: PairMatrix.PairPicked) -> None:
        """Explain the pair under the cursor."""
        self.query_one("#steps", Board).scroll_home(animate=False)
        self.redraw()
        if message.twice:
            self.gputop.action_why()

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor of the matrix."""
        self.query_one("#matrix", PairMatrix).move(rows, columns)

    def action_measure(self, step: int) -> None:
        """Show the next or the previous measure."""
        self._show_measure((self._measure + step) % len(measures()))

    def action_scroll_steps(self, lines: int) -> None:
        """Scroll the explanation."""
        self.query_one("#steps", Board).scroll_relative(0, lines, animate=False)

    def action_probe_all(self) -> None:
        """Measure every pair of GPUs."""
        self.gputop.probing.start()

    def commands(self) -> Iterable[SystemCommand]:
        """Measures and probes, by name."""
        for index, measure in enumerate(measures()):
            yield SystemCommand(
                f"Measure: {self.gputop.words.say(measure.title)}",
                self.gputop.words.say(measure.unit),
                partial(self._show_measure, index),
            )
        yield from super().commands()

    def _show_measure(self, index: int) -> None:
        self._measure = index
        self.redraw()

    def selected_text(self) -> str:
        """The explanation of the selected pair."""
        why = self.why()
        return "" if why is None else page_text(why)

    def why(self) -> Page | None:
        """Explain the selected pair."""
        pair = self.query_one("#matrix", PairMatrix).pair
        if pair is None or self.report is None or self.report.graph is None:
            return None
        why = why_pair(self.report.node, *pair)
        return library_first(why) if measures()[self._measure].about == "nccl" else why

    def probe_targets(self) -> tuple[str, ...]:
        """The two GPUs of the selected pair; () for all when a NIC is selected."""
        pair = self.query_one("#matrix", PairMatrix).pair
        if pair is None or self.report is None:
            return ()
        gpus = {gpu.address for gpu in self.report.snapshot.machine.gpus}
        return pair if {*pair} <= gpus else ()


SCREEN = PairsScreen
