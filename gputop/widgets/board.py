"""Board: lines of spans on screen. Every screen is made of boards; this is how gputop draws.

Whoever draws makes all lines anew and gives them to `show`, which compares them with those on
screen and repaints the cells that differ. Where making the lines takes long, `draw_once` skips it
as long as what they are made of stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gputop.terminal.clean import clean
from gputop.theming import inks_of
from gputop.widgets.kept_lines import KeptLines
from gputop.widgets.spans import Cells, Grid, Line, text_of, width_of

if TYPE_CHECKING:
    from rich.style import Style

    from gputop.theming import Inks


class Board(ScrollView, KeptLines):
    """Shows lines; the first `fixed_rows` and the first `fixed_columns` cells never scroll.

    Its only state is the given lines and how far it is scrolled.
    """

    class RoomChanged(Message):
        """A board has another room than its lines were made for."""

    can_focus = False
    mark_ink = "cursor"
    """Ink of the cells under the cursor."""

    def __init__(
        self,
        *,
        fixed_rows: int = 0,
        fixed_columns: int = 0,
        id: str | None = None,  # noqa: A002 - Textual's name
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.fixed_rows = fixed_rows
        self.fixed_columns = fixed_columns
        self.lines: tuple[Line, ...] = ()
        self.marks: tuple[Cells, ...] = ()
        """Cells under the cursor."""
        self.grid: Grid | None = None
        """Where the lines of a matrix may be cut at the right."""
        self._strips: dict[int, Strip] = {}
        self._widths: list[int] = []
        """Cells of each line."""
        self._inks: Inks | None = None
        """The inks of the theme in use."""
        self._ground_style: Style | None = None
        self._inked: dict[str, Style] = {}
        """Inks over the ground of this board, as they are drawn."""
        self._caption = ""
        self._drawn: tuple[object, ...] | None = None
        """The size and the inputs of the last `draw_once`."""
        self._drawn_in: Size | None = None
        """The room when lines were made last; None before the first."""

    def draw_once(self, draw: Callable[[], object], *inputs: object) -> None:
        """Call `draw`, unless the last call had equal inputs and the board the same size.

        The inputs are all that the drawing depends on besides the size. They are compared with
        `==`; give `id(x)` where that takes long. A board that is drawn this way is drawn no other
        way, save by `draw` itself. A drawing that fails is tried again.
        """
        self._drawn_in = self.scrollable_content_region.size
        key = (self.size, self._drawn_in, *inputs)
        if key != self._drawn:
            self._drawn = None
            draw()
            self._drawn = key

    def _differing(
        self, old: Sequence[Line], new: Sequence[Line], moved: Container[int]
    ) -> Iterator[Region]:
        """The cells to be drawn again; notes the widths of the lines that differ."""
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else None
            after = new[index] if index < len(new) else None
            if before != after:
                self._strips.pop(index, None)
                start, end = _difference(before, after)
                if end is None and after is not None:
                    self._widths[index : index + 1] = (width_of(after),)
                # The mark lies over the whole line, whatever part of its text differs.
                seen = (0, None) if index in moved else (start, end)
                yield from self._cells_seen(index, *seen)
            elif index in moved:
                yield from self._cells_seen(index, 0, None)

    def show(self, lines: Sequence[Line], marks: Sequence[Cells] = ()) -> None:
        """Put these lines on screen, with the cursor over `marks`; only differences are drawn."""
        self._drawn_in = self.scrollable_content_region.size
        old, new = self.lines, tuple(lines)
        old_marks, new_marks = self.marks, tuple(marks)
        if old == new and old_marks == new_marks:
            return
        self.lines, self.marks = new, new_marks
        del self._widths[len(new) :]
        moved = {mark.line for mark in set(old_marks) ^ set(new_marks)}
        if changed := [*self._differing(old, new, moved)]:
            self.refresh(*changed)
        size = Size(max(self._widths, default=0), len(new))
        if size != self.virtual_size:
            # A layout that came before the one that is still wanted has kept the height of the old
            # lines; Textual asks for it again only where this number is another one.
            self._layout_updates += self._layout_required
            self.virtual_size = size

    def caption(self, text: str) -> None:
        """Write into the rule above the board, as plain text."""
        if text != self._caption:
            self._caption = text
            # Content, never a string: a string would be read as markup.
            self.border_title = Content(clean(text, 200))

    def text(self) -> str:
        """All lines as plain text."""
        return "\n".join(text_of(line).rstrip() for line in self.lines)

    def reveal(self, cells: Cells) -> None:
        """Scroll as little as needed so that these cells are visible."""
        width, height = self.scrollable_content_region.size
        x, y = self.scroll_offset
        if cells.line >= self.fixed_rows and height > self.fixed_rows:
            y = min(y, cells.line - self.fixed_rows)
            y = max(y, cells.line - height + 1)
        if cells.start >= self.fixed_columns and width > self.fixed_columns:
            x = min(x, cells.start - self.fixed_columns)
            x = max(x, cells.end - width)
        if (x, y) != self.scroll_offset:
            self.scroll_to(x, y, animate=False)

    @property
    def has_more(self) -> bool:
        """Whether there are lines below or above those that can be seen."""
        return len(self.lines) > self.scrollable_content_region.height > 0

    @property
    def fits(self) -> bool:
        """Whether what is drawn was made for the room that this board has."""
        unseen = not self.display or self._drawn_in is None
        return unseen or self._drawn_in == self.scrollable_content_region.size

    def on_resize(self) -> None:
        """Ask for another drawing where the room is another one."""
        if not self.fits:
            self.post_message(self.RoomChanged())

    def watch_show_vertical_scrollbar(self) -> None:
        """Ask for another drawing, because a scroll bar takes a column."""
        self.on_resize()

    def room(self, lines: int) -> int:
        """Cells that can be seen of so many lines, beside the scroll bar that they may need."""
        bar = self.styles.scrollbar_size_vertical if lines > self.size.height else 0
        return max(self.size.width - bar, 0)

    @property
    def wider(self) -> bool:
        """Whether lines go on beyond the right edge: cut between two columns they look whole."""
        return self.virtual_size.width > self.room(len(self.lines)) > 0

    def line_at(self, y: int) -> int:
        """Which line is drawn at row `y` of the widget."""
        return y if y < self.fixed_rows else y + self.scroll_offset.y

    def column_at(self, x: int) -> int:
        """Which cell of its line is drawn at column `x` of the widget."""
        return x if x < self.fixed_columns else x + self.scroll_offset.x

    def notify_style_update(self) -> None:
        """Forget what was drawn in the old colours."""
        self._forget_styles()
        super().notify_style_update()

    def release_lines(self) -> None:
        """Let go of the rendered lines; each is rendered again when it is drawn next."""
        super().release_lines()
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """Draw one row of the widget."""
        width = self.size.width
        base = self._ground()
        index = self.line_at(y)
        if index >= len(self.lines):
            return Strip.blank(width, base)
        strip = self._strips.get(index)
        if strip is None:
            strip = self._strips[index] = self._draw(self.lines[index])
        for mark in self.marks:
            if mark.line == index:
                strip = self._mark(strip, mark)
        scrolled, fixed = self.scroll_offset.x, self.fixed_columns
        gap = 0
        if self.grid is not None and index < self.grid.lines:
            room = self.scrollable_content_region.width or width
            strip = strip.crop(0, self.grid.last(scrolled + room))
            gap = self.grid.first(scrolled + fixed) - scrolled - fixed if scrolled else 0
        if not scrolled or not fixed:
            return strip.crop_extend(scrolled, scrolled + width, base)
        head = strip.crop_extend(0, min(fixed, width), base).extend_cell_length(fixed + gap, base)
        tail = strip.crop_extend(scrolled + fixed + gap, scrolled + max(width, fixed + gap), base)
        return Strip.join([head, tail])

    def _draw(self, line: Line) -> Strip:
        return Strip([Segment(text, self._style(ink)) for text, ink in line if text])

    def _forget_styles(self) -> None:
        self._strips.clear()
        self._inked.clear()
        self._ground_style = None

    def _ground(self) -> Style:
        # The style depends on all parents of this board, which takes too long for each line.
        inks = inks_of(self.app)
        if self._ground_style is None or inks is not self._inks:
            self._forget_styles()
            self._inks = inks
            self._ground_style = self.rich_style
        return self._ground_style

    def _style(self, ink: str) -> Style:
        style = self._inked.get(ink)
        if style is None:
            ground = self._ground()
            style = self._inked[ink] = ground + inks_of(self.app).style(ink)
        return style

    def _mark(self, strip: Strip, mark: Cells) -> Strip:
        style = inks_of(self.app).style(self.mark_ink)
        strip = strip.extend_cell_length(mark.end, self._ground())
        lit = [
            Segment(segment.text, (segment.style or style) + style)
            for segment in strip.crop(mark.start, mark.end)
        ]
        return Strip.join([strip.crop(0, mark.start), Strip(lit), strip.crop(mark.end, None)])

    def _cells_seen(self, index: int, start: int, end: int | None) -> Iterator[Region]:
        """Where these cells of a line are drawn, if they can be seen."""
        fixed = index < self.fixed_rows
        y = index if fixed else index - self.scroll_offset.y
        if (not fixed and y < self.fixed_rows) or y >= self.size.height:
            return
        if self.scroll_offset.x or end is None:
            start, end = 0, self.size.width
        yield Region(start, y, max(end - start, 1), 1)


def _difference(before: Line | None, after: Line | None) -> tuple[int, int | None]:
    """First and last cell that differ; the end is None when all up to the edge has to be drawn."""
    if before is None or after is None or len(before) != len(after):
        return 0, None
    changed = [place for place, old in enumerate(before) if old != after[place]]
    start = width_of(after[: changed[0]])
    if any(width_of((before[place],)) != width_of((after[place],)) for place in changed):
        return start, None
    return start, start + width_of(after[changed[0] : changed[-1] + 1])
