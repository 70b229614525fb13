"""Lines that a widget has drawn and still shows.

A tick changes some cells of some lines. Textual asks each widget between the highest and the lowest
of them for all its lines, and each then asks all that it lies in for their colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Container
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.filter import LineFilter


class KeptLines(Widget):
    """Draws the lines that have changed, and gives the others as it drew them before.

    It stands last among the bases of a class: Textual takes the style of a widget from the first.
    """

    _kept: list[Strip] | None = None
    _kept_crop: Region | None = None
    _kept_filters: Sequence[LineFilter] = ()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines in a part of the widget."""
        filters = self.get_line_filters()
        kept = self._kept
        if kept is None or crop != self._kept_crop or filters != self._kept_filters:
            kept = super().render_lines(crop)
        elif changed := self._changed(crop):
            first, end = changed[0], changed[-1] + 1
            new = super().render_lines(Region(crop.x, first, crop.width, end - first))
            kept = [*kept[: first - crop.y], *new, *kept[end - crop.y :]]
        self._kept, self._kept_crop, self._kept_filters = kept, crop, filters
        return kept

    def _changed(self, crop: Region) -> Sequence[int]:
        """The lines that Textual would draw, be it for `refresh`, a new size, scrolling or styles.

        All, in a Textual that notes them elsewhere.
        """
        cache = self._styles_cache
        drawn = getattr(cache, "_cache", ())
        dirty = getattr(cache, "_dirty_lines", crop.line_range)
        return [y for y in crop.line_range if y in dirty or y not in drawn]

    def release_lines(self) -> None:
        """Let go of the lines; each is drawn again when it is needed next."""
        self._kept = None


class Pane(Container, KeptLines):
    """A container that is nothing but ground."""
