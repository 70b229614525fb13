"""Log: compares a debug log of NCCL or RCCL with the prediction, and explains differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from gputop.live.log_thread import LogFailed, LogProgress, LogReady, LogThread
from gputop.pages.log import (
    agreed,
    compared,
    gaps,
    outputs,
    sections,
    version,
)
from gputop.pages.log_findings import headline, nothing_found
from gputop.pages.own_diagnostics import only_diagnostics, verdicts
from gputop.printing.render import page_text, render
from gputop.screens.log.entries import entries, entry_lines, explained
from gputop.screens.log.examples import EXAMPLES
from gputop.screens.view import View, runs_library
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.page import Role, Text
from gputop.widgets.board import Board
from gputop.widgets.key import Key, note, scroll_keys, select_keys
from gputop.widgets.spans import Cells, Line, left, wrapped
from gputop.widgets.typed_line import TypedLine, is_text

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.screens.log.entries import LogEntry
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.hardware.terms import VendorTerms
    from gputop.topology.model.page import Page
    from gputop.topology.report import Report

# The lines above a log: what went wrong and what to do, then what it is; or how to get one.
PASTED = "pasted text"
NO_LOG: tuple[Line, ...] = (((" – No log is open", "strong"),),)
COPY: Line = (("y", "key bold @copy"), (" copies them", "muted"))
VARIABLES = (
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,P2P,SHM,NET,TUNING "
    "NCCL_DEBUG_FILE=nccl.%h.%p.log"
)
"""With these a job writes the log that can be compared best."""


def ways(words: VendorTerms, runs: bool) -> Iterator[Line]:
    """Three ways to a log, logs to try the screen with, and how a job writes one.

    `runs`: whether the library can be run here.
    """
    yield ()
    yield (
        ("   Paste", "key bold"),
        (" a log anywhere, or what a tool of the driver, lspci, ibstat, ", ""),
        (words.fill("{tests} or env printed", tests=f"{words.library.lower()}-tests"), ""),
    )
    yield (("   o", "key bold @screen.open"), (" opens a file, compressed or not", ""))
    run = words.fill(" runs {libraries} on all GPUs here and compares its log")
    if runs:
        yield (("   n", "key bold @app.probe_nccl(False)"), (run, ""))
    else:
        yield (("   n", "muted"), (f"{run}: on a live node, not on this one", "muted"))
    yield ()
    yield (("   E", "key bold @screen.example"), (" opens an example, again the next one:", ""))
    for place, (about, _) in enumerate(EXAMPLES):
        yield ((f"     • {about}", f"key @screen.example({place})"),)
    yield ()
    yield (("   To get a log", "strong"), (" start the job with these variables; ", ""), *COPY)
    yield from (((f"     {setting}", ""),) for setting in VARIABLES.split())
    without = "Without the last one the lines are in the job's output, which works too."
    yield ((f"     {without}", "muted"),)


def head_lines(read: ReadLog | None, progress: str, failure: str, width: int) -> tuple[Line, ...]:
    """What the log says, then its name and version, gaps, progress and failure."""
    lines: list[Line] = [] if read is not None or progress else list(NO_LOG)
    if read is not None:
        log = read.log
        lines += _answer(read, width)
        name = (f" {clean(log.name, 60)}  ", Role.LABEL)
        lines += render((Text((name, *version(log)), hanging=1),), width)
        lines += render((*outputs(log), *gaps(log)), width - 1, 1)
    if progress:
        lines += wrapped(((f" {progress}", "warn"),), width, 1)
    if failure:
        lines += wrapped(((f" ! {clean(failure, 300)}", "bad"),), width, 3)
    return tuple(lines)


def _answer(read: ReadLog, width: int) -> list[Line]:
    """The headline and its first step in two lines; without one, how the prediction fares."""
    head = None if only_diagnostics(read.log) else headline(read)
    if head is None:
        nothing: Line = ((left(f"   {nothing_found(read)}", width), "muted"),)
        if only_diagnostics(read.log):
            return [*render(verdicts(read.log.diagnostics), width, 1), nothing]
        mark, said = agreed(read), left(clean(compared(read), 300), width - 3)
        return [((f" {mark.sign} ", mark.ink), (said, "strong")), nothing]
    sign, ink, _ = head.mark.shown
    more = f" · {head.more} more" if head.more else ""
    room = width - len(more) - 3
    said = left(clean(head.within(room), 300), room).rstrip()
    lines: list[Line] = [((f" {sign} ", ink), (said, f"{ink} bold"), (more, "muted"))]
    what, _, step = head.step.partition(" · Look: ")[0].partition(": ")
    if step:
        what = "Do" if what == "Fix" else what
        lines.append(
            ((f"   {what}  ", "key bold"), (left(clean(step, 400), width - len(what) - 5), ""))
        )
    else:
        lines.append(((left(f"   {nothing_found(read)}", width), "muted"),))
    return lines


class TextPasted(Message):
    """Somebody pasted more than one line."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class PathLine(TypedLine):
    """Where a path is typed; a text of several lines is handed on whole."""

    def on_paste(self, event: events.Paste) -> None:
        """Hand a text on; a single line is typed as ever."""
        if is_text(event.text):
            event.prevent_default()
            event.stop()
            self.post_message(TextPasted(event.text))


