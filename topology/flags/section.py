"""A piece of an explanation: text without a width, so that a command and a screen can draw it."""

from __future__ import annotations

from textwrap import wrap

import msgspec

INDENT = "  "
NARROW = 40
SHORTEST = 8
"""Columns of a table are cut down to so many cells, whatever stands in them."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A heading with what stands below it."""

    title: str
    paragraphs: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    """Rows of cells, the first one is the head; drawn between the paragraphs and the bullets."""
    bullets: tuple[str, ...] = ()


def drawn(sections: tuple[Section, ...], width: int) -> list[str]:
    """The sections as lines of at most `width` characters, an empty line between two."""
    width = max(NARROW, width)
    lines: list[str] = []
    for section in sections:
        if lines:
            lines.append("")
        lines += wrap(section.title, width) or [""]
        lines += _table(section.table, width)
        for text in section.paragraphs:
            lines += wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT)
        for text in section.bullets:
            lines += wrap(text, width, initial_indent="  - ", subsequent_indent="    ")
    return lines


def _table(rows: tuple[tuple[str, ...], ...], width: int) -> list[str]:
    """Columns as wide as their content; where the line is too short the widest ones wrap."""
    if not rows:
        return []
    columns = range(len(rows[0]))
    sizes = [max(len(row[column]) for row in rows) for column in columns]
    room = width - len(INDENT) - 2 * (len(sizes) - 1)
    widest = max(columns, key=lambda column: sizes[column])
    others = sum(sizes) - sizes[widest]
    sizes[widest] = max(16, min(sizes[widest], room - others))
    words = [max(len(word) for row in rows for word in ("", *row[one].split())) for one in columns]
    for floors in (words, [SHORTEST] * len(sizes)):
        # Between words first; in the middle of one only where nothing else helps.
        free = [column for column in columns if sizes[column] > floors[column]]
        while free and sum(sizes) > room:
            sizes[max(free, key=lambda column: sizes[column])] -= 1
            free = [column for column in columns if sizes[column] > floors[column]]
    lines: list[str] = []
    for row in rows:
        cells = [
            wrap(cell, sizes[column], break_long_words=True) or [""]
            for column, cell in enumerate(row)
        ]
        for line in range(max(map(len, cells))):
            parts = [
                (cell[line] if line < len(cell) else "").ljust(sizes[column])
                for column, cell in enumerate(cells)
            ]
            lines.append((INDENT + "  ".join(parts)).rstrip())
    return lines
