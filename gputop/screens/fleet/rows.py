"""A list of which only the rows in sight are made: it may have a hundred thousand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events

from gputop.widgets.named_list import NamedList
from gputop.widgets.spans import EMPTY, Cells, Line


class FleetRows(NamedList):
    """Rows with names, below one line of heads."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(fixed_rows=1, id=id, classes=classes)
        self._top = 0
        """Number of the first row in sight."""
        self._marked = 0
        self._head: Line = EMPTY
        self._nothing: Line = EMPTY
        self._row: Callable[[str], Line] = lambda _: EMPTY

    def show_rows(
        self,
        names: Sequence[str],
        head: Line,
        row: Callable[[str], Line],
        nothing: Line,
        marked: int = 0,
    ) -> None:
        """Show these rows; `row` makes one of them, `nothing` stands where there are none.

        `marked`: cells that the cursor covers; 0 for all.
        """
        self.take_names(names)
        self._marked = marked
        self._head, self._row, self._nothing = head, row, nothing
        self.draw()

    def go_to_name(self, name: str) -> None:
        """Put the cursor on a name before the rows are shown."""
        self.selected = name or self.selected

    @property
    def seen(self) -> tuple[int, int, int]:
        """First and last row in sight, from 1, and how many there are."""
        count = len(self._names)
        return min(self._top + 1, count), min(self._top + self._room, count), count

    @property
    def _room(self) -> int:
        return max(self.scrollable_content_region.height - self.fixed_rows, 1)

    def draw(self) -> None:
        """Make the rows in sight, with the cursor among them."""
        if not self._names:
            self._top = 0
            self.show((self._nothing,))
            return
        place, room = self.place, self._room
        self._top = min(max(self._top, place - room + 1), place)
        self._top = max(min(self._top, len(self._names) - room), 0)
        rows = self._names[self._top : self._top + room]
        width = self._marked or max(self.size.width, 1)
        self.show((self._head, *(self._row(name) for name in rows)), self.marks_at(width))

    def reveal_cursor(self) -> None:
        """Do nothing: `draw` takes the rows around the cursor."""

    def _cells(self, width: int) -> Cells:
        return Cells(self.fixed_rows + self.place - self._top, 0, width)

    def page(self, pages: int) -> None:
        """Move the cursor by so many screens full."""
        self.move(pages * self._room)

    def on_click(self, event: events.Click) -> None:
        """Select the row under the mouse."""
        event.prevent_default()  # NamedList counts all rows
        at = event.get_content_offset(self)
        place = -1 if at is None else at.y - self.fixed_rows + self._top
        if self._top <= place < min(len(self._names), self._top + self._room):
            self._select(place, twice=event.chain > 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move on."""
        event.stop().prevent_default()
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move back."""
        event.stop().prevent_default()
        self.move(-3)
