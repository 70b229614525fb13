"""The screen Probes: the list of probes, their progress, and figures with healthy bands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.containers import Container
from textual.widget import Widget

from gputop.measuring import history
from gputop.measuring.announcing import idle_gpus
from gputop.measuring.judged import judged
from gputop.probes.protocol.status import Status
from gputop.screens.probes.entries import entries
from gputop.screens.probes.expected import ExpectedFigures
from gputop.screens.probes.figure_lines import about_lines, entry_lines
from gputop.screens.probes.head import LEVELS, head_lines, known_level, left_out
from gputop.screens.probes.history import history_lines
from gputop.screens.probes.list import ProbeList
from gputop.screens.probes.picture import ProbePicture
from gputop.screens.probes.views import EARLIER, FIGURES, ProbeViews
from gputop.screens.probes.why import why_probe
from gputop.screens.view import View
from gputop.topology.model.page import SIMULATED
from gputop.widgets.board import Board
from gputop.widgets.key import Key, note, scroll_keys, select_keys
from gputop.widgets.spans import wrapped

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.live.selection import PickedDevices
    from gputop.measuring.history import SavedRun
    from gputop.measuring.judged import Judged
    from gputop.screens.probes.entries import ProbeEntry
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report

HINT = " nothing measured yet: r runs this probe, a runs all"


class ProbesScreen(View):
    """The list beside the figures of the selected probe, with a curve or a heat map."""

    TITLE = "Probes"
    KEYS = (
        *select_keys("select a probe", "↑ ↓"),
        Key(
            "r,p",
            "run(False)",
            "run",
            "run the selected probe on all GPUs",
            command="Run the probe",
            about="Measure what is selected",
        ),
        Key(
            "a",
            "run_all(False)",
            "run all",
            "run all probes, one after the other",
            command="Run all probes",
            about="One after the other",
        ),
        Key("P,R", "run(True)", help="the same, although the GPUs are busy", written="P  A"),
        Key("A", "run_all(True)"),
        Key(
            "L",
            "level",
            "level",
            "level: quick, normal or full",
            command="Level",
            about="Quick, normal or full",
        ),
        Key(
            "m,tab",
            "next_view(1)",
            "view",
            "next view: figures, curve, heat map, earlier runs",
            written="Tab  m",
        ),
        Key("shift+tab,M", "next_view(-1)"),
        Key("left,h", "next_picture(-1)", help="another curve or heat map", written="← →"),
        Key("right,l", "next_picture(1)"),
        *scroll_keys("scroll_figures", 5, "scroll the figures"),
        note("on the bars", "├ ┤ the healthy band, ╍ from the least to the largest of several"),
        note("Esc", "cancel what runs"),
    )
    LINE = ("r", "a", "L", "m", "w")

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)
        self._level = known_level(gputop.remembered.get("level"))
        self._views = ProbeViews()
        self._expected = ExpectedFigures()
        self._runs: tuple[SavedRun, ...] = ()
        """Kept runs of this node, oldest first."""
        self._runs_for: object = None

    def body(self) -> Iterable[Widget]:
        """The cost of a run, the list with its head, and the figures with their picture."""
        yield Board(id="probes-head")
        with Container(id="probes"):
            with Container(id="probes-left"):
                yield ProbeList(id="probe-list", classes="titled")
                yield Board(id="probe-about", classes="titled")
                yield Board(id="probe-earlier", classes="titled")
            with Container(id="probes-right"):
                yield Board(id="probe-figures", classes="titled")
                yield ProbePicture(id="probe-picture", classes="titled")

    def on_mount(self) -> None:
        """Follow the suite as well as report and probe."""
        self.watch(self.app, "suite", self.watch_probe, init=False)
        super().on_mount()

    def watch_probe(self) -> None:
        """Show the progress of a probe or a suite."""
        if self.on_screen:
            with self.app.batch_update():
                self.redraw()

    def draw(self, report: Report) -> None:
        """Update every part if anything changed since the last time."""
        table = self.query_one("#probe-list", ProbeList)
        snapshot = report.snapshot
        table.draw_once(
            lambda: self._draw_parts(report, table),
            snapshot.machine,
            idle_gpus(snapshot),
            snapshot.measurements,
            report.node.decided,
            self.gputop.suite,
            self._level,
            self._runs,
            self._views.state,
            self.app.size,
            table.selected,
            tuple(board.scrollable_content_region.size for board in self.query(Board)),
        )

    def _draw_parts(self, report: Report, table: ProbeList) -> None:
        snapshot = report.snapshot
        known, suite = judged(report), self.gputop.suite
        measured, taken = idle_gpus(snapshot)
        gpus = len(measured)
        busy, notes = left_out(measured, taken, snapshot.machine), self.gputop.probing.notes
        made = snapshot.measurements
        rows = entries(made, known, known.names, gpus, self._level, suite, notes)
        table.caption(f"Probes · estimated cost at level {self._level}")
        table.show_entries(rows)
        entry = table.entry
        if entry is None:
            return
        figures = [figure for figure in snapshot.measurements if figure.probe == entry.name]
        self._read_history(report)
        if figures or entry.status == Status.RUNNING:
            self._views.look_at(entry, figures, known, self.has_class("-narrow"))
        else:
            self._expected.look_at(report, entry.name)
            self._views.expect(entry, self._expected, self.has_class("-narrow"))
        width, made_up = self.app.size.width, snapshot.is_demo
        head = head_lines(rows, gpus, self._level, suite, width, busy, simulated=made_up)
        self.query_one("#probes-head", Board).show((*head, *self._views.line()))
        self._draw_entry(report, entry, known)

    def _draw_entry(self, report: Report, entry: ProbeEntry, known: Judged) -> None:
        views, narrow = self._views, self.has_class("-narrow")
        about = self.query_one("#probe-about", Board)
        about.caption(entry.title or entry.name)
        about.show(about_lines(entry, max(self._room(about, 64), 20)))
        self.query_one("#probe-earlier").display = not narrow or views.shown == EARLIER
        self.query_one("#probes-right").display = views.shown != EARLIER or not narrow
        earlier = self.query_one("#probe-earlier", Board)
        earlier.caption("Earlier runs on this node")
        room = self._room(earlier, 64)
        # Comparing hundreds of runs takes too long for every redraw.
        earlier.draw_once(
            lambda: earlier.show(history_lines(self._runs, entry.name, known.names, room)),
            self._runs,
            entry.name,
            known.names,
            room,
        )
        figures = self.query_one("#probe-figures", Board)
        figures.display = not narrow or views.shown == FIGURES
        made_up = f"{SIMULATED} " if entry.simulated else ""
        figures.caption(f"{entry.title or entry.name}: {made_up}figures, ├ ┤ healthy")
        width = max(self._room(figures, 78), 30)
        four_numbers, patterns = known.four_numbers(entry.name), known.patterns(entry.name)
        lines = entry_lines(entry, four_numbers, patterns, width)
        if not lines:
            hint = wrapped(((HINT, "muted"),), width, 1)
            bands = self._expected.lines(width)
            lines = (*hint, (), *bands, (), *(about_lines(entry, width) if narrow else ()))
        figures.show(lines)
        picture = self.query_one("#probe-picture", ProbePicture)
        picture.display = views.draw(picture, report)
        figures.set_class(not picture.display, "-alone")

    def _read_history(self, report: Report) -> None:
        """Read the kept runs of this node in a thread, again after each probe."""
        machine, suite = report.snapshot.machine, self.gputop.suite
        over = () if suite is None else tuple(step.over for step in suite.steps)
        wanted = (tuple(gpu.address for gpu in machine.gpus), over)
        if wanted == self._runs_for:
            return
        self._runs_for = wanted

        def read() -> None:
            found = history.runs(history.node_key(machine))
            self.app.call_from_thread(self._take_runs, found)

        self.run_worker(read, thread=True, exclusive=True, group="history", exit_on_error=False)

    def _take_runs(self, runs: tuple[SavedRun, ...]) -> None:
        if runs != self._runs:
            self._runs = runs
            self.redraw()

    def _room(self, board: Board, otherwise: int) -> int:
        return (board.scrollable_content_region.width or otherwise) - 1

    def take_selection(self, selected: PickedDevices) -> None:
        """Select the pair in the heat map that was picked elsewhere."""
        self.query_one("#probe-picture", ProbePicture).matrix.go_to(selected.pair)

    def on_named_list_picked(self, message: ProbeList.Picked) -> None:
        """Show the probe under the cursor."""
        self.query_one("#probe-figures", Board).scroll_home(animate=False)
        self.redraw()
        if message.twice:
            self.gputop.action_why()

    def action_move(self, lines: int) -> None:
        """Move the cursor of the list."""
        self.query_one("#probe-list", ProbeList).move(lines)

    def action_run(self, force: bool) -> None:
        """Run the selected probe."""
        entry = self.query_one("#probe-list", ProbeList).entry
        if entry is None or entry.seconds is None:
            self.gputop.say("no probe that can run is selected", severity="warning")
        else:
            self.gputop.probing.start_suite((entry.name,), force=force, level=self._level)

    def action_run_all(self, force: bool) -> None:
        """Run all probes."""
        self.gputop.probing.start_suite(force=force, level=self._level)

    def action_level(self) -> None:
        """Choose the next level."""
        self.action_show_level(LEVELS[(LEVELS.index(self._level) + 1) % len(LEVELS)])

    def action_show_level(self, name: str) -> None:
        """Choose a level by its name."""
        self._level = name
        self.gputop.remembered.keep("level", self._level)
        self.redraw()

    def action_next_view(self, step: int) -> None:
        """Show the next or the previous view."""
        self._views.step(step)
        self.redraw()

    def action_show_view(self, name: str) -> None:
        """Show the view of this name."""
        self._views.choose(name)
        self.redraw()

    def action_next_picture(self, step: int) -> None:
        """Show another curve or heat map."""
        self._views.turn(step)
        self.redraw()

    def action_scroll_figures(self, lines: int) -> None:
        """Scroll the figures."""
        self.query_one("#probe-figures", Board).scroll_relative(0, lines, animate=False)

    def selected_text(self) -> str:
        """The figures of the selected probe."""
        entry = self.query_one("#probe-list", ProbeList).entry
        if entry is None:
            return ""
        return f"{entry.name}\n{self.query_one('#probe-figures', Board).text()}"

    def why(self) -> Page | None:
        """Explain the figures of the selected probe."""
        entry = self.query_one("#probe-list", ProbeList).entry
        if entry is None or self.report is None:
            return None
        return why_probe(entry, judged(self.report).notes(entry.name))


SCREEN = ProbesScreen
