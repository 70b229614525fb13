"""The shortest way from what a terminal shows to what it has to show."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.terminal.painting.pens import DEFAULT, Pen, change
from gputop.terminal.painting.picture import Picture

LONGEST_BRIDGE = 4
"""Cells that are written again rather than jumped over, as long as the pen stays."""


class Painter:
    """Keeps what the terminal shows, and gives what has to be sent."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._size = (0, 0)
        self._texts: list[list[str | None]] = []
        self._pens: list[list[Pen | None]] = []
        self._stale: set[int] = set()
        self._pen: Pen | None = None
        self._row: int | None = None
        self._column: int | None = None

    def fit(self, columns: int, rows: int) -> None:
        """Draw for a terminal of this size; after a change nothing that it shows is known."""
        if (columns, rows) != self._size:
            self._size = (columns, rows)
            self.forget()

    def forget(self) -> None:
        """Draw everything again: nobody knows what the terminal shows."""
        columns, rows = self._size
        self._texts = [[None] * columns for _ in range(rows)]
        self._pens = [[None] * columns for _ in range(rows)]
        self._stale = set(range(rows))
        self._pen = self._row = self._column = None

    def assume(self) -> None:
        """Take the picture for what the terminal shows already."""
        for row in range(min(self._size[1], len(self._picture.texts))):
            texts, pens = self._wanted(row)
            self._texts[row][: len(texts)] = texts
            self._pens[row][: len(pens)] = pens

    def pending(self) -> bool:
        """Whether something may have to be sent."""
        return bool(self._stale or self._picture.changed)

    def paint(self, most: int | None = None) -> tuple[str, bool]:
        """What to send next, and whether the picture is whole then.

        `most`: bytes, which is kept to within a few cells. Then rows come first in which text only
        gets another ground, and small changes before large ones: there one sees that a key worked.
        """
        self._stale |= self._picture.changed
        self._picture.changed.clear()
        self._stale &= set(range(min(self._size[1], len(self._picture.texts))))
        changes = {row: self._changes(row) for row in sorted(self._stale)}
        self._stale = {row for row, found in changes.items() if found}
        order = sorted(self._stale)
        if most is not None:
            order.sort(key=lambda row: (not self._selects(row, changes[row]), len(changes[row])))
        parts: list[str] = []
        left = most
        for row in order:
            for part in self._paint_row(row, changes[row]):
                parts.append(part)
                if left is not None:
                    left -= len(part.encode())
                    if left <= 0:
                        return "".join(parts), False
            self._stale.discard(row)
        parts += [self.at_rest(), self._to_cursor()]
        return "".join(parts), True

    def at_rest(self) -> str:
        """Leave the terminal's own colours behind: another program may write next."""
        if self._pen is None:
            return ""
        rest, self._pen = change(self._pen, DEFAULT), DEFAULT
        return rest

    def _wanted(self, row: int) -> tuple[list[str | None], list[Pen | None]]:
        """The cells of a row, cut to the width of the terminal."""
        columns = self._size[0]
        texts, pens = self._picture.texts[row], self._picture.pens[row]
        if len(texts) > columns:
            cut = texts[columns] == ""
            texts, pens = texts[:columns], pens[:columns]
            if cut:
                texts[-1] = " "
        return texts, pens

    def _changes(self, row: int) -> list[int]:
        texts, pens = self._wanted(row)
        shown, with_pens = self._texts[row], self._pens[row]
        if texts == shown and pens == with_pens:
            return []
        found = [
            column
            for column, (text, old, pen, old_pen) in enumerate(
                zip(texts, shown, pens, with_pens, strict=False)
            )
            if (text != old or pen != old_pen) and text is not None
        ]
        return self._with_halves(found, texts, shown) if row in self._picture.wide else found

    def _with_halves(
        self, found: list[int], texts: list[str | None], shown: list[str | None]
    ) -> list[int]:
        """Add the other half of each wide character that is written or written over."""
        seen, todo = set(found), list(found)
        while todo:
            column = todo.pop()
            for row in (texts, shown):
                beside = column - 1 if row[column] == "" else column + 1
                halved = row[column] == "" or row[beside : beside + 1] == [""]
                if halved and 0 <= beside < len(texts) and beside not in seen:
                    seen.add(beside)
                    todo.append(beside)
        return sorted(column for column in seen if texts[column] is not None)

    def _selects(self, row: int, found: list[int]) -> bool:
        """Whether cells get another ground below the same text."""
        texts, pens = self._wanted(row)
        return any(
            texts[column] == self._texts[row][column]
            and pens[column] is not None
            and (old := self._pens[row][column]) is not None
            and pens[column].back != old.back  # type: ignore[union-attr]
            for column in found
        )

    def _paint_row(self, row: int, found: list[int]) -> Iterator[str]:
        texts, pens = self._wanted(row)
        shown, with_pens = self._texts[row], self._pens[row]
        narrow = row not in self._picture.wide
        last = self._size[0] - 1
        run: list[str] = []
        for column in found:
            text, pen = texts[column], pens[column]
            if not text or pen is None:
                # The left half of a wide letter brings it.
                shown[column], with_pens[column] = text, pen
                continue
            if (
                narrow
                and self._column == column < last
                and self._row == row
                and self._pen == pen
                and len(text) == 1
            ):
                shown[column], with_pens[column] = text, pen
                self._column = column + 1
                run.append(text)
                continue
            if run:
                yield "".join(run)
                run.clear()
            yield self._write(row, column, texts, pens)
        if run:
            yield "".join(run)

    def _write(self, row: int, column: int, texts: list[str | None], pens: list[Pen | None]) -> str:
        """Go to a cell and write it with its pen."""
        text, pen = texts[column] or "", pens[column] or DEFAULT
        shown, with_pens = self._texts[row], self._pens[row]
        way = self._bridge(row, column, texts, pens)
        if way is None:
            way = self._move(row, column)
        written = f"{way}{change(self._pen, pen)}{text}"
        shown[column], with_pens[column] = text, pen
        self._pen, self._row = pen, row
        after = column + 1
        is_wide = texts[after : after + 1] == [""]
        if is_wide:
            shown[after], with_pens[after] = "", pen
        elif shown[after : after + 1] == [""]:
            shown[after] = None  # half of what was there: terminals differ
        # They do too about the width of what is not one narrow character, and about where the
        # cursor is behind the last column.
        known = len(text) == 1 and not is_wide and after < self._size[0]
        self._column = after if known else None
        return written

    def _bridge(
        self, row: int, column: int, texts: list[str | None], pens: list[Pen | None]
    ) -> str | None:
        """The cells up to this column once more, where that is shorter than a jump."""
        if self._row != row or self._column is None or self._column > column:
            return None
        between = range(self._column, column)
        if len(between) > LONGEST_BRIDGE:
            return None
        cells = [texts[at] for at in between]
        if any(pens[at] != self._pen or not texts[at] for at in between):
            return None
        way = "".join(filter(None, cells))
        short = len(way) == len(cells) and len(way.encode()) <= LONGEST_BRIDGE
        return way if short else None

    def _move(self, row: int, column: int) -> str:
        """The shortest way of the cursor to a cell."""
        ways = [f"\x1b[{row + 1};{column + 1}H" if column else f"\x1b[{row + 1}H"]
        forward = f"\x1b[{column}C" if column > 1 else "\x1b[C" * column
        if self._row == row:
            ways += [f"\x1b[{column + 1}G", f"\r{forward}"]
            if self._column is not None:
                step = column - self._column
                ways.append("\b" * -step if step <= 0 else f"\x1b[{step if step > 1 else ''}C")
        elif self._row is not None:
            if self._row + 1 == row:
                ways.append(f"\r\n{forward}")
            if self._column == column:
                ways.append(f"\x1b[{row + 1}d")
        return min(ways, key=len)

    def _to_cursor(self) -> str:
        """Put the cursor where Textual wants it: hidden, it tells input methods the place."""
        row, column = self._picture.row, self._picture.column
        columns, rows = self._size
        if row is None or row >= rows or column >= columns or (row, column) == self._place():
            return ""
        way = self._move(row, column)
        self._row, self._column = row, column
        return way

    def _place(self) -> tuple[int | None, int | None]:
        return self._row, self._column
