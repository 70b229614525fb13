"""Pairs: what the selected pair uses and why, above a matrix of all pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.containers import Container
from textual.widget import Widget

from gputop.measuring.judged import judged
from gputop.printing.render import page_text, render
from gputop.screens.pairs.answer import answer_lines
from gputop.screens.pairs.ladder import evidence_lines
from gputop.screens.view import View
from gputop.terminal.clean import clean
from gputop.topology.explain.nccl import library_first, pair_decision
from gputop.topology.explain.why import why_pair
from gputop.topology.flags.what_if.in_words import distance
from gputop.topology.model.gathered import gathered_by
from gputop.topology.model.quantities import TRANSPORT, WRITE
from gputop.topology.model.severity import FigureVerdict
from gputop.widgets.board import Board
from gputop.widgets.key import Key, note, scroll_keys
from gputop.widgets.link_matrix import READING
from gputop.widgets.measure import MEASURED, Measure, measured
from gputop.widgets.measures import healthy_of, visible
from gputop.widgets.pair_matrix import PairMatrix
from gputop.widgets.spans import Line, Span, width_of, wrapped

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.live.selection import PickedDevices
    from gputop.topology.flags.what_if.remedy import Remedy
    from gputop.topology.hardware.terms import VendorTerms
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report
    from gputop.widgets.measure import Pair

LEAST_EVIDENCE = 50
"""Cells that the evidence beside the matrix keeps."""

# The names of the measures above the matrix, in their groups.
NOTHING = "nothing yet"


def measure_lines(
    shown: Sequence[Measure], chosen: Measure, words: VendorTerms, made_up: str, width: int
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
    unit: Line = ((f" {words.fill(chosen.unit)}", "muted"), (made_up, "warn"))
    return (whole, *wrapped(unit, width - 1, 1)[:1])


def _near(shown: Sequence[Measure], chosen: Measure, beside: int) -> list[Measure]:
    """The measures without those of the chosen one's group that are further from it than this."""
    group = [measure for measure in shown if measure.group == chosen.group]
    place = group.index(chosen) if chosen in group else 0
    far = {measure.id for at, measure in enumerate(group) if abs(at - place) > beside}
    return [measure for measure in shown if measure.id not in far]


def _names(
    shown: Sequence[Measure], chosen: Measure, words: VendorTerms, *, all_open: bool
) -> Line:
    groups = gathered_by(shown, lambda measure: measure.group)
    spans: list[Span] = []
    for group, members in groups.items():
        here = chosen in members
        button = f"@screen.show_measure('{members[0].id}')"
        spans.append((f" {words.fill(group)} ", f"{'strong' if here else 'muted'} {button}"))
        if not (all_open or here):
            spans.append((f"({len(members)}) ", f"muted {button}"))
            continue
        for measure in members:
            ink = "key bold underline" if measure is chosen else ""
            button = f"@screen.show_measure('{measure.id}')"
            spans += [(" ", ""), (words.fill(measure.title), f"{ink} {button}".strip()), (" ", "")]
        spans.append((" ", ""))
    if MEASURED not in groups:
        spans += [(f" {MEASURED} ", "muted"), (f" {NOTHING}", "muted")]
    return tuple(spans)


# Which pair is shown first: the one that is worst off.
def worst_pair(report: Report, device: str | None = None) -> Pair | None:
    """The pair that was measured low, else without P2P, else by the narrowest and longest way.

    `device`: the GPU that sends, None for any. None where nothing tells pairs apart yet.
    """
    low = _measured_low(report, device)
    if low is not None:
        return low
    pairs = () if report.prediction is None else report.prediction.pairs
    found = [pair for pair in pairs if device in (None, pair.src_bus_id)]
    worst = min(
        found,
        key=lambda pair: (
            pair.transport == "P2P",
            pair.bandwidth_gbs or 0.0,
            -distance(pair.path),
            pair.src,
            pair.dst,
        ),
        default=None,
    )
    return None if worst is None else (worst.src_bus_id, worst.dst_bus_id)


def _measured_low(report: Report, device: str | None) -> Pair | None:
    figures = measured(report.snapshot, WRITE) if report.snapshot.measurements else {}
    known = judged(report) if figures else None
    shares: dict[Pair, float] = {}
    for pair, found in figures.items():
        judgement = None if known is None else known.of(found)
        low = judgement is not None and judgement.verdict is FigureVerdict.LOW
        if low and judgement is not None and judgement.share and device in (None, pair[0]):
            shares[pair] = judgement.share
    return min(shares, key=lambda pair: shares[pair], default=None)


