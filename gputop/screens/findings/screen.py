"""Findings: what is wrong here, by harm, with its proof and its cure; and what happened since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from gputop.library_words import explained_in_its_words
from gputop.pages.screen import finding_lines, page_lines, page_text
from gputop.screens.findings.list import FindingList, explained, rows_of
from gputop.screens.listed import ListedView
from gputop.terminal.clean import clean
from gputop.widgets.board import Board
from gputop.widgets.finding_text import event_lines, verdict_lines
from gputop.widgets.spans import Line

if TYPE_CHECKING:
    from gputop.topology.diagnosis.finding import Finding
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report

ASKING: Line = ((" asking the rules…", "muted"),)
NOTHING: Line = ((" nothing found", "good"),)


class FindingsScreen(ListedView):
    """The list beside the selected finding, and what happened while one watched."""

    TITLE = "Findings"
    LIST = "#finding-list"
    TOLD = "#finding"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "silence", show=False),
        Binding("y", "copy_command", show=False),
        Binding("Y", "app.copy", show=False),
    ]
    KEYS = (
        ("w", "why", "why"),
        ("y", "copy command", "screen.copy_command"),
        ("s", "silence", "screen.silence"),
    )
    HELP: ClassVar[tuple[tuple[str, str], ...]] = (  # type: ignore[assignment]
        (
            "↑ ↓  Home End",
            "select a finding: ✗ broken, ▼ slow, ? cannot tell, • notice, ○ by design",
        ),
        ("s", "silence it for this session; again: let it speak"),
        ("y", "copy the command that mends it; again: the next one"),
        ("Y", "copy the whole finding"),
        ("p", "probe the GPUs that it is about"),
        ("PgUp PgDn", "scroll the finding"),
    )

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._drawn_for: object = None

    def body(self) -> Iterable[Widget]:
        """The verdict, the list over the events, the selected finding."""
        yield Board(id="findings-head")
        with Container(id="findings"):
            with Container(id="findings-left"):
                yield FindingList(id="finding-list", classes="titled")
                yield Board(id="events", classes="titled")
            yield Board(id="finding", classes="titled")

    def draw(self, report: Report) -> None:
        """Bring every part up to date; most ticks nothing here has changed."""
        table, told = self._list, self.query_one("#finding", Board)
        events = self.query_one("#events", Board)
        state = (
            report.diagnosis,
            self.gputop.quiet,
            report.events,
            table.selected,
            self.app.size,
            table.size,
            told.size,
            events.size,
        )
        if state == self._drawn_for:
            return
        self._drawn_for = None
        shown, width = self.gputop.shown, self.app.size.width
        self.query_one("#findings-head", Board).show(verdict_lines(shown, width))
        table.caption("Findings, the most harmful first")
        table.show_rows(
            () if shown is None else rows_of(shown), ASKING if shown is None else NOTHING
        )
        self._draw_told(told)
        events.display = bool(report.events)
        events.caption("Happened while this ran")
        room = (events.scrollable_content_region.width or min(width, 74)) - 1
        events.show(event_lines(report.events, room))
        self._drawn_for = (*state[:3], table.selected, *state[4:])

    def _draw_told(self, board: Board) -> None:
        row, shown = self._list.row, self.gputop.shown
        if row is None or shown is None:
            board.caption("")
            board.show(())
            return
        width = max((board.scrollable_content_region.width or 60) - 1, 20)
        if row.finding is not None:
            board.caption(clean(row.finding.id))
            board.show(finding_lines(row.finding, width, row.silenced))
            return
        why = explained_in_its_words(self.report, explained(row, shown))
        board.caption(why.title)
        board.show(page_lines(why, width))

    @property
    def _list(self) -> FindingList:
        return self.query_one("#finding-list", FindingList)

    @property
    def _finding(self) -> Finding | None:
        row = self._list.row
        return None if row is None else row.finding

    def action_silence(self) -> None:
        """Silence the selected finding for this session, or let it speak again."""
        row, finding = self._list.row, self._finding
        if row is None or finding is None:
            self.gputop.say("no finding is selected", severity="warning")
            return
        if row.silenced is not None and finding.key not in self.gputop.quiet:
            self.gputop.say("silenced by this site's policy, not here", severity="warning")
            return
        silent = self.gputop.silence(finding.key)
        self.gputop.say(
            f"{'silenced for this session' if silent else 'speaks again'}: {finding.id}"
        )
        self.redraw()

    def commands(self) -> Iterable[SystemCommand]:
        """What can be done with a finding, by name."""
        yield SystemCommand(
            "Silence the finding", "For this session; again: speak (s)", self.action_silence
        )

    def action_copy_command(self) -> None:
        """Copy the commands that mend it, one by one; without any the whole finding."""
        finding = self._finding
        found = () if finding is None else finding.commands
        if found:
            self.gputop.copy_command(found)
        else:
            self.gputop.action_copy()

    def selected_text(self) -> str:
        """The whole finding."""
        why = self.why()
        return "" if why is None else page_text(why)

    def why(self) -> Page | None:
        """Evidence, rule, consequence and fix of the selected finding."""
        row, shown = self._list.row, self.gputop.shown
        if row is None or shown is None:
            return None
        return explained_in_its_words(self.report, explained(row, shown))

    def probe_targets(self) -> tuple[str, ...]:
        """The GPUs that it is about, where they are two or more; else () for all."""
        finding = self._finding
        if finding is None or self.report is None:
            return ()
        gpus = {gpu.address for gpu in self.report.snapshot.machine.gpus}
        found = tuple(address for address in finding.devices if address in gpus)
        return found if len(found) > 1 else ()


SCREEN = FindingsScreen
