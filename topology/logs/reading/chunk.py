"""Some lines of a log, with what is quicker to ask of all of them at once than of each."""

from __future__ import annotations

from .prefix import MARK, without_colour

MOST = MARK + b"INFO "
"""What nearly all lines of the library hold."""
LEVELS = {
    b"INFO ": "INFO",
    b"WARN ": "WARN",
    b"ATTN ": "ATTN",
    b"DIAG ": "DIAG",
    b"TRACE": "TRACE",
    b"CALL ": "CALL",
    b"ABORT": "WARN",
}
"""What follows the mark in a line of the library."""


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
        self.others = [line for line in lines if line.find(MOST) < 0] if marks else lines
        """The lines without the usual mark of the library."""
        self.different = set(self.others)
        others = b"\n".join(self.others).count(MARK) if marks else 0
        self.other_levels = frozenset(filter(_level, self.different) if others else ())
        """Those of them that are the library's."""
        self.unmarked = not marks or not any(MARK + level in whole for level in LEVELS)
        self.blank = whole.isspace()
        self.glued = marks - others > len(lines) - len(self.others)
        """Some lines hold several marks."""
        self.failing = marks > 0 and any(word in whole for word in (b"ailed", b"rror"))
        """Some lines speak of a failure."""


def _level(line: bytes) -> str | None:
    """The level of a line of the library."""
    at = line.find(MARK)
    return None if at < 0 else LEVELS.get(line[at + 6 : at + 11])