# The change of a variable that would give a pair P2P, tried as soon as it is known.
class Trial:
    """Asks for the change, which a thread predicts, and tries it when somebody wants it."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self._wanted = False

    def start(self, report: Report | None, pair: Pair | None) -> None:
        """Try what gives the pair P2P; where it has P2P, offer the usual changes."""
        self._wanted = report is not None and pair is not None and _lacks_p2p(report, pair)
        if not self._wanted:
            self._host.action_what_if()

    def drop(self) -> None:
        """Try nothing: another pair is selected."""
        self._wanted = False

    def remedy(self, report: Report, pair: Pair | None) -> tuple[bool, Remedy | None]:
        """Whether it is known what gives the pair P2P, and the change."""
        if pair is None or not _lacks_p2p(report, pair):
            return False, None
        known, change = self._host.what_if.remedy(*pair)
        if self._wanted and known:
            self._wanted = False
            if change is None:
                self._host.say("no single variable gives this pair P2P", severity="warning")
            else:
                self._host.what_if.change(change.name, change.value)
        return known, change


def _lacks_p2p(report: Report, pair: Pair) -> bool:
    decision = pair_decision(report.node, *pair)
    return decision is not None and decision.transport != "P2P"


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
        Key(
            "f",
            "try",
            "try",
            "try the variable that would give the pair P2P, on all screens",
            command="Try what gives P2P",
            about="The variable that would give the selected pair P2P",
        ),
        note("✓ ~ ▼ ✗ ○ –", "yes, assumed, yes but less, no, no by design, not tested yet"),
        *scroll_keys("scroll_steps", 5, "scroll the explanation"),
    )
    LINE = ("m", "f", "w", "p", "a", "n")

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)
        self._measure = ""
        """Id of the chosen measure; "" until one is chosen."""
        self._device: str | None = None
        """The GPU whose worst pair is shown until a pair is picked; None for any."""
        self._open = True
        """Whether nobody has picked a pair yet."""
        self._trial = Trial(gputop)

    def body(self) -> Iterable[Widget]:
        """The answer, the names of the measures, the matrix beside the evidence."""
        yield Board(id="answer")
        yield Board(id="measure")
        with Container(id="pairs"):
            yield PairMatrix(id="matrix", classes="titled")
            yield Board(id="steps", classes="titled")
        yield Board(id="pattern")

    @property
    def matrix(self) -> PairMatrix:
        """The matrix, which keeps the selected pair."""
        return self.query_one("#matrix", PairMatrix)

    @property
    def measure(self) -> Measure:
        """The measure in the matrix."""
        shown = {measure.id: measure for measure in visible(self.report)}
        wanted = (self._measure, WRITE, TRANSPORT)
        return next(shown[name] for name in wanted if name in shown)

    def draw(self, report: Report) -> None:
        """Bring every part up to date."""
        matrix, snapshot = self.matrix, report.snapshot
        if self._open:
            matrix.pair = worst_pair(report, self._device) or matrix.pair
            self._open = not report.node.decided
        remedy = self._trial.remedy(report, matrix.pair)
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
        names.draw_once(lambda: self._draw_measures(names), self._measure, *state[:2], width)
        matrix.draw_once(lambda: self._draw_matrix(report, matrix), *state, matrix.pair, width)
        answer = self.query_one("#answer", Board)
        answer.draw_once(
            lambda: self._draw_answer(report, answer, remedy), *state, remedy, matrix.pair, width
        )
        steps.draw_once(lambda: self._draw_steps(report, steps), *state, matrix.pair)
        pattern.draw_once(
            lambda: self._draw_pattern(report, pattern), *state[:2], self._measure, width
        )
        wider = "← → " if matrix.wider else ""
        matrix.caption(f"{wider}rows send, columns receive{matrix.legend}")

    def _draw_answer(
        self, report: Report, board: Board, remedy: tuple[bool, Remedy | None]
    ) -> None:
        pair = self.matrix.pair
        board.display = pair is not None
        if pair is not None:
            board.show(answer_lines(report, pair, self.shown, remedy, self.app.size.width))

    def _draw_measures(self, board: Board) -> None:
        measure, words = self.measure, self.gputop.words
        made_up = "" if self.report is None else measure.made_up(self.report.snapshot)
        width = self.app.size.width
        board.show(measure_lines(visible(self.report), measure, words, made_up, width))

    def _draw_matrix(self, report: Report, matrix: PairMatrix) -> None:
        if len(report.snapshot.machine.gpus) < 2:
            matrix.show((((" a pair needs two GPUs", "muted"),),))
        elif report.matrix is None:
            matrix.show(READING)
        else:
            measure = self.measure
            if not self.has_class("-narrow"):
                room = self.app.size.width - LEAST_EVIDENCE
                matrix.styles.width = min(matrix.fit(report, measure, room), room)
            else:
                matrix.styles.width = "1fr"
            matrix.show_measure(report, measure, self.shown, healthy_of(report, measure))

    def _draw_pattern(self, report: Report, board: Board) -> None:
        """Show what the pattern of the measured matrix means; hide the board if there is none."""
        quantity = self.measure.quantity
        text = judged(report).pattern(quantity) if quantity else ""
        board.display = bool(text)
        head: Line = ((" ! ", "bad"), (clean(text, 400), ""))
        board.show(wrapped(head, self.app.size.width - 1, 3) if text else ())

    def _draw_steps(self, report: Report, steps: Board) -> None:
        if report.matrix is None or len(report.snapshot.machine.gpus) < 2:
            steps.show(())
            return
        why, pair = self.why(), self.matrix.pair
        steps.caption("Evidence")
        width = (steps.size.width or 60) - 1
        # Below the matrix the pattern stands where the measure shows it.
        patterns = not self.measure.quantity
        lines = () if pair is None else evidence_lines(report, pair, self.shown, patterns, width)
        steps.show((*lines, *(() if why is None else render(why.blocks, width))))

    def take_selection(self, selected: PickedDevices) -> None:
        """Show the pair that was picked elsewhere, or the worst pair of the GPU."""
        if selected.pair is not None:
            self.matrix.pair, self._open = selected.pair, False
        elif selected.device is not None and selected.device != self._device:
            self._device, self._open = selected.device, True

    def action_try(self) -> None:
        """Try what would give the selected pair P2P."""
        self._trial.start(self.report, self.matrix.pair)
        self.redraw()

    def on_pair_matrix_pair_picked(self, message: PairMatrix.PairPicked) -> None:
        """Explain the pair under the cursor."""
        self._open = False
        self._trial.drop()
        self.query_one("#steps", Board).scroll_home(animate=False)
        self.redraw()
        if message.twice:
            self.gputop.action_why()

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor of the matrix."""
        self.matrix.move(rows, columns)

    def action_measure(self, step: int) -> None:
        """Show the next or the previous measure."""
        shown = visible(self.report)
        self.action_show_measure(shown[(shown.index(self.measure) + step) % len(shown)].id)

    def action_scroll_steps(self, lines: int) -> None:
        """Scroll the explanation."""
        self.query_one("#steps", Board).scroll_relative(0, lines, animate=False)

    def action_probe_all(self) -> None:
        """Measure every pair of GPUs."""
        self.gputop.probing.start()

    def commands(self) -> Iterable[SystemCommand]:
        """Measures and probes, by name."""
        for measure in visible(self.report):
            yield SystemCommand(
                f"Measure: {self.gputop.words.fill(measure.title)}",
                self.gputop.words.fill(measure.unit),
                partial(self.action_show_measure, measure.id),
            )
        yield from super().commands()

    def action_show_measure(self, name: str) -> None:
        """Show the measure with this id."""
        self._measure = name
        self.redraw()

    def selected_text(self) -> str:
        """The explanation of the selected pair."""
        why = self.why()
        return "" if why is None else page_text(why)

    def why(self) -> Page | None:
        """Explain the selected pair."""
        pair = self.matrix.pair
        if pair is None or self.report is None or self.report.graph is None:
            return None
        why = why_pair(self.report.node, *pair)
        return library_first(why) if self.measure.about == "nccl" else why

    def probe_targets(self) -> tuple[str, ...]:
        """The two GPUs of the selected pair; () for all when a NIC is selected."""
        pair = self.matrix.pair
        if pair is None or self.report is None:
            return ()
        gpus = {gpu.address for gpu in self.report.snapshot.machine.gpus}
        return pair if {*pair} <= gpus else ()


SCREEN = PairsScreen
