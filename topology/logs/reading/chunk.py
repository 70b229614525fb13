"""Some lines of a log, with what is quicker to ask of all of them at once than of each."""

from __future__ import annotations

from ...recorded.sought import lines_with
from .prefix import MARK, without_colour

MOST = MARK + b"INFO "
"""What nearly all lines of the library hold."""
LEVELS = {
    b"INFO ": "INFO",
    b"WARN ": "WARN",
    b"TRACE": "TRACE",
    b"CALL ": "CALL",
    b"ABORT": "WARN",
}
"""What follows the mark in a line of the library."""
_FAILURES = (b"ailed", b"rror")


class Chunk:
    """Whole lines, in order."""

    def __init__(self, lines: list[bytes]) -> None:
        whole = b"\n".join(lines)
        if b"\x1b" in whole:
            whole = without_colour(whole)
            lines = whole.split(b"\n")
        self.lines = lines
        """Without colours, which could stand in every word."""
        marks = whole.count(MARK)
        self.others = [raw for raw in lines if raw.find(MOST) < 0] if marks else lines
        """The lines without the usual mark of the library."""
        self.unmarked = not marks or not any(MARK + level in whole for level in LEVELS)
        self.blank = whole.isspace()
        others = b"\n".join(self.others).count(MARK)
        self.glued = marks - others > len(lines) - len(self.others)
        """Some lines hold several marks."""
        self.failing = lines_with(_FAILURES, whole) if marks else {}
        """The lines that speak of a failure, as keys."""
