"""Tables as text, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.topology.model.page import SIMULATED

if TYPE_CHECKING:
    from gputop.topology.model.snapshot import Measurement

WIDTH = 80
GAP = 2
WIDEST_HEAD = 12
"""Column headings are broken into lines of this many characters."""


def made_up(figures: Sequence[Measurement]) -> str:
    """What a heading says of simulated figures; "" for measured ones."""
    return f", {SIMULATED}" if any(figure.simulated for figure in figures) else ""


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, corner: str = "", width: int = WIDTH
) -> str:
    """The lines of a table; columns that do not fit follow below, with the labels again.

    Each row begins with its label. `head`: a heading for each cell after the label.
    """
    labels = [corner, *(row[0] for row in rows)]
    first = max(len(label) for label in labels)
    heads = [textwrap.wrap(text, WIDEST_HEAD) or [""] for text in head]
    widths = [
        max(
            *(len(line) for line in heads[place]),
            *(len(row[place + 1]) for row in rows),
        )
        + GAP
        for place in range(len(head))
    ]
    parts = []
    for part in _parts(widths, width - first):
        deep = max(len(heads[place]) for place in part)
        lines = []
        for line in range(deep):
            cells = ["".rjust(widths[place]) for place in part]
            for at, place in enumerate(part):
                # Headings end on the last line, just above their figures.
                shift = deep - len(heads[place])
                if line >= shift:
                    cells[at] = heads[place][line - shift].rjust(widths[place])
            lines.append((corner if line == deep - 1 else "").ljust(first) + "".join(cells))
        for row in rows:
            cells = [row[place + 1].rjust(widths[place]) for place in part]
            lines.append(row[0].ljust(first) + "".join(cells))
        parts.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(parts)


def _parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """Group the positions of columns that fit side by side."""
    parts: list[list[int]] = [[]]
    left = room
    for place, width in enumerate(widths):
        if width > left and parts[-1]:
            parts.append([])
            left = room
        parts[-1].append(place)
        left -= width
    return parts


def wrapped(text: str, indent: str = "  ", width: int = WIDTH) -> str:
    """Wrap a sentence; all lines but the first are indented."""
    return "\n".join(
        textwrap.wrap(
            text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=True
        )
    )
