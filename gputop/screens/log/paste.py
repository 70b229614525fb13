"""The line for the path of a log, which takes a pasted text too."""

from __future__ import annotations

from textual import events
from textual.message import Message

from gputop.widgets.typed_line import TypedLine


class TextPasted(Message):
    """Somebody pasted more than one line."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


def is_text(pasted: str) -> bool:
    """Whether this is a text, not a path: more than one line says something."""
    return sum(1 for line in pasted.splitlines() if line.strip()) > 1


class PathLine(TypedLine):
    """Where a path is typed; a text of several lines is handed on whole."""

    def on_paste(self, event: events.Paste) -> None:
        """Hand a text on; a single line is typed as ever."""
        if is_text(event.text):
            event.prevent_default()
            event.stop()
            self.post_message(TextPasted(event.text))
