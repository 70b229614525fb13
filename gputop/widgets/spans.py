"""Lines as data: spans of text with the name of an ink, made without any screen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

Span = tuple[str, str]
"""Text and ink (theming.Inks); the text is cleaned already."""
Line = tuple[Span, ...]
EMPTY: Line = ()
_SINGLE = re.compile(r"[ -~¡-¬®-˿–—…•·×→←↑↓≥≤≈▸▼▲▽△✓✗○□─-▟]*")
"""Texts whose every character takes one cell: plain commands print nothing else, mostly."""


class Cells(NamedTuple):
    """A stretch of cells on one line, from `start` up to `end`."""

    line: int
    start: int
    end: int


class Grid(NamedTuple):
    """The columns of a matrix: a value that is cut in two reads as another value."""

    lines: int
    """The first so many lines belong to it."""
    ends: tuple[int, ...]
    """Behind which cell each column ends, from the left."""

    def last(self, edge: int) -> int:
        """The end of the last column that is whole before `edge`; `edge` where none is."""
        return max((end for end in self.ends if end <= edge), default=edge)

    def first(self, edge: int) -> int:
        """Where the first column begins that is whole behind `edge`; `edge` where none does."""
        return min((end for end in self.ends if end >= edge), default=edge)


def single(text: str) -> bool:
    """Whether every character takes one cell for sure: no table of characters is needed."""
    return text.isascii() or _SINGLE.fullmatch(text) is not None


def cell_len(text: str) -> int:
    """Cells that a text takes."""
    if single(text):
        return len(text)
    from rich.cells import cell_len as measured

    return measured(text)


def set_cell_size(text: str, width: int) -> str:
    """Exactly `width` cells of a text, filled with blanks."""
    if single(text):
        return text[:width].ljust(width)
    from rich.cells import set_cell_size as cut_to

    return cut_to(text, width)


def width_of(line: Iterable[Span]) -> int:
    """Cells that a line takes."""
    width = 0
    for text, _ in line:
        width += cell_len(text)
    return width


def text_of(line: Iterable[Span]) -> str:
    """A line without its inks."""
    return "".join(text for text, _ in line)


def left(text: str, width: int) -> str:
    """Exactly `width` cells, text at the left, cut with an ellipsis when too long."""
    if text.isascii():
        return text.ljust(width) if len(text) <= width else _cut(text, width)
    return set_cell_size(text, width) if cell_len(text) <= width else _cut(text, width)


def right(text: str, width: int) -> str:
    """Exactly `width` cells, text at the right, cut with an ellipsis when too long."""
    spare = width - cell_len(text)
    return " " * spare + text if spare >= 0 else _cut(text, width)


def centre(text: str, width: int) -> str:
    """Exactly `width` cells, text in the middle, cut with an ellipsis when too long."""
    spare = width - cell_len(text)
    if spare < 0:
        return _cut(text, width)
    return " " * ((spare + 1) // 2) + text + " " * (spare // 2)


def _cut(text: str, width: int) -> str:
    return "" if width < 1 else set_cell_size(text, width - 1) + "…"


def heads(*titles: str) -> Line:
    """The titles of columns, a span for each, as wide as its cells."""
    return tuple((title, "muted") for title in titles)


def joined(parts: Iterable[Line], separator: Span) -> Line:
    """Lines one after the other with a span between them; empty ones are left out."""
    out: list[Span] = []
    for part in parts:
        if part:
            if out:
                out.append(separator)
            out.extend(part)
    return tuple(out)


def cut(line: Iterable[Span], width: int) -> Line:
    """As much of a line as fits, with an ellipsis where something is left out."""
    spans: list[Span] = []
    room = width
    for text, ink in line:
        if room <= 0:
            break
        taken = cell_len(text)
        spans.append((text if taken <= room else left(text, room), ink))
        room -= taken
    return tuple(spans)


def words_of(text: str, width: int) -> str:
    """As many words of a sentence as fit, with an ellipsis where some are left out."""
    if cell_len(text) <= width:
        return text
    room = left(text, max(width, 1))
    whole = room[:-1] if text[len(room) - 1 :].startswith(" ") else room[:-1].rpartition(" ")[0]
    return f"{whole.rstrip(' ,;:(')}…" if whole.strip() else room


def wrapped(spans: Iterable[Span], width: int, indent: int = 0) -> tuple[Line, ...]:
    """Break at blanks so that no line is wider than `width`; later lines begin with `indent`
    blanks. Inks stay with their words; a word that is too long is cut in pieces.
    """  # noqa: D205
    return _wrapped(tuple(spans), max(width, indent + 4), indent)


@lru_cache(maxsize=256)
def _wrapped(spans: Line, width: int, indent: int) -> tuple[Line, ...]:
    # Of a screen that is drawn each second most lines are as they were.
    lines: list[list[Span]] = [[]]
    used = 0
    for text, ink in spans:
        for word in _words(text, width - indent):
            for piece in _pieces(word, width - indent):
                length = cell_len(piece)
                if used + length > width and piece.strip():
                    lines.append([(" " * indent, "")] if indent else [])
                    used = indent
                if used + length > width or (used == indent and len(lines) > 1 and piece.isspace()):
                    continue
                lines[-1].append((piece.replace(_GLUE, " "), ink))
                used += length
    return tuple(map(tuple, lines))


_GLUE = "\N{NO-BREAK SPACE}"
_IN_COMMAND = re.compile(
    r" (?=--?\w|/\w)"
    r"|(?<=\bdocker) |(?<=\bgputop) |(?<=\bpy-spy) |(?<=\bnvidia-smi) |(?<=\bkubectl) "
)
"""Blanks inside a command: before an option or a path, and behind a program with subcommands."""


def unbroken(text: str) -> str:
    """The same, so that no command in it is broken over lines where it fits on one."""
    return _IN_COMMAND.sub(_GLUE, text)


def _words(text: str, width: int) -> list[str]:
    words: list[str] = []
    parts = (
        part.replace(_GLUE, " ") if _GLUE in part and cell_len(part) > width else part
        for part in text.split(" ")
    )
    for part in " ".join(parts).split(" "):
        if words:
            words.append(" ")
        words.append(part)
    return [word for word in words if word]


def _pieces(word: str, width: int) -> Sequence[str]:
    if cell_len(word) <= width:
        return (word,)
    pieces = [""]
    for character in word:
        # By cells, not characters: each of a wide script takes two.
        if cell_len(pieces[-1] + character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces
