"""A list whose lines have names, with a cursor that follows a name and not a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from textual import events
from textual.message import Message

from gputop.widgets.board import Board
from gputop.widgets.spans import Cells, Line, cell_len, text_of, width_of

_FIGURE = re.compile(r"[~<]?(-?\d[\d,]*(?:\.\d+)?) ?([KMGT]i?B|min|[hd]\b)?")
_SCALES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""What a unit begins with -> about how much it is, where a column has several."""


def headings(head: Line) -> Iterator[tuple[str, Cells]]:
    """The titles of a line of heads and the cells of their columns: a span is a column."""
    start = 0
    for text, _ in head:
        end = start + cell_len(text)
        if title := text.strip(" ↓↑"):
            yield title, Cells(0, start, end)
        start = end


def heading_at(head: Line, cell: int) -> str:
    """The title of the column at a cell; "" between two."""
    return next((title for title, at in headings(head) if at.start <= cell < at.end), "")


def with_order(head: Line, title: str, *, falling: bool) -> Line:
    """A line of heads that shows by which column the rows go; an arrow where there is room."""
    arrow = "↓" if falling else "↑"
    shown = []
    for text, ink in head:
        if title and text.strip() == title:
            gap = text.index(title) - 1 if text[0] == " " else len(title)
            text, ink = f"{text[:gap]}{arrow * (gap < len(text))}{text[gap + 1 :]}", "strong"
        shown.append((text, ink))
    return tuple(shown)


def _weight(cell: str) -> tuple[int, float, str]:
    """By what a cell is sorted: figures by how much they are, texts as people count, then none."""
    if found := _FIGURE.match(cell):
        return 2, float(found[1].replace(",", "")) * _SCALES.get((found[2] or "")[:1], 1.0), cell
    return cell not in ("", "–"), 0.0, re.sub(r"\d+", lambda digits: digits[0].zfill(9), cell)


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
        self.column, self.falling = "", False
        """The title of the column that the lines go by, and which end comes first; "" for the
        order in which they are given."""
        self._turns = 0
        """How often its heading was clicked and the lines put in order."""
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

    @property
    def order(self) -> tuple[object, ...]:
        """What a click on a heading asked for; () for the order as given."""
        return (self.column, self.falling, self._turns) if self.column else ()

    def in_order(
        self, names: Iterable[str], head: Line, row: Callable[[str], Line]
    ) -> tuple[str, ...]:
        """These names by the column whose heading was clicked; as given before."""
        cells = dict(headings(head)).get(self.column)
        if cells is None:
            return tuple(names)
        last = cells.end >= width_of(head)
        part = slice(cells.start, None if last else cells.end)
        weights = {name: _weight(text_of(row(name))[part].strip()) for name in names}
        if not self._turns:
            self._turns = 1
            self.falling = any(kind == 2 for kind, _, _ in weights.values())
        return tuple(sorted(weights, key=weights.__getitem__, reverse=self.falling))

    def sort_by(self, title: str) -> None:
        """Go by a column, figures with the largest first; again: reversed; then as given."""
        if title != self.column:
            self.column, self._turns = title, 0
        elif self._turns == 1:
            self.falling, self._turns = not self.falling, 2
        else:
            self.column = ""
        self.post_message(self.Picked(self.selected))

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
        """Select the name under the mouse, or sort by the heading under it."""
        at = event.get_content_offset(self)
        if at is not None and at.y < self.fixed_rows and self._names:
            if title := heading_at(self.lines[0], at.x):
                self.sort_by(title)
            return
        place = -1 if at is None else self.place_at(at.y)
        if 0 <= place < len(self._names):
            self._select(place, twice=event.chain > 1)

    def place_at(self, y: int) -> int:
        """The number of the name at a row of the widget; -1 for none."""
        return self.line_at(y) - self.fixed_rows
