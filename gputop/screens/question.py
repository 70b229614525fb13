"""The screen of a question about the node: the rows of its page beside a panel for each.

The palette opens it; an answer file needs nothing for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.message import Message
from textual.widget import Widget

from gputop.answers import QUESTIONS
from gputop.answers.question import AnyQuestion
from gputop.printing.render import UNWRAPPED, finding_lines, page_text, render
from gputop.screens import NAMES
from gputop.screens.listing import Listing, MasterDetail
from gputop.terminal.clean import clean
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import (
    Blank,
    Block,
    Column,
    Entries,
    Fact,
    Facts,
    Findings,
    Heading,
    Page,
    PageEntry,
    Table,
    Text,
)
from gputop.widgets.board import Board
from gputop.widgets.key import scroll_keys, select_keys
from gputop.widgets.spans import EMPTY, Line, cut, heads, left, right, text_of

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.report import Report

WIDEST = 40
"""Cells of a column that is not the last."""
LEAST_CELL = 10
"""Of the columns of entries that compare."""


class _TableRow(NamedTuple):
    """One row of a table."""

    table: Table
    cells: tuple[str, ...]


class _Part(NamedTuple):
    """A heading with what stands below it."""

    heading: Heading
    blocks: list[Block]


class PageListing(Listing):
    """A row for each heading of a page, row of its tables, finding and entry."""

    def __init__(self, page: Page, title: str) -> None:
        self._title = title
        self._rows: dict[str, _TableRow | Finding | PageEntry | _Part] = {}
        self.lead: list[Block] = []
        """What stands before all rows: the answer."""
        self._rest: list[Block] = []
        """What stands in no row: below each panel."""
        part: _Part | None = None
        for block in page.blocks:
            if isinstance(block, Heading):
                part = _Part(block, [])
                if block.text == title:
                    self._title = f"{title} {block.note}".rstrip()
                else:
                    self._add(f"§ {block.text}", part)
                continue
            found = list(_rows_of(block))
            for name, row in found:
                self._add(name, row)
            if part is not None:
                part.blocks.append(block)
            elif not found:
                (self._rest if self._rows else self.lead).append(block)
        tables = [row.table for row in self._rows.values() if isinstance(row, _TableRow)]
        self._columns: tuple[Column, ...] = tables[0].columns if tables else ()
        self._heads = next(
            (block.heads for block in page.blocks if isinstance(block, Entries) and block.heads), ()
        )
        self.nothing = EMPTY if self.lead else ((f" {title}: nothing to list", "muted"),)

    def _add(self, name: str, found: _TableRow | Finding | PageEntry | _Part) -> None:
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
        """The titles of the first table, or what entries compare."""
        if self._heads:
            return heads("   ", *self._compared(self._heads, width))
        titles = tuple(column.title for column in self._columns)
        return cut(heads(" ", *self._cells(titles, width)), width) if any(titles) else EMPTY

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """A heading, the sign and the title of a finding, an entry, or the cells of a row."""
        found, ink = self._rows[name], "strong" if selected else ""
        lead = ("›" if selected else " ", "key bold")
        if isinstance(found, _Part):
            note = (f" {clean(found.heading.note)}", "muted")
            return cut((lead, (clean(found.heading.text, 300), "key bold"), note), width)
        if isinstance(found, Finding):
            sign, harm, _ = found.severity.shown
            return (
                lead,
                (f"{sign} ", harm),
                (left(clean(found.title, 300), max(width - 3, 8)), ink),
            )
        if isinstance(found, _TableRow):
            cells = "".join(self._cells(found.cells, width))
            return (lead, (left(cells, max(width - 1, 1)), ink))
        if found.cells and found.mark is not None:
            cells = "".join(self._compared(found.cells, width))
            return (lead, (f"{found.mark.sign} ", found.mark.ink), (cells, ink))
        return cut((lead, *render((found.line,), UNWRAPPED)[0]), width)

    def _compared(self, cells: Sequence[str], width: int) -> list[str]:
        """The cells of an entry, the first as wide as the names are, the others alike."""
        named = [
            row.cells[0] for row in self._rows.values() if isinstance(row, PageEntry) and row.cells
        ]
        rest = max(len(cells) - 1, 1)
        most = max(width - 3 - rest * LEAST_CELL, LEAST_CELL)
        first = min(max(map(len, named), default=0) + 2, most, width // 2)
        each = max((width - 3 - first) // rest, 1)
        sizes = [first, *(each for _ in cells[1:])]
        return [
            left(clean(cell, 300), size - 1) + " " for cell, size in zip(cells, sizes, strict=True)
        ]

    def _cells(self, row: tuple[str, ...], width: int) -> list[str]:
        parts = []
        for at, cell in enumerate(row):
            column = self._columns[at] if at < len(self._columns) else Column("")
            sizes = [
                len(found.cells[at])
                for found in self._rows.values()
                if isinstance(found, _TableRow) and at < len(found.cells)
            ]
            size = min(max(len(column.title), *sizes, 0), WIDEST if at + 1 < len(row) else width)
            parts.append((right if column.right else left)(clean(cell, 300), max(size, 1)))
        return [f"{part}  " for part in parts]

    def title(self, name: str) -> str:
        """The rule of a finding, the heading, else the first cell."""
        found = self._rows[name]
        if isinstance(found, _Part):
            return clean(found.heading.text, 60)
        if isinstance(found, Finding):
            return clean(found.id, 60)
        return clean(found.cells[0], 60) if found.cells else ""

    def blocks(self, name: str) -> tuple[Block, ...]:
        """What is said of a row, without the rest of the page."""
        found = self._rows[name]
        if isinstance(found, _Part):
            return tuple(found.blocks)
        if isinstance(found, Finding):
            return (Findings((found,), whole=True),)
        if isinstance(found, PageEntry):
            return (found.line, *((Blank(), *found.more) if found.more else ()))
        pairs = zip(found.table.columns, found.cells, strict=False)
        return (Facts(tuple(Fact(what=one.title, value=cell, source="") for one, cell in pairs)),)

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """The whole finding, the entry with all that is known, or the cells; then the rest."""
        found, rest = self._rows[name], render(self._rest, width)
        if isinstance(found, Finding):
            lines = finding_lines(found, width)
        else:
            lines = render(self.blocks(name), width)
        return (*lines, *((EMPTY, *rest) if rest else ()))

    def devices(self, name: str) -> tuple[str, ...]:
        """The PCI addresses of what a row is about."""
        found = self._rows[name]
        return found.devices if isinstance(found, Finding | PageEntry) else ()

    def copied(self, name: str) -> tuple[str, ...]:
        """The finding, the cells, or what stands in the panel."""
        found = self._rows[name]
        if isinstance(found, Finding):
            return (found.title,)
        if isinstance(found, _TableRow):
            return ("  ".join(found.cells).strip(),)
        return (page_text(Page(title=self.title(name), blocks=self.blocks(name))).strip(),)


def _rows_of(block: Block) -> Iterator[tuple[str, _TableRow | Finding | PageEntry]]:
    """The rows that a block makes, each with its name."""
    if isinstance(block, Table):
        for row in block.rows:
            yield clean(" ".join(row), 200), _TableRow(block, row)
    elif isinstance(block, Findings):
        for finding in block.findings:
            yield f"{finding.id} {finding.title}", finding
    elif isinstance(block, Entries):
        for entry in reversed(block.entries) if block.rising else block.entries:
            yield clean(text_of(render((entry.line,), UNWRAPPED)[0]), 200), entry


class PageScreen(MasterDetail):
    """Lists a page: its answer above, a row for each of its things, the selected one beside."""

    KEYS = (*select_keys("select a row"), *scroll_keys("scroll_details", 5, "scroll the panel"))
    LINE: ClassVar[tuple[str, ...]] = ("w", "y")

    class PageReady(Message):
        """A thread has made the page."""

        def __init__(self, page: Page) -> None:
            super().__init__()
            self.page = page

    def __init__(self, name: str, gputop: NodeHost) -> None:
        super().__init__(name, gputop)
        self._page = Page(title=name)

    def body(self) -> Iterable[Widget]:
        """The answer, then the rows beside the panel."""
        yield Board(id="page-head")
        yield from super().body()

    def draw(self, report: Report) -> None:
        """Show the answer, the rows and the selected one."""
        super().draw(report)
        head, width = self.query_one("#page-head", Board), self.app.size.width
        lead = () if self._listing is None else render(self._listing.lead, width - 2)
        head.display = bool(lead)
        head.show(tuple(((" ", ""), *line) for line in lead))

    def on_page_screen_page_ready(self, message: PageReady) -> None:
        """Show the answer."""
        self._page = message.page
        self.redraw()

    @property
    def _listing(self) -> PageListing | None:
        listing = self.rows.listing
        return listing if isinstance(listing, PageListing) else None

    def share_selection(self) -> None:
        """Carry the device of the row along to other screens."""
        listing, name = self._listing, self.selected_name
        if listing is not None and name and (devices := listing.devices(name)):
            self.gputop.selected.pick(*devices[:1])

    def why(self) -> Page | None:
        """The panel, where there is more room."""
        listing, name = self._listing, self.selected_name
        if listing is None or not name:
            return None
        return Page(title=listing.title(name) or self._page.title, blocks=listing.blocks(name))

    def state_of(self, report: Report) -> tuple[object, ...]:
        """The page."""
        return (self._page,)

    def listing_of(self, report: Report) -> Listing:
        """The rows of the page."""
        return PageListing(self._page, self.TITLE)


class QuestionScreen(PageScreen):
    """Asks a question of the node in sight, in a thread, and lists the answer."""

    def __init__(self, question: AnyQuestion, gputop: NodeHost) -> None:
        super().__init__(question.name, gputop)
        self.TITLE = question.name.capitalize()  # type: ignore[misc]
        self._question = question
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

    def on_page_screen_page_ready(self, message: PageScreen.PageReady) -> None:
        """The next snapshot may be asked about; the answer is shown as that of any page."""
        self._asking = False


def questions() -> Iterator[AnyQuestion]:
    """The questions that have a screen: those about the node in sight that need nothing more."""
    for name in (name for name in QUESTIONS if name not in NAMES):
        question: AnyQuestion = import_module(f"gputop.answers.{name}").QUESTION
        if question.is_listed:
            yield question
