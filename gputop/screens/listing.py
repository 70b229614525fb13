"""A list beside a panel about its selected row: what it shows, and the screens that show one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar

from textual.containers import Container
from textual.widget import Widget

from gputop.screens.view import View
from gputop.topology.report import Report
from gputop.widgets.board import Board
from gputop.widgets.named_list import NamedList, with_order
from gputop.widgets.spans import EMPTY, Line, wrapped


class Listing:
    """Rows with names, and a panel for each; made anew of what it shows."""

    nothing: Line = EMPTY
    """What stands in place of rows where there are none."""
    commands: tuple[tuple[str, str], ...] = ()
    """Below it: commands that would change that, and what each does."""
    stacked = False
    """Whether the rows need the whole width, with the panel below them."""

    @property
    def marked(self) -> int:
        """Cells of a row that the cursor covers; 0 for all."""
        return 0

    @property
    def names(self) -> Sequence[str]:
        """A name for each row, in their order; it stays while what is shown grows."""
        raise NotImplementedError

    def caption(self) -> str:
        """What the rows are."""
        raise NotImplementedError

    def head(self, width: int) -> Line:
        """The heads of the columns; EMPTY for none."""
        return EMPTY

    def empty(self, width: int) -> tuple[Line, ...]:
        """What stands there without rows, whole in so many cells."""
        lines = list(wrapped(self.nothing, width, 1))
        for command, does in self.commands:
            lines += wrapped(((f"   {command}", "strong"), (f"  {does}", "muted")), width, 5)
        return tuple(lines)

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """One row, in so many cells."""
        raise NotImplementedError

    def title(self, name: str) -> str:
        """What the panel is about."""
        raise NotImplementedError

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """The panel."""
        raise NotImplementedError

    def copied(self, name: str) -> tuple[str, ...]:
        """What `y` copies, one after the other."""
        return ()


class ListingRows(NamedList):
    """The rows of a listing, below its heads."""

    listing: Listing | None = None
    _ordered: tuple[str, ...] = ()
    _ordered_by: tuple[object, ...] = ()
    """What the order was made from, as a fleet may have a hundred thousand rows."""

    def show_listing(self, listing: Listing) -> None:
        """Show the rows of this one; the cursor stays on its name."""
        self.listing = listing
        width = self.scrollable_content_region.width or 78
        if self._ordered_by != (listing, self.order, width) or not self.order:
            row = partial(listing.row, width=width)
            self._ordered = self.in_order(listing.names, listing.head(width), row)
            self._ordered_by = (listing, self.order, width)
        changed = self.take_names(self._ordered)
        if changed and listing.names:
            self.call_after_refresh(self.reveal_cursor)
        self.draw()

    def draw(self) -> None:
        """Draw all rows."""
        listing = self.listing
        if listing is None:
            return
        width = self.scrollable_content_region.width or 78
        head = listing.head(width)
        self.fixed_rows = 1 if head else 0
        rows = [listing.row(name, width, name == self.selected) for name in self._names]
        lines = [with_order(head, self.column, falling=self.falling), *rows] if head else rows
        shown = lines if rows else listing.empty(width)
        self.show(shown, self.marks_at(listing.marked or width))


class ListedView(View):
    """A NamedList, and a Board about the line under its cursor.

    A screen binds `select_keys` and `scroll_keys("scroll_details", …)`.
    """

    LIST: ClassVar[str]
    """Selector of the list."""
    DETAILS: ClassVar[str]
    """Selector of the board."""

    def on_named_list_picked(self, message: NamedList.Picked) -> None:
        """Draw the panel for the line under the cursor."""
        self.query_one(self.DETAILS, Board).scroll_home(animate=False)
        self.share_selection()
        self.redraw()
        if message.twice:
            self.picked_twice()

    def share_selection(self) -> None:
        """Carry the device of the line under the cursor along to other screens."""

    def picked_twice(self) -> None:
        """What a double click does."""
        self.gputop.action_why()

    def action_move(self, lines: int) -> None:
        """Move the cursor of the list."""
        self.query_one(self.LIST, NamedList).move(lines)

    def action_scroll_details(self, lines: int) -> None:
        """Scroll the board."""
        self.query_one(self.DETAILS, Board).scroll_relative(0, lines, animate=False)


class MasterDetail(ListedView):
    """A screen that shows a listing; a subclass says which, and what it is made of."""

    LIST = "#listing-rows"
    DETAILS = "#listing-detail"

    def body(self) -> Iterable[Widget]:
        """The rows beside the panel."""
        with Container(id="listing"):
            yield ListingRows(id="listing-rows", classes="titled")
            yield Board(id="listing-detail", classes="titled")

    def state_of(self, report: Report) -> tuple[object, ...]:
        """What the listing is made of: it is made anew where this is another."""
        raise NotImplementedError

    def listing_of(self, report: Report) -> Listing:
        """The listing of a report."""
        raise NotImplementedError

    def draw(self, report: Report) -> None:
        """Update both parts; on most ticks nothing has changed."""
        rows, panel, state = self.rows, self.query_one(self.DETAILS, Board), self.state_of(report)
        rows.draw_once(lambda: rows.show_listing(self.listing_of(report)), *state, rows.order)
        if rows.listing is not None:
            rows.caption(rows.listing.caption())
        panel.draw_once(lambda: self._draw_panel(panel), *state, rows.selected)

    def _draw_panel(self, panel: Board) -> None:
        listing, name = self.rows.listing, self.selected_name
        if listing is None or not name:
            panel.caption("")
            panel.show(())
            return
        room = panel.scrollable_content_region
        panel.caption(listing.title(name))
        panel.show(listing.detail(name, max((room.width or 60) - 1, 20), max(room.height, 6)))

    @property
    def rows(self) -> ListingRows:
        """The list."""
        return self.query_one(self.LIST, ListingRows)

    @property
    def selected_name(self) -> str:
        """The name of the selected row; "" in an empty list."""
        rows = self.rows
        return rows.selected if rows.listing is not None and rows.listing.names else ""

    def selected_text(self) -> str:
        """What the listing gives for the selected row."""
        listing, name = self.rows.listing, self.selected_name
        return "" if listing is None or not name else "\n".join(listing.copied(name))
