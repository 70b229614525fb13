"""The screen Probes: the list of probes, their progress, and figures with healthy bands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual.containers import Container
from textual.widget import Widget

from gputop.measuring import history
from gputop.measuring.announcing import idle_gpus
from gputop.measuring.judged import judged
from gputop.probes.protocol.status import ProbeLevel, Status
from gputop.screens.probes.entries import ProbeEntry, entries
from gputop.screens.probes.expected import ExpectedFigures
from gputop.screens.probes.groups import Group, GroupMember
from gputop.screens.probes.head import head_lines, left_out
from gputop.screens.probes.history import history_lines
from gputop.screens.probes.list import ProbeList
from gputop.screens.probes.picture import ProbePicture
from gputop.screens.probes.views import EARLIER, FIGURES, ProbeViews
from gputop.screens.probes.why import why_probe
from gputop.screens.view import View
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.severity import FigureVerdict, RungState
from gputop.widgets.board import Board
from gputop.widgets.key import Key, note, scroll_keys, select_keys
from gputop.widgets.measures import verdict_word
from gputop.widgets.meters import band_text, figure_bar, progress, verdict_of
from gputop.widgets.spans import Line, Span, left, right, wrapped

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.live.selection import PickedDevices
    from gputop.measuring.history import SavedRun
    from gputop.measuring.judged import Judged
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report

HINT = " nothing measured yet: p runs this probe, a runs all"
ABSENT = " not simulated on a demo: gputop has no figures to expect of it"

WIDE = 84
"""Width from which the band is written beside the verdict."""
_VERDICT = 15
_LEAST_BAR = 10
_SIGNS = {state.ink: state.sign for state in (RungState.YES, RungState.NO)}
"""Ink of an answer in words -> its sign."""
_LOWS = 4
"""How many low figures of a group are listed one by one."""


def about_lines(entry: ProbeEntry, width: int) -> tuple[Line, ...]:
    """What a probe measures and its cost."""
    said = clean(entry.measures or "a probe that this version of gputop does not know", 600)
    cost = [] if entry.seconds is None else [f"about {units.seconds(entry.seconds)}"]
    if entry.memory_bytes:
        cost.append(f"{units.size(entry.memory_bytes)} on each GPU")
    if entry.minimum_gpus:
        cost.append(f"{entry.minimum_gpus} GPU{'s' * (entry.minimum_gpus > 1)} or more")
    if entry.method:
        cost.append(f"method {clean(entry.method, 40)}")
    lines = wrapped(((f" {said}", ""),), width, 1)
    return (*lines, *wrapped(((f" {' · '.join(cost)}", "muted"),), width, 1)) if cost else lines


def entry_lines(
    entry: ProbeEntry, four_numbers: Iterable[str], patterns: Mapping[str, str], width: int
) -> tuple[Line, ...]:
    """Progress or end, figures and notes of a probe; () before its first run."""
    return (
        *standing_lines(entry, width),
        *figure_lines(entry, four_numbers, patterns, width),
        *note_lines(entry, width),
    )


def standing_lines(entry: ProbeEntry, width: int) -> tuple[Line, ...]:
    """The progress of a running probe, or how and why it ended."""
    run = entry.run
    if run is not None and run.status == Status.RUNNING:
        of = f"{run.done}/{run.total} " if run.total else "starting "
        room = max(min(width - 40, 30), 8)
        bar = progress(run.done, run.total, room)
        what = left(entry.what, max(width - room - len(of) - 5, 0)).rstrip()
        return (((" ▶ ", "good"), (of, "strong"), *bar, (f"  {what}", "muted")),)
    if run is None or run.status == Status.WAITING or not entry.text:
        return ()
    sign, ink = entry.state_mark
    if run.status == Status.FINISHED:
        return wrapped(((f" {sign} ", ink), (entry.text, "muted")), width, 3)
    word = run.status.replace("-", " ")
    head: Line = ((f" {sign} {word}: ", ink), (entry.text, ""))
    return wrapped(head, width, 3)


def _cause_lines(entry: ProbeEntry, width: int) -> Iterator[Line]:
    causes = [
        clean(member.judgement.cause, 300)
        for group in entry.groups
        for member in group.members
        if member.judgement is not None and member.judgement.cause
    ]
    if causes:
        yield ()
    # One cause of two figures still differs in the share that is left of each.
    distinct = {cause.partition(":")[0]: cause for cause in reversed(causes)}
    for cause in list(reversed(distinct.values()))[:4]:
        yield from wrapped(((" Cause: ", "warn bold"), (cause, "")), width, 3)


def figure_lines(
    entry: ProbeEntry, four_numbers: Iterable[str], patterns: Mapping[str, str], width: int
) -> tuple[Line, ...]:
    """Bars of all figures, low figures or their pattern, causes, and the four numbers.

    `patterns`: quantity -> a sentence on its matrix.
    """
    if not entry.groups:
        return ()
    lines: list[Line] = []
    columns = _columns(entry.groups, width)
    for group in entry.groups:
        lines += _group(group, columns, listed=not patterns)
        pattern = patterns.get(group.quantity.key)
        if pattern:
            lines += wrapped((("   ! ", "bad"), (clean(pattern, 400), "")), width, 5)
    lines += _cause_lines(entry, width)
    for number, line in enumerate(four_numbers):
        lines += [] if number else [()]
        lines += _four_numbers(line, width)
    return tuple(lines)


def note_lines(entry: ProbeEntry, width: int) -> tuple[Line, ...]:
    """The notes of the probe."""
    lines: list[Line] = [()] if entry.notes and entry.groups else []
    for text in entry.notes:
        lines += wrapped(((" Note: ", "strong"), (text, "")), width, 3)
    return tuple(lines)


def _four_numbers(line: str, width: int) -> tuple[Line, ...]:
    """The line of the four numbers; its last part, the measured one, is bold and never wrapped."""
    before, arrow, last = clean(line, 400).rpartition(" → ")
    if len(line) + 1 <= width:
        return (((f" {before}{arrow}", ""), (last, "strong")),)
    lines = wrapped(((f" {before}", ""),), width, 3)
    return (*lines, ((f"  {arrow}", ""), (last, "strong")))


class _Columns(NamedTuple):
    """Widths of the parts of a row."""

    name: int
    bar: int
    value: int
    band: int


def _columns(groups: Iterable[Group], width: int) -> _Columns:
    """Fit the longest name and figure, but leave a readable bar."""
    groups = tuple(groups)
    wide = width >= WIDE
    band = 11 if wide else 0
    texts = [len(f"{group.range_text} {group.unit}") + 1 for group in groups if group.numbers]
    value = min(max(15, *texts, 0), 20)
    least = 27 if wide else 25
    titles = [len(group.title) + 7 for group in groups]
    name = max(min(max(titles, default=0), width - value - _VERDICT - band - _LEAST_BAR), least)
    return _Columns(name, max(width - name - value - _VERDICT - band, 6), value, band)


def _group(group: Group, columns: _Columns, *, listed: bool) -> list[Line]:
    if not group.numbers:
        return [_words(group, columns)]
    lines = [_row(group.title, group.members, group.range_text, group.unit, group.worst, columns)]
    if listed and 0 < len(group.bad) < len(group.members):
        # If all are low, one line is enough; if some are, name them.
        for member in group.bad[:_LOWS]:
            text = units.figure(member.figure.value)
            lines.append(_row(f"  {member.who}", (member,), text, group.unit, member, columns))
        if len(group.bad) > _LOWS:
            lines.append(((f"   and {len(group.bad) - _LOWS} more", "muted"),))
    return lines


def _row(
    title: str,
    members: Sequence[GroupMember],
    text: str,
    unit: str,
    worst: GroupMember,
    columns: _Columns,
) -> Line:
    """One bar: name, bar with its band, figures, verdict, and the band where there is room."""
    name = columns.name
    values = [member.figure.value for member in members if member.figure.value is not None]
    judgement = worst.judgement
    band = None if judgement is None else judgement.band
    sign, word, ink = verdict_of(judgement)
    if len(members) > 1:
        low = sum(1 for member in members if member.verdict == FigureVerdict.LOW)
        short = f"{title} ×{len(members)}"
        long = f"{short}, {low} low" if 0 < low < len(members) else short
        title = next((text for text in (long, short) if len(text) < name - 1), title)
    spans: list[Span] = [
        (left(f" {title}", name), "muted" if title.startswith("  ") else ""),
        *figure_bar(min(values), max(values), band, "bar" if ink == "muted" else ink, columns.bar),
        (right(f"{text} {unit}", columns.value), "strong"),
        (left(f" {sign} {word}", _VERDICT), ink),
    ]
    if columns.band and band is not None:
        spans.append((right(band_text(band), columns.band), "muted"))
    return tuple(spans)


def _words(group: Group, columns: _Columns) -> Line:
    """A group without numbers: each verdict with its count."""
    counts: dict[str, int] = {}
    for member in group.members:
        said = member.figure.verdict or "no figure"
        counts[said] = counts.get(said, 0) + 1
    spans: list[Span] = [(left(f" {group.title}", columns.name), "")]
    for said, count in counts.items():
        word, ink = verdict_word(said)
        sign = _SIGNS.get(ink, FigureVerdict.NO_REFERENCE.sign)
        spans.append((f"{sign} {word} ", ink))
        spans.append((f"{count} of {len(group.members)}  ", "muted"))
    return tuple(spans)


class ProbesScreen(View):
    """The list beside the figures of the selected probe, with a curve or a heat map."""

    TITLE = "Probes"
    KEYS = (
        *select_keys("select a probe", "↑ ↓"),
        Key(
            "p",
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
        Key("P", "run(True)", help="the same, although the GPUs are busy", written="P  A"),
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
        note("on the bars", "├ ┤ the healthy band, ╍ from the lowest to the highest of several"),
        note("Esc", "cancel what is running"),
    )
    LINE = ("p", "a", "L", "m", "w")

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)
        level = gputop.remembered.get("level")
        self._level = ProbeLevel(level) if level in tuple(ProbeLevel) else ProbeLevel.NORMAL
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
            table.order,
            tuple(board.scrollable_content_region.size for board in self.query(Board)),
        )

    def _draw_parts(self, report: Report, table: ProbeList) -> None:
        snapshot = report.snapshot
        known, suite = judged(report), self.gputop.suite
        measured, taken = idle_gpus(snapshot)
        gpus = len(measured)
        busy, notes = left_out(measured, taken, snapshot.machine), self.gputop.probing.notes
        made = snapshot.measurements
        rows = entries(made, known, known.names, gpus, self._level, suite, notes, snapshot.is_demo)
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
            hint = wrapped(((ABSENT if entry.absent else HINT, "muted"),), width, 1)
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
        """Select the probe that a search chose, and the pair that was picked elsewhere."""
        if name := selected.take_name():
            self.query_one("#probe-list", ProbeList).go_to(name)
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
        elif entry.absent:
            self.gputop.say(f"{entry.name} is not simulated on a demo", severity="warning")
        else:
            self.gputop.probing.start_suite((entry.name,), force=force, level=self._level)

    def action_run_all(self, force: bool) -> None:
        """Run all probes."""
        self.gputop.probing.start_suite(force=force, level=self._level)

    def action_level(self) -> None:
        """Choose the next level."""
        levels = tuple(ProbeLevel)
        self.action_show_level(levels[(levels.index(self._level) + 1) % len(levels)])

    def action_show_level(self, name: str) -> None:
        """Choose a level by its name."""
        self._level = ProbeLevel(name)
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
