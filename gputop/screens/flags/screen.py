"""Flags: every variable, where it is set, its effect here, and what a change would do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.containers import Container
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from gputop.printing.render import render
from gputop.screens.flags.list import FlagList, FlagRow, rows_of
from gputop.screens.flags.text import WIDEST, flag_lines, head_lines, set_words
from gputop.screens.flags.work import FlagsController
from gputop.screens.listing import ListedView
from gputop.terminal.clean import clean
from gputop.topology.flags.catalogue.catalogue import catalogue, unknown
from gputop.topology.flags.values.process import ProcessError, ProcessFlags
from gputop.topology.flags.values.process import read as read_process
from gputop.topology.flags.values.values import for_library, read_value, unread
from gputop.topology.flags.what_if.changes import LIBRARIES
from gputop.topology.flags.what_if.study import Study, versions_to_try
from gputop.topology.model.page import Basis, Fact, Page
from gputop.topology.model.versions import numbers
from gputop.topology.nccl.versions import UnknownVersionError, version_for
from gputop.topology.wiring.gpu_names import gpu_label
from gputop.widgets.board import Board
from gputop.widgets.key import Key, note, scroll_keys, select_keys
from gputop.widgets.panels import ChoicePanel

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.live.selection import PickedDevices
    from gputop.screens.view import View
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report

# Whose variables the Flags screen shows: this shell's, or those a running process has.
HERE, TYPED = "", "typed"
MOST = 200
"""Processes that are offered; a number can be typed for any other."""


class ProcessChoice:
    """Lets the user choose a process; a thread of the screen reads its environment."""

    class Read(Message):
        """The variables of a process, or why they cannot be read."""

        def __init__(self, found: ProcessFlags | None, trouble: str = "") -> None:
            super().__init__()
            self.found = found
            self.trouble = trouble

    def __init__(self, view: View) -> None:
        self._view = view

    def open(self, chosen: ProcessFlags | None) -> None:
        """Offer this shell and the processes on the GPUs; posts Read for the choice."""
        report = self._view.report
        if report is None or not report.snapshot.is_live:
            self._say("processes are those of the live node alone")
            return
        options = [
            (HERE, "this shell and its configuration files"),
            *offered(report.snapshot),
            (TYPED, "another process: type its number"),
        ]

        def look(choice: str | None) -> None:
            if choice == TYPED:
                line = self._view.open_line("number of a process", kind="pid")
                self._view.run_worker(line, exit_on_error=False)
            elif choice is not None:
                self.look_at(choice)

        pid = HERE if chosen is None else str(chosen.pid)
        self._view.app.push_screen(ChoicePanel("Whose variables?", options, pid), look)

    def look_at(self, words: str) -> None:
        """Read a process by its number; "" goes back to this shell."""
        if not words:
            self._view.post_message(self.Read(None))
            return
        if not words.isdecimal() or not 0 < int(words) < 2**31:
            self._say(f"{clean(words, 20)!r} is no number of a process")
            return

        def read() -> None:
            try:
                answer = self.Read(read_process(int(words)))
            except ProcessError as error:
                answer = self.Read(None, str(error))
            self._view.post_message(answer)

        self._view.run_worker(
            read, thread=True, exclusive=True, group="process", exit_on_error=False
        )

    def _say(self, text: str) -> None:
        self._view.gputop.say(text, severity="warning")


def title(process: ProcessFlags) -> str:
    """Name a process: "4711 python3 (alice)"."""
    words = f"{process.pid} {clean(process.command or '', 30)}".strip()
    return f"{words} ({clean(process.user, 30)})" if process.user else words


def offered(snapshot: NodeSnapshot) -> list[tuple[str, str]]:
    """Processes on the GPUs: number, and a line with program, user and GPUs."""
    held: dict[int, list[str]] = {}
    for gpu in snapshot.readings.gpus:
        part = snapshot.machine.gpu(gpu.address)
        label = gpu.address if part is None else gpu_label(part)
        for process in gpu.processes or ():
            held.setdefault(process.pid, []).append(label)
    described = {reading.pid: reading for reading in snapshot.readings.processes}
    found = []
    for pid in sorted(held)[:MOST]:
        known = described.get(pid)
        words = [str(pid), clean((known and known.command) or "", 30)]
        if known is not None and known.user:
            words.append(f"({clean(known.user, 30)})")
        found.append((str(pid), " ".join([*filter(None, words), "on", *held[pid]])))
    return found


# A flag as a page: what it is, what it is set to, and what to watch for.
def explanation(name: str, value: str | None, study: Study | None) -> Page | None:
    """Claim, facts and trap; None without a name."""
    flag = catalogue().flag(name)
    if not name or study is None:
        return None
    if name in LIBRARIES:
        why = version_for(f"{name}-{value}")[1] or "compared with recordings of this very version"
        return Page.why(title=name, claim=f"{name} {value}: {why}.")
    if flag is None:
        return Page.why(title=name, claim=f"{name} is {unknown(name).why}.")
    library = study.whose()
    flag = for_library(flag, library)
    default = flag.default_of(library.name, numbers(library.version))
    facts = [Fact(what="values", value=flag.values, source=flag.source)]
    facts.append(Fact(what="when not set", value=default, source=""))
    reading = None if value is None else read_value(flag, value, library)
    if value is not None and reading is not None:
        answer = f"{value} (counts as {reading.effective})"
        facts.append(Fact(what="value", value=answer, because=reading.why, decides=True, source=""))
    closed = unread(flag, library)
    if closed:
        facts.append(Fact(what="read by this library?", value="no", because=closed, source=""))
    # A variable that is not set has no consequence, and nothing needs a fix.
    if flag.set_when:
        facts.append(
            Fact(what="when to set it", value=flag.set_when, basis=Basis.UNSAID, source="")
        )
    if flag.trap and value is None:
        facts.append(Fact(what="what to watch for", value=flag.trap, basis=Basis.UNSAID, source=""))
    return Page.why(
        title=name,
        claim=flag.changes,
        facts=tuple(facts),
        impact="" if value is None else flag.trap or "",
    )


class FlagsScreen(ListedView):
    """The list beside the explanation, and a what-if."""

    TITLE = "Flags"
    LIST = "#list"
    DETAILS = "#details"
    KEYS = (
        *select_keys("select a flag; * set, + changed here, ! no effect, ? unknown name"),
        Key(
            "e",
            "edit",
            "change",
            "change its value; an empty one takes it away",
            command="Change the flag",
            about="Type a value for it",
        ),
        Key(
            "v",
            "next_value",
            "next value",
            "the next value worth trying",
            command="Try a value",
            about="The next value worth trying",
        ),
        Key("delete,backspace", "take_away", help="take it away"),
        Key(
            "u",
            "undo",
            "undo",
            "undo the last change",
            command="Undo",
            about="Undo the last change of a flag",
        ),
        note("y", "copy the export line of the changes, else the explanation"),
        Key("ampersand", "filter", "filter", "filter by words of names and texts"),
        Key(
            "V",
            "process",
            "process",
            "whose variables: this shell's, or those of a running process",
            command="Process",
            about="Show a process's variables",
        ),
        *scroll_keys("scroll_details", 5, "scroll the explanation"),
    )
    LINE = ("e", "v", "&", "/", "u", "V", "y")

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)
        self.flags = FlagsController(self, gputop.what_if)
        self._choice = ProcessChoice(self)
        self._rows: tuple[FlagRow, ...] = ()
        self._words = ""
        self._first = False
        """Whether the filter has changed, so that its best match is selected."""

    def body(self) -> Iterable[Widget]:
        """What is set in one line, the list beside the explanation."""
        yield Board(id="setting")
        with Container(id="flags"):
            yield FlagList(id="list", classes="titled")
            yield Board(id="details", classes="titled")

    def draw(self, report: Report) -> None:
        """Update every part."""
        setting, details = self.query_one("#setting", Board), self.query_one("#details", Board)
        if not self.flags.loaded:
            self._wait(setting, " reading the catalogue")
            self.flags.load()
            return
        if not report.node.decided:
            self._wait(setting, f" working out what {report.words.library} does")
            return
        self.flags.renew()
        flags, table = self.flags, self.query_one("#list", FlagList)
        state = (flags.study, tuple(flags.tried.wanted.items()), self.app.size)
        table.draw_once(lambda: self._draw_list(table), *state, self._words)
        setting.draw_once(
            lambda: self._draw_head(setting, table.selected),
            *state,
            self._rows,
            flags.details,
            table.selected,
        )
        details.draw_once(
            lambda: self._draw_details(details, table.selected),
            *state,
            flags.details,
            table.selected,
        )
        flags.ask(table.selected)

    def _wait(self, setting: Board, text: str) -> None:
        setting.draw_once(lambda: setting.show((((text, "muted"),),)), text)

    def _draw_list(self, table: FlagList) -> None:
        study, wanted = self.flags.study, self.flags.tried.wanted
        if study is None:
            return
        self._rows = rows_of(
            catalogue(), study.whose(), study.values, wanted, self._words, self.flags.origins
        )
        if not table.selected:
            # The variables are what most come for; the version is one line above.
            names = (row.name for row in self._rows if row.name not in LIBRARIES)
            table.selected = next(names, "")
        table.show_rows(self._rows, first=self._first)
        self._first = False
        process = self.flags.process
        whose = "" if process is None else f" in {title(process)}"
        held = set_words(self._rows, len(study.values))
        count = sum(row.name not in LIBRARIES for row in self._rows)
        many = f"{count} variables"
        if self._words:
            many = f"filter “{clean(self._words, 40)}”: {count} of {len(catalogue().flags)}"
        table.caption(f"{many} · {held}{whose}")

    def _draw_head(self, board: Board, name: str) -> None:
        row = next((row for row in self._rows if row.name == name), None)
        board.show(head_lines(row, self.flags.details, self.app.size.width - 1))

    def _draw_details(self, board: Board, name: str) -> None:
        details = self.flags.details
        width = (board.scrollable_content_region.width or 60) - 1
        library = None if self.flags.study is None else self.flags.study.whose()
        chosen = self.flags.tried.wanted.get(name)
        lines = list(flag_lines(details, name, width, library=library, chosen=chosen))
        if details is not None and details.changes and self.flags.tried.wanted:
            lines += [(), *render(details.changes, min(width, WIDEST))]
        board.show(lines)

    def on_flags_controller_loaded(self) -> None:
        """Draw with the catalogue at hand."""
        self.flags.loaded = True
        self.redraw()

    def on_flags_controller_ready(self, message: FlagsController.Ready) -> None:
        """Show what was worked out."""
        if self.flags.accept(message):
            self.redraw()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Report an error of ours that kept a request from being worked out."""
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            self.gputop.trouble = f"cannot work this out: {type(error).__name__}: {error}"
            self.draw_bars()

    def action_process(self) -> None:
        """Choose whose variables are shown."""
        self._choice.open(self.flags.process)

    def on_process_choice_read(self, message: ProcessChoice.Read) -> None:
        """Study the node with the variables of a process, or with this shell's."""
        if message.trouble:
            self.gputop.say(message.trouble, severity="warning")
            return
        process = message.found
        if process is not None:
            self.gputop.say(" ".join(process.notes), title=title(process), timeout=10)
        self.flags.use(process)
        self.redraw()

    def take_selection(self, selected: PickedDevices) -> None:
        """Select the variable that a search chose, whatever the filter was."""
        name = selected.take_name()
        if name:
            self._words = ""
            self.query_one("#list", FlagList).go_to(name)

    def picked_twice(self) -> None:
        """Change the flag under the mouse."""
        self.call_next(self.action_edit)

    async def action_filter(self) -> None:
        """Open the line where a filter is typed."""
        await self.open_line("filter: words of names and texts", self._words, "filter")

    async def action_edit(self) -> None:
        """Open the line where the new value of the selected flag is typed."""
        name = self.query_one("#list", FlagList).selected
        if name and self.flags.loaded:
            flag = catalogue().flag(name)
            hint = f" ({flag.values})" if flag is not None else ""
            words = f"{name}: a value{hint}; empty takes it away"
            if name in LIBRARIES:
                words = f"{name}: a version, as 2.30 or 2.30.7; empty goes back"
            await self.open_line(words, self.flags.tried.now(name) or "", "edit")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
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
            self._choice.look_at(event.value.strip())
            event.input.remove()
        elif event.value:
            self.set_focus(None)
        else:
            event.input.remove()

    def _change(self, name: str, value: str | None) -> None:
        if self.flags.study is None or not name:
            return
        try:
            self.flags.tried.change(name, value)
        except UnknownVersionError as error:
            self.gputop.say(str(error), severity="warning")
        else:
            self._after_change()

    def _after_change(self) -> None:
        self.query_one("#details", Board).scroll_home(animate=False)
        self.gputop.what_if.show()

    def action_next_value(self) -> None:
        """Try the next of the values worth trying; after the last one none."""
        if self.flags.study is None:
            return
        name = self.query_one("#list", FlagList).selected
        flag = catalogue().flag(name)
        tries = () if flag is None else flag.tries
        if name in LIBRARIES:
            tries = versions_to_try(self.flags.study.whose())
        if not tries:
            self.gputop.say("no values to try: e types one", severity="warning")
            return
        self.flags.tried.next_value(name, tries)
        self._after_change()

    def action_try_row(self, number: int) -> None:
        """Try the value of a row of the table."""
        details, name = self.flags.details, self.query_one("#list", FlagList).selected
        if details is not None and details.name == name:
            self._change(name, details.rows[number].tried)

    def action_take_away(self) -> None:
        """Take the selected variable away."""
        self._change(self.query_one("#list", FlagList).selected, None)

    def action_undo(self) -> None:
        """Undo the last change, of the process or of all screens."""
        if self.flags.process is None:
            self.gputop.what_if.undo()
        elif self.flags.tried.undo():
            self._after_change()
        else:
            self.gputop.say("no what-if is set", severity="warning")

    def back(self) -> bool:
        """Close the input line and clear the filter; False when there is neither."""
        lines = list(self.query(Input))
        for line in lines:
            line.remove()
        had = bool(lines or self._words)
        self._words = ""
        if had:
            self.redraw()
        return had

    def selected_text(self) -> str:
        """The line that sets the changes up; without changes the explanation."""
        if exported := self.flags.tried.export():
            return exported
        return self.query_one("#details", Board).text() if self.flags.loaded else ""

    def why(self) -> Page | None:
        """Explain the selected flag as a claim with its facts."""
        if not self.flags.loaded:
            return None
        name = self.query_one("#list", FlagList).selected
        return explanation(name, self.flags.tried.now(name), self.flags.study)


SCREEN = FlagsScreen
