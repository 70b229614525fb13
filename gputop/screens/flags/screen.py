"""Flags: every variable, what is set where, what one does here, and what a change would do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Input

from gputop.library_words import words
from gputop.screens.flags.list import FlagList
from gputop.screens.flags.process import FlagProcess
from gputop.widgets.board import Board

if TYPE_CHECKING:
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report


class FlagsScreen(FlagProcess):
    """The list beside the explanation, and a what-if."""

    TITLE = "Flags"
    LIST = "#list"
    TOLD = "#told"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", show=False),
        Binding("enter,e", "edit", show=False),
        Binding("v", "next_value", show=False),
        Binding("delete,backspace", "take_away", show=False),
        Binding("u", "undo", show=False),
        Binding("o", "process", show=False),
    ]
    KEYS = (
        ("e", "change", "screen.edit"),
        ("v", "next value", "screen.next_value"),
        ("u", "undo", "screen.undo"),
        ("/", "filter", "screen.filter"),
        ("o", "process", "screen.process"),
        ("y", "copy", "copy"),
    )
    HELP: ClassVar[tuple[tuple[str, str], ...]] = (  # type: ignore[assignment]
        ("↑ ↓  Home End", "select a flag; * set, + changed here, ! no effect, ? unknown name"),
        ("Enter  e", "change its value; an empty one takes it away"),
        ("v", "the next value worth trying"),
        ("Del", "take it away"),
        ("u", "undo the last change"),
        ("y", "copy the export line of the changes, else the explanation"),
        ("/", "filter by words of names and texts"),
        ("o", "whose variables: this shell's, or those of a running process"),
        ("PgUp PgDn", "scroll the explanation"),
    )

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._words = ""
        self._first = False
        """The filter changed: its best match is what one looks for."""
        self._drawn_for: object = None

    def body(self) -> Iterable[Widget]:
        """What is set in one line, the list beside the explanation."""
        yield Board(id="setting")
        with Container(id="flags"):
            yield FlagList(id="list", classes="titled")
            yield Board(id="told", classes="titled")

    def draw(self, report: Report) -> None:
        """Bring every part up to date."""
        if not self.loaded:
            self.query_one("#setting", Board).show((((" reading the catalogue", "muted"),),))
            self.load()
            return
        if not report.node.decided:
            text = f" working out what {words(report).library} does"
            self.query_one("#setting", Board).show((((text, "muted"),),))
            return
        self.renew(report)
        table = self.query_one("#list", FlagList)
        told = (
            self.study,
            self._words,
            tuple(self.tried.wanted.items()),
            self.told,
            table.selected,
        )
        if (*told, self.app.size, table.size) == self._drawn_for:
            return
        self._draw_list()
        self._draw_told()
        self._drawn_for = (*told, self.app.size, table.size)
        self.ask(table.selected)

    def _draw_list(self) -> None:
        from gputop.screens.flags.list import rows_of
        from gputop.screens.flags.text import setting_lines
        from gputop.topology.flags.catalogue.catalogue import catalogue

        study = self.study
        if study is None:
            return
        table = self.query_one("#list", FlagList)
        rows = rows_of(
            catalogue(),
            study.whose(),
            study.values,
            self.tried.wanted,
            self._words,
            self.origins,
        )
        table.show_rows(rows, first=self._first)
        self._first = False
        found = f" matching {self._words!r}" if self._words else ""
        table.caption(f"{len(rows)} flags{found} · * set {self.whose()}, else the default")
        done = self.done == self.wish and self.told is not None
        summary = self.told.summary if self.told is not None and done else ""
        self.query_one("#setting", Board).show(
            setting_lines(
                rows, len(study.values), self.tried.export(), summary, self.app.size.width - 1
            )
        )

    def _draw_told(self) -> None:
        from gputop.screens.flags.text import told_lines

        board = self.query_one("#told", Board)
        name = self.query_one("#list", FlagList).selected
        ready = self.told is not None and self.told.name == name
        board.caption(name if ready else f"{name} …")
        width = (board.scrollable_content_region.width or 60) - 1
        board.show(told_lines(self.told, name, width, changed=bool(self.tried.wanted)))

    def picked_twice(self) -> None:
        """Change the flag under the mouse."""
        self.call_next(self.action_edit)

    async def action_filter(self) -> None:
        """Open the line where a filter is typed."""
        await self.open_line("filter: words of names and texts", self._words, "filter")

    async def action_edit(self) -> None:
        """Open the line where the new value of the selected flag is typed."""
        name = self.query_one("#list", FlagList).selected
        if name and self.loaded:
            from gputop.topology.flags.catalogue.catalogue import catalogue

            flag = catalogue().flag(name)
            hint = f" ({flag.values})" if flag is not None else ""
            words = f"{name}: a value{hint}; empty takes it away"
            await self.open_line(words, self.tried.now(name) or "", "edit")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while one types."""
        if event.input.has_class("filter"):
            words = event.value[:200]
            self._first = bool(words) and words != self._words
            self._words = words
            self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the value over, or keep the filter."""
        if event.input.has_class("edit"):
            self._change(self.query_one("#list", FlagList).selected, event.value[:4096] or None)
            event.input.remove()
        elif event.input.has_class("pid"):
            self.look_at(event.value.strip())
            event.input.remove()
        elif event.value:
            self.set_focus(None)
        else:
            event.input.remove()

    def _change(self, name: str, value: str | None) -> None:
        if self.study is not None and name:
            self.tried.change(name, value)
            self._after_change()

    def _after_change(self) -> None:
        self.query_one("#told", Board).scroll_home(animate=False)
        self.redraw()

    def action_next_value(self) -> None:
        """Try the next of the values worth trying; after the last one none."""
        if self.study is None:
            return
        from gputop.topology.flags.catalogue.catalogue import catalogue

        name = self.query_one("#list", FlagList).selected
        flag = catalogue().flag(name)
        if flag is None or not flag.tries:
            self.gputop.say("no values to try: e types one", severity="warning")
            return
        self.tried.next_value(name, flag.tries)
        self._after_change()

    def action_take_away(self) -> None:
        """Take the selected variable away."""
        self._change(self.query_one("#list", FlagList).selected, None)

    def action_undo(self) -> None:
        """Undo the last change."""
        if self.tried.undo():
            self._after_change()
        else:
            self.gputop.say("nothing is changed", severity="warning")

    def back(self) -> bool:
        """Close the line one types in, and take the filter away; False when there is neither."""
        lines = list(self.query(Input))
        for line in lines:
            line.remove()
        had = bool(lines or self._words)
        self._words = ""
        if had:
            self.redraw()
        return had

    def commands(self) -> Iterable[SystemCommand]:
        """What can be done with a flag, by name."""
        yield SystemCommand("Change the flag", "Type a value for it (e)", self.action_edit)
        yield SystemCommand(
            "Try a value", "The next value worth trying (v)", self.action_next_value
        )
        yield SystemCommand("Process", "Show a process's variables (o)", self.action_process)
        yield SystemCommand("Undo", "Undo the last change of a flag (u)", self.action_undo)

    def selected_text(self) -> str:
        """The line that sets the changes up; without changes the explanation."""
        if self.tried.wanted:
            return self.tried.export()
        return self.query_one("#told", Board).text() if self.loaded else ""

    def why(self) -> Page | None:
        """Explain the selected flag as a claim with its facts."""
        if not self.loaded:
            return None
        from gputop.screens.flags.why import explanation

        name = self.query_one("#list", FlagList).selected
        return explanation(name, self.tried.now(name), self.study)


SCREEN = FlagsScreen
