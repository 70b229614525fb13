"""The screen of a question about the node: the rows of its page beside a panel for each.

The palette opens it; an answer file needs nothing for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from textual.message import Message

from gputop.answers import QUESTIONS
from gputop.answers.question import AnyQuestion
from gputop.printing.render import finding_lines, render
from gputop.screens import NAMES
from gputop.screens.listing import Listing, MasterDetail
from gputop.terminal.clean import clean
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Block, Column, Fact, Facts, Findings, Page, Table, Text
from gputop.widgets.key import scroll_keys, select_keys
from gputop.widgets.spans import EMPTY, Line, cut, heads, left, right

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report

WIDEST = 40
"""Cells of a column that is not the last."""


def questions() -> Iterator[AnyQuestion]:
    """The questions that have a screen: those about the node in sight that need nothing more."""
    for name in (name for name in QUESTIONS if name not in NAMES):
        question: AnyQuestion = import_module(f"gputop.answers.{name}").QUESTION
        if question.is_listed:
            yield question


class PageListing(Listing):
    """A row for each row of the tables of a page and for each of its findings."""

    def __init__(self, page: Page, title: str) -> None:
        self._title = title
        self._rows: dict[str, tuple[Table, tuple[str, ...]] | Finding] = {}
        self._rest: list[Block] = []
        """What stands in no row: below each panel."""
        for block in page.blocks:
            if isinstance(block, Table):
                for row in block.rows:
                    self._add(clean(" ".join(row), 200), (block, row))
            elif isinstance(block, Findings):
                for finding in block.findings:
                    self._add(f"{finding.id} {finding.title}", finding)
            else:
                self._rest.append(block)
        tables = [found[0] for found in self._rows.values() if isinstance(found, tuple)]
        self._columns: tuple[Column, ...] = tables[0].columns if tables else ()
        self.nothing = ((f" {title}: nothing to list", "muted"),)

    def _add(self, name: str, found: tuple[Table, tuple[str, ...]] | Finding) -> None:
        again = sum(known == name or known.startswith(f"{name} #") for known in self._rows)
        self._rows[f"{name} #{again + 1}" if again else name] = found

    @property
    def names(self) -> Sequence[str]:
        """The rows, by what stands in them."""
        return tuple(self._rows)

    def caption(self) -> str:
        """The question."""
        return self._title

    def head(self, width: int) -> Line:
        """The titles of the first table."""
        titles = tuple(column.title for column in self._columns)
        return cut(heads(" ", *self._cells(titles, width)), width) if any(titles) else EMPTY

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """The cells of a row, or the sign and the title of a finding."""
        found = self._rows[name]
        if isinstance(found, Finding):
            sign, ink, _ = found.severity.shown
            return ((f" {sign} ", ink), (left(clean(found.title, 300), max(width - 3, 8)), ""))
        cells = "".join(self._cells(found[1], width))
        return ((f" {left(cells, max(width - 1, 1))}", "strong" if selected else ""),)

    def _cells(self, row: tuple[str, ...], width: int) -> list[str]:
        parts = []
        for at, cell in enumerate(row):
            column = self._columns[at] if at < len(self._columns) else Column("")
            sizes = [
                len(found[1][at])
                for found in self._rows.values()
                if isinstance(found, tuple) and at < len(found[1])
            ]
            size = min(max(len(column.title), *sizes, 0), WIDEST if at + 1 < len(row) else width)
            parts.append((right if column.right else left)(clean(cell, 300), max(size, 1)))
        return [f"{part}  " for part in parts]

    def title(self, name: str) -> str:
        """The rule of a finding, else the first cell."""
        found = self._rows[name]
        return clean(found.id if isinstance(found, Finding) else found[1][0], 60)

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """The cells with their titles, or the whole finding; then the rest of the page."""
        found = self._rows[name]
        rest = render(self._rest, width)
        if isinstance(found, Finding):
            lines = finding_lines(found, width)
        else:
            table, row = found
            pairs = zip(table.columns, row, strict=False)
            facts = [Fact(what=column.title, value=cell, source="") for column, cell in pairs]
            lines = render((Facts(tuple(facts)),), width)
        return (*lines, *((EMPTY, *rest) if rest else ()))

    def copied(self, name: str) -> tuple[str, ...]:
        """The finding or the cells."""
        found = self._rows[name]
        return (found.title if isinstance(found, Finding) else "  ".join(found[1]).strip(),)


class QuestionScreen(MasterDetail):
    """Asks a question of the node in sight, in a thread, and lists the answer."""

    KEYS = (*select_keys("select a row"), *scroll_keys("scroll_details", 5, "scroll the panel"))
    LINE = ("y",)

    class PageReady(Message):
        """A thread has made the page."""

        def __init__(self, page: Page) -> None:
            super().__init__()
            self.page = page

    def __init__(self, question: AnyQuestion, gputop: NodeHost) -> None:
        super().__init__(question.name, gputop)
        self.TITLE = question.name.capitalize()  # type: ignore[misc]
        self._question = question
        self._page = Page(title=question.name)
        self._asked: NodeSnapshot | None = None
        """The snapshot of the last question."""
        self._asking = False

    def draw(self, report: Report) -> None:
        """Ask again about a new snapshot, one at a time; show the last answer."""
        if report.snapshot is not self._asked and not self._asking:
            self._asked, self._asking = report.snapshot, True
            self.run_worker(partial(self._ask, report.snapshot), thread=True, exit_on_error=False)
        super().draw(report)

    def _ask(self, snapshot: NodeSnapshot) -> None:
        question = self._question
        page = self.gputop.guarded(
            lambda: question.page(question.answer(question.request(given=snapshot)))
        )
        text = (Text(self.gputop.trouble),)
        self.post_message(self.PageReady(page or Page(title=question.name, blocks=text)))

    def on_question_screen_page_ready(self, message: PageReady) -> None:
        """Show the answer."""
        self._asking, self._page = False, message.page
        self.redraw()

    def state_of(self, report: Report) -> tuple[object, ...]:
        """The page."""
        return (self._page,)

    def listing_of(self, report: Report) -> Listing:
        """The rows of the page."""
        return PageListing(self._page, self.TITLE)