class LogScreen(View):
    """The list of findings and differences beside the summary of the log."""

    TITLE = "Log"
    KEYS = (
        Key(
            "o",
            "open",
            "open",
            "open a debug log: a path, compressed or not, or paste a text",
            command="Open a log",
            about="Read a debug log of NCCL or RCCL",
        ),
        Key(
            "n",
            "app.probe_nccl(False)",
            "run {library}",
            "run {libraries} itself on all GPUs and compare its log",
        ),
        Key(
            "E",
            "example",
            "example",
            "open an example, a short log with a fault; again the next one",
            command="Open an example log",
            about="A short log with a fault",
        ),
        *select_keys("select a finding or a difference; Enter says why", "↑ ↓"),
        *scroll_keys("scroll_text", 8, "scroll the log in short", "more"),
        note("Esc", "stop reading, or close the path prompt"),
    )
    LINE = ("o", "E", "n", "w", "PgDn")
    SCROLLED = "#log-text"

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)
        self._reading: LogThread | None = None
        self._progress = ""
        self._failure = ""
        self._read: ReadLog | None = None
        self._entries: list[LogEntry] = []
        self._selected = 0
        self._path = ""
        self._example = -1
        """Place of the example that was opened last."""
        self._run: ReadLog | None = None
        """The run of the probe nccl that was shown last."""

    def body(self) -> Iterable[Widget]:
        """The line about the log, the list of what was found, and the summary of the log."""
        yield Board(id="log-head")
        with Container(id="log"):
            with Container(id="log-left"):
                yield Board(id="log-entries", classes="titled")
                yield Board(id="log-why", classes="titled")
            yield Board(id="log-text", classes="titled")

    def draw(self, report: Report) -> None:
        """Update every part; nothing here depends on readings."""
        if self.gputop.probing.nccl_log is not self._run:
            self._run = self.gputop.probing.nccl_log
            self._take(self._run)
        text, width = self.query_one("#log-text", Board), self.app.size.width
        head = self.query_one("#log-head", Board)
        self.query_one("#log").set_class(self._read is None, "-empty")
        head.draw_once(
            lambda: head.show(
                head_lines(self._read, self._progress, self._failure, max(width - 1, 20))
            ),
            id(self._read),
            self._progress,
            self._failure,
            width,
        )
        if self._read is not None:
            self._draw_entries(self._read)
        text.draw_once(
            lambda: self._draw_text(text), id(self._read), width, runs_library(self.report)
        )

    def _draw_entries(self, read: ReadLog) -> None:
        width, _ = self._widths()
        found, reasons = self.query_one("#log-entries", Board), self.query_one("#log-why", Board)
        found.caption("Comparison and findings")
        reasons.caption("Why")

        def draw() -> None:
            lines = entry_lines(self._entries, self._selected, width)
            found.show(lines, (Cells(self._selected, 0, width),) if lines else ())
            why = self.why()
            reasons.show(() if why is None else render(why.blocks, width - 1))

        found.draw_once(draw, id(read), self._selected, width)

    def _draw_text(self, board: Board) -> None:
        """The log in short; without a log, how to get one."""
        lines: list[Line] = []
        if self._read is None:
            words = self.gputop.words
            board.caption(words.fill("Debug log of {libraries}"))
            width = max(self.app.size.width - 2, 20)
            for line in ways(words, runs_library(self.report)):
                lines += wrapped(line, width, 5) if line else ((),)
        else:
            board.caption("The log in short")
            _, wide = self._widths()
            for section in sections(self._read):
                lines += [*([()] if lines else []), ((f" {section.title}", "strong"),)]
                lines += render(section.blocks, wide - 1, 1)
        board.show(lines)

    def _widths(self) -> tuple[int, int]:
        """Room for the list and for the text, without their bars (gputop.tcss)."""
        width = self.app.size.width
        if self.has_class("-narrow"):
            return width - 1, width - 1
        return width * 2 // 5 - 2, width * 3 // 5 - 2

    async def action_open(self) -> None:
        """Open the line where a path is typed."""
        found = self.query(Input)
        if found:
            found.first().focus()
            return
        placeholder = "path of a debug log, compressed or not; or paste a text"
        await self.open_line(placeholder, self._path, of=PathLine)

    def action_example(self, place: int | None = None) -> None:
        """Open an example; without its place the one after the last."""
        self._example = self._example + 1 if place is None else place
        about, text = EXAMPLES[self._example % len(EXAMPLES)]
        self._open_text(text, f"example: {about}")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Read that file."""
        event.stop()
        path = event.value.strip()
        for line in self.query(Input):
            line.remove()
        self.set_focus(None)
        if path:
            self.open_path(path)

    def on_screen_resume(self) -> None:
        """Read a text that was pasted on any screen."""
        super().on_screen_resume()
        text, self.gputop.pasted = self.gputop.pasted, ""
        if text:
            self._open_text(text)

    def on_text_pasted(self, event: TextPasted) -> None:
        """Read a text that was pasted into the line for the path."""
        event.stop()
        for line in self.query(Input):
            line.remove()
        self.set_focus(None)
        self._open_text(event.text)

    def _open_text(self, text: str, name: str = PASTED) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._failure = ""
        self._start(Path(name), text)

    def _start(self, path: Path, text: str | None = None) -> None:
        snapshot = None if self.report is None else self.report.snapshot
        self._progress = f"reading {clean(path.name, 60)} …"
        self._reading = LogThread(path, snapshot, self.post_message, text)
        self._reading.start()
        self.redraw()

    def open_path(self, text: str) -> None:
        """Begin to read a file; the old log stays until the new one is ready."""
        if self._reading is not None:
            self._reading.cancel()
        self._path, self._failure = text, ""
        try:
            path = Path(text).expanduser()
        except (RuntimeError, ValueError) as error:
            self._failure = f"{text}: {error}"
            self.redraw()
            return
        self._start(path)

    def on_log_progress(self, message: LogProgress) -> None:
        """Show the progress."""
        if message.reading is not self._reading:
            return
        done = units.size(message.read_bytes)
        of = f" of {units.size(message.total_bytes)}" if message.total_bytes else ""
        self._progress = f"reading {clean(message.reading.path.name, 60)}: {done}{of} · Esc stops"
        self.redraw()

    def on_log_ready(self, message: LogReady) -> None:
        """Show the log."""
        if message.reading is not self._reading:
            return
        self._reading, self._progress, self._failure = None, "", ""
        self._take(message.read)
        self.redraw()

    def _take(self, read: ReadLog | None) -> None:
        """Show another log from its beginning; None leaves what is shown."""
        if read is None:
            return
        self._read = read
        head = None if only_diagnostics(read.log) else headline(read)
        wrong = head is not None and head.mark.ink in ("bad", "warn")
        self.gputop.log_sign = head.mark.shown[:2] if head is not None and wrong else None
        self._entries = entries(read)
        self._selected = 0
        for name in ("#log-text", "#log-entries"):
            self.query_one(name, Board).scroll_home(animate=False)

    def on_log_failed(self, message: LogFailed) -> None:
        """Say why the file cannot be used."""
        if message.reading is not self._reading:
            return
        self._reading, self._progress, self._failure = None, "", message.text
        self.redraw()

    def on_unmount(self) -> None:
        """Let go of a file that is being read."""
        if self._reading is not None:
            self._reading.cancel()

    def back(self) -> bool:
        """Close the line for the path, else stop reading; False when there is neither."""
        for line in self.query(Input):
            line.remove()
            return True
        if self._reading is None:
            return False
        self._reading.cancel()
        self._reading, self._progress = None, ""
        self.redraw()
        return True

    def action_move(self, step: int) -> None:
        """Select another entry."""
        if not self._entries:
            self.action_scroll_text(1 if step > 0 else -1)
            return
        self._selected = min(max(self._selected + step, 0), len(self._entries) - 1)
        self.redraw()
        self.query_one("#log-entries", Board).reveal(Cells(self._selected, 0, 1))

    def action_scroll_text(self, lines: int) -> None:
        """Scroll the log in short."""
        self.query_one("#log-text", Board).scroll_relative(0, lines, animate=False)

    def on_click(self, event: events.Click) -> None:
        """Select the entry under the mouse; a double click asks why."""
        board = self.query_one("#log-entries", Board)
        if event.widget is not board:
            return
        place = event.get_content_offset(board)
        row = -1 if place is None else board.line_at(place.y)
        if 0 <= row < len(self._entries):
            self._selected = row
            self.redraw()
            if event.chain > 1:
                self.gputop.action_why()

    def why(self) -> Page | None:
        """Explain the selected entry."""
        if self._read is None or not self._entries:
            return None
        return explained(self._entries[self._selected], self._read)

    def selected_text(self) -> str:
        """The explanation of the selected entry; without a log, how a job writes one."""
        if self._read is None:
            return VARIABLES
        why = self.why()
        if why is None:
            return ""
        return page_text(why)


SCREEN = LogScreen
