"""A line in which something is typed: a filter, a path, a value."""

from __future__ import annotations

from textual.screen import Screen
from textual.widgets import Input


def is_text(pasted: str) -> bool:
    """Whether this is a text, not a path: more than one line says something."""
    return sum(1 for line in pasted.splitlines() if line.strip()) > 1


class TypedLine(Input):
    """A line of which nothing stays when it is closed.

    An Input of Textual 8.2 asks its screen to tell when text is selected, and never takes that
    back: the screen keeps each line that was ever opened on it.
    """

    _told_by: Screen[object] | None = None

    def on_mount(self) -> None:
        """Remember the screen, which a line that is taken away does not know any more."""
        self._told_by = self.screen

    def on_unmount(self) -> None:
        """Ask to be told no longer."""
        if self._told_by is not None:
            self._told_by.text_selection_started_signal.unsubscribe(self)
