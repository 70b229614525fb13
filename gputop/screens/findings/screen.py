"""Findings: what is wrong here, the most harmful first, with proof and fix; and the events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.containers import Container
from textual.widget import Widget

from gputop.printing.render import finding_lines, page_text, render
from gputop.screens.findings.list import FindingList, explained, rows_of
from gputop.screens.listed import ListedView
from gputop.terminal.clean import clean
from gputop.topology.model.page import SIMULATED
from gputop.widgets.board import Board
from gputop.widgets.finding_text import event_lines, verdict_lines
from gputop.widgets.key import Key, note, scroll_keys, select_keys
from gputop.widgets.spans import Line

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.live.selection import PickedDevices
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report

ASKING: Line = ((" asking the rules…", "muted"),)
PLAIN, COSTED = "Findings, the most harmful first", "Findings · GB/s healthy→here"
NOTHING: Line = ((" nothing found", "good"),)


class FindingsScreen(ListedView):
    """The list and the events beside the selected finding."""

    TITLE = "Findings"
    LIST = "#finding-list"
    DETAILS = "#finding"
    KEYS = (
        *select_keys(
            "select a finding: ✗ broken, ▼ slow, ? cannot tell, • notice, ○ by design",
        ),
        Key(
            "s",
            "silence",
            "silence",
            "silence it for this session; again: let it speak",
            command="Silence the finding",
            about="For this session; again: speak",
        ),
        Key(
            "y",
            "copy_command",
            "copy command",
            "copy the command that mends it; again: the next one",
        ),
        Key("Y", "app.copy", help="copy the whole finding"),
        note("p", "probe the GPUs that it is about"),
        *scroll_keys("scroll_details", 5, "scroll the finding"),
    )
    LINE = ("w", "y", "s")

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)

    def body(self) -> Iterable[Widget]:
        """The verdict, the list over the events, the selected finding."""
        yield Board(id="findings-head")
        with Container(id="findings"):
            with Container(id="findings-left"):
                yield FindingList(id="finding-list", classes="titled")
                yield Board(id="events", classes="titled")
            yield Board(id="finding", classes="titled")

    def draw(self, report: Report) -> None:
        """Update every part; on most ticks nothing has changed."""
        table, text = self._list, self.query_one("#finding", Board)
        events = self.query_one("#events", Board)
        head = self.query_one("#findings-head", Board)
        state, width = (report.diagnosis, self.gputop.findings.quiet), self.app.size.width
        head.draw_once(lambda: head.show(verdict_lines(self.shown, width)), *state, width)
        lost = self.shown is not None and any(found.cost for found in self.shown.findings)
        made_up = f", {SIMULATED}" if report.snapshot.simulated else ""
        table.caption(f"{COSTED}{made_up}" if lost else PLAIN)
        table.draw_once(self._draw_list, *state)
        text.draw_once(lambda: self._draw_details(text), *state, table.selected)
        events.display = bool(report.events)
        events.caption("Happened while this ran")
        room = (events.scrollable_content_region.width or min(width, 74)) - 1
        events.draw_once(lambda: events.show(event_lines(report.events, room)), report.events, room)

    def _draw_list(self) -> None:
        shown = self.shown
        if shown is None:
            self._list.show_rows((), ASKING)
        else:
            self._list.show_rows(rows_of(shown), NOTHING)

    def _draw_details(self, board: Board) -> None:
        row, shown = self._list.row, self.shown
        if row is None or shown is None:
            board.caption("")
            board.show(())
            return
        width = max((board.scrollable_content_region.width or 60) - 1, 20)
        if row.finding is not None:
            board.caption(clean(row.finding.id))
            board.show(finding_lines(row.finding, width, row.silenced))
            return
        why = explained(row, shown, self.gputop.words)
        board.caption(why.title)
        board.show(render(why.blocks, width))

    @property
    def _list(self) -> FindingList:
        return self.query_one("#finding-list", FindingList)

    @property
    def _finding(self) -> Finding | None:
        row = self._list.row
        return None if row is None else row.finding

    def take_selection(self, selected: PickedDevices) -> None:
        """Select the finding that a search chose."""
        rule = selected.take_name()
        if rule:
            self._list.select_rule(rule)

    def carry(self) -> None:
        """Carry the device of the finding along."""
        finding = self._finding
        if finding is not None and finding.devices:
            self.gputop.selected.pick(*finding.devices[: 2 if len(finding.devices) == 2 else 1])

    def action_silence(self) -> None:
        """Silence the selected finding for this session, or undo that."""
        row, finding = self._list.row, self._finding
        if row is None or finding is None:
            self.gputop.say("no finding is selected", severity="warning")
            return
        if row.silenced is not None and finding.key not in self.gputop.findings.quiet:
            self.gputop.say("silenced by this site's policy, not here", severity="warning")
            return
        silent = self.gputop.findings.silence(finding.key)
        self.gputop.say(
            f"{'silenced for this session' if silent else 'speaks again'}: {finding.id}"
        )
        self.redraw()

    def action_copy_command(self) -> None:
        """Copy the commands of its fix one by one; without any, the whole finding."""
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
        row, shown = self._list.row, self.shown
        if row is None or shown is None:
            return None
        return explained(row, shown, self.gputop.words)

    def probe_targets(self) -> tuple[str, ...]:
        """The GPUs that the finding is about if there are two or more; else () for all."""
        finding = self._finding
        if finding is None or self.report is None:
            return ()
        gpus = {gpu.address for gpu in self.report.snapshot.machine.gpus}
        found = tuple(address for address in finding.devices if address in gpus)
        return found if len(found) > 1 else ()


SCREEN = FindingsScreen
