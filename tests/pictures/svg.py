"""Rows of cells as a small SVG: one text for each row, one rectangle for each run of a background.

It is a tenth of what Rich writes, and needs no font of the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape

from rich.cells import cell_len

from .cells import Ink, Row

WIDE, HIGH, SIZE = 8.43, 16.3, 14
"""A cell and its font in pixels: with these, boxes in DejaVu Sans Mono and its kin join."""
MARGIN = 10
_OWN_PLACE = re.compile("([\u2800-\u28ff])")
"""Braille, which many fonts lack: signs of another font have another width."""
FONTS = "'DejaVu Sans Mono','Bitstream Vera Sans Mono',Menlo,Consolas,monospace"


def svg_of(rows: tuple[Row, ...], title: str) -> str:
    """A picture of one screen."""
    columns = max((row[-1].start + row[-1].width for row in rows if row), default=0)
    wide, high = columns * WIDE + 2 * MARGIN, len(rows) * HIGH + 2 * MARGIN
    back = commonest(rows)
    body = drawn(rows, back)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" rx="6" fill="{back}"/>\n'
        f'<g transform="translate({MARGIN} {MARGIN})" font-family="{FONTS}" font-size="{SIZE}" '
        f'style="white-space:pre">\n{body}</g>\n</svg>\n'
    )


def drawn(rows: Iterable[Row], back: str) -> str:
    """The rectangles and texts of some rows, the first at the top."""
    return "".join(drawn_row(row, number, back) for number, row in enumerate(rows))


def drawn_row(row: Row, number: int, back: str) -> str:
    """One row, so many rows below the top."""
    top = number * HIGH
    lines = [
        f'<rect x="{run.start * WIDE:.1f}" y="{top:.1f}" width="{run.width * WIDE:.1f}" '
        f'height="{HIGH:.1f}" fill="{run.ink.back}"/>\n'
        for run in row
        if run.ink.back != back
    ]
    spans = []
    for run in row:
        column = run.start
        for text in _OWN_PLACE.split(run.text):
            start = column + cell_len(text) - cell_len(text.lstrip())
            column += cell_len(text)
            if not text.strip():
                continue
            said = escape(text.strip())
            spans.append(f'<tspan x="{start * WIDE:.1f}"{_look(run.ink)}>{said}</tspan>')
    if spans:
        lines.append(
            f'<text y="{top + HIGH * 0.78:.1f}" xml:space="preserve">{"".join(spans)}</text>\n'
        )
    return "".join(lines)


def _look(ink: Ink) -> str:
    marks = f' fill="{ink.fore}"'
    if ink.bold:
        marks += ' font-weight="bold"'
    if ink.italic:
        marks += ' font-style="italic"'
    if ink.underline:
        marks += ' text-decoration="underline"'
    return marks


def commonest(rows: Iterable[Row]) -> str:
    """The background of most cells."""
    counts: dict[str, int] = {}
    for row in rows:
        for run in row:
            counts[run.ink.back] = counts.get(run.ink.back, 0) + run.width
    return max(counts, key=lambda colour: counts[colour], default="#000000")
