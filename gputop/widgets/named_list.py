"""A list whose lines have names, with a cursor that follows a name and not a line."""

from __future__ import annotations

from collections.abc import Iterable

from textual import events
from textual.message import Message

from gputop.widgets.board import Board
from gputop.widgets.spans import Cells


class NamedList(Board):
    """One line a name, below the fixed rows."""

    class Picked(Message):
        """Another name was selected; twice means a double click."""

        def __init__(self, name: str, twice: bool = False) -> None:
            super().__init__()
            self.name = name
            self.twice = twice

    def __init__(
        self,
        *,
        fixed_rows: int = 0,
        id: str | None = None,  # noqa: A002 - Textual's name
        classes: str | None = None,
    ) -> None:
        super().__init__(fixed_rows=fixed_rows, id=id, classes=classes)
        self.selected = ""
        self._names: tuple[str, ...] = ()

    @property
    def place(self) -> int:
        """Number of the selected name, 0 when it is not in the list."""
        return self._names.index(self.selected) if self.selected in self._names else 0

    def go_to(self, name: str) -> None:
        """Select a name, and scroll to it once it is drawn."""
        self.selected = name
        self.call_after_refresh(self.reveal_cursor)

    def take_names(self, names: Iterable[str], *, first: bool = False) -> bool:
        """Whether other names than before stand here now; the cursor stays on its name.

        `first`: it goes to the first of them, as it does where its name is gone.
        """
        before, self._names = self._names, tuple(names)
        if self._names and (first or self.selected not in self._names):
            self.selected = self._names[0]
        return self._names != before

    def draw(self) -> None:
        """Put the lines on screen, with `marks_at`."""
        raise NotImplementedError

    def marks_at(self, width: int) -> tuple[Cells, ...]:
        """The line under the cursor, so many cells of it."""
        return (self._cells(width),) if self._names else ()

    def reveal_cursor(self) -> None:
        """Scroll to the line under the cursor."""
        self.reveal(self._cells(1))

    def watch_show_vertical_scrollbar(self) -> None:
        """Scroll to the cursor now: Textual scrolls nothing that has no scroll bar yet."""
        super().watch_show_vertical_scrollbar()
        if self._names:
            self.call_after_refresh(self.reveal_cursor)

    def _cells(self, width: int) -> Cells:
        return Cells(self.fixed_rows + self.place, 0, width)

    def move(self, lines: int) -> None:
        """Move the cursor."""
        if self._names:
            self._select(min(max(self.place + lines, 0), len(self._names) - 1))

    def _select(self, place: int, twice: bool = False) -> None:
        self.selected = self._names[place]
        self.draw()
        self.reveal_cursor()
        self.post_message(self.Picked(self.selected, twice))

    def on_click(self, event: events.Click) -> None:
        """Select the name under the mouse."""
        at = event.get_content_offset(self)
        place = -1 if at is None else self.line_at(at.y) - self.fixed_rows
        if 0 <= place < len(self._names):
            self._select(place, twice=event.chain > 1)
