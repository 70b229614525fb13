"""The lines above and below every screen: its name, what is in progress, which keys work."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gputop.theming import inks_of
from gputop.widgets.kept_lines import KeptLines
from gputop.widgets.spans import EMPTY, Line, width_of


class Bar(KeptLines):
    """One line: spans at the left, spans at the right."""

    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.line: Line = EMPTY
        self.end: Line = EMPTY

    def show(self, line: Line, end: Line = EMPTY) -> None:
        """Put these spans at the left and at the right."""
        if (line, end) != (self.line, self.end):
            self.line, self.end = line, end
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line; the right end gives way first, then the left is cut with an ellipsis."""
        base = self.rich_style
        width = self.size.width
        spare = width - width_of(self.line)
        strip = Strip([self._segment(text, ink, base) for text, ink in self.line])
        if (length := width_of(self.end)) <= spare:
            end = [self._segment(text, ink, base) for text, ink in self.end]
            gap = Segment(" " * (spare - length), base)
            strip = Strip.join([strip, Strip([gap, *end])])
        if spare < 0 < width:
            strip = Strip.join([strip.crop(0, width - 1), Strip([Segment("…", base)])])
        return strip.crop_extend(0, width, base)

    def _segment(self, text: str, ink: str, base: Style) -> Segment:
        return Segment(text, base + inks_of(self.app).style(ink))


class TopBar(Bar):
    """Names of the screens, and where the figures come from."""


class HeadLine(Bar):
    """One of the lines at the top of a screen that answer its question."""


class StatusBar(Bar):
    """What is in progress: a running probe, old figures. Takes no room when it is empty."""

    def show(self, line: Line, end: Line = EMPTY) -> None:
        """Put these spans on the line, or take the line away."""
        super().show(line, end)
        self.set_class(bool(line), "-speaks")


class KeyBar(Bar):
    """Keys that work here; each can be clicked."""

    def keys(self, keys: list[tuple[str, str, str]]) -> None:
        """Show keys, each with its name, what it does and the action of the app.

        The last two, help and the way out, always stay: where the line is full, those before
        them are left out, for the help has them all.
        """
        width = self.app.size.width
        shown = [_key(*key) for key in keys]
        while len(shown) > 2 and sum(map(width_of, shown)) > width:
            del shown[-3]
        self.show(tuple(span for line in shown for span in line))


def _key(key: str, label: str, action: str) -> Line:
    return ((f" {key}", f"key bold @{action}"), (f" {label} ", f"muted @{action}"))
