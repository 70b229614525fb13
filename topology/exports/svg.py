"""The node as a picture: the drawing of the screen Map as SVG, without what moves."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from ..model.characters import printable
from ..node import Node
from ..sketch.drawing import Box, Drawing, Line
from ..sketch.layout import layout
from ..wiring.wires import WireKind
from .written import Written

COLUMNS, ROWS = 160, 30
"""Cells that the drawing is laid out for; a larger node takes more."""
WIDE, HIGH, SIZE = 8.4, 17.0, 13
"""A cell and the font in it, in pixels."""
MARGIN = 2
"""Cells round the drawing."""
HEADING = 3
"""Rows above it, for what is drawn and the unit."""
FONTS = "'DejaVu Sans Mono','Bitstream Vera Sans Mono',Menlo,Consolas,monospace"
INK, QUIET, WEAK, PAPER = "#1f2933", "#5b6773", "#c62828", "#ffffff"
FILLS = {
    "host": "#eef2f7",
    "bridge": "#f6f7f9",
    "gpu": "#e3f1e1",
    "package": "#f3f7f2",
    "nic": "#e6f0fa",
    "plane": "#d7ead4",
    "mesh": "#d7ead4",
}
STROKES = {
    WireKind.NVLINK: "#3f8f29",
    WireKind.XGMI: "#3f8f29",
    WireKind.C2C: "#7b3fa0",
    WireKind.SOCKET: "#a86b00",
    WireKind.NET: "#1769aa",
}
"""Kind of a wire -> its colour; PCIe is grey."""


def write(node: Node) -> Written:
    """Draw the node as the screen Map does."""
    drawing = layout(node.graph, COLUMNS, ROWS, compact=False)
    left = min((box.x for box in drawing.boxes), default=0)
    top = min((box.y for box in drawing.boxes), default=0)
    drawing = drawing.moved(MARGIN - left, MARGIN + HEADING - top)
    wide, high = (drawing.width + MARGIN) * WIDE, (drawing.height + MARGIN) * HIGH
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}">',
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        f'<g font-family="{FONTS}" font-size="{SIZE}">',
        *_heading(node),
        *_drawn(drawing),
        "</g>",
        "</svg>",
    ]
    return Written("\n".join([*parts, ""]), document=True)


def _heading(node: Node) -> Iterator[str]:
    host = node.snapshot.machine.host
    source = ", ".join(node.snapshot.source)
    name = (host.hostname if host is not None else None) or source
    name = f"{source}: invented figures" if node.snapshot.is_demo else name
    yield _text(MARGIN, MARGIN, name, INK, bold=True)
    yield _text(MARGIN, MARGIN + 1, "GB/s payload, one way; ! = fewer than possible", QUIET)


def _drawn(drawing: Drawing) -> Iterator[str]:
    """What takes in other boxes, the lines, and the boxes over their ends."""
    around = [box for box in drawing.boxes if box.frame]
    for box in around:
        yield from _box(box)
    for line in drawing.lines:
        yield _line(line)
    for box in drawing.boxes:
        if not box.frame:
            yield from _box(box)
    for line in drawing.lines:
        for label in line.labels:
            text = label.text
            colour = WEAK if label.weak else QUIET
            start, row = label.x + len(text) - len(text.lstrip()), label.y
            # A label of a line that runs along its row interrupts it.
            wide = len(text.strip()) * WIDE
            yield (
                f'<rect x="{start * WIDE:.1f}" y="{(row + 0.1) * HIGH:.1f}" width="{wide:.1f}" '
                f'height="{0.8 * HIGH:.1f}" fill="{PAPER}"/>'
            )
            yield _text(start, row, text.strip(), colour)


def _box(box: Box) -> Iterator[str]:
    fill = FILLS.get(box.kind, FILLS["bridge"])
    # A frame runs through the middle of its outermost cells, as the lines that end there do.
    inset = 0.5 if box.framed else 0.1
    wide, high = (box.width - 2 * inset) * WIDE, (box.base - box.y - 2 * inset) * HIGH
    edge = f' stroke="{QUIET}"' if box.framed else ""
    yield (
        f'<rect x="{(box.x + inset) * WIDE:.1f}" y="{(box.y + inset) * HIGH:.1f}" '
        f'width="{wide:.1f}" height="{high:.1f}" rx="4" fill="{fill}"{edge}/>'
    )
    indent = (2 if box.width > 9 else 1) if box.framed else 0.3
    for number, text in enumerate(box.lines):
        row = box.y + number + box.framed
        yield _text(box.x + indent, row, text, INK if number == 0 else QUIET, bold=number == 0)


def _line(line: Line) -> str:
    points = " ".join(f"{(x + 0.5) * WIDE:.1f},{(y + 0.5) * HIGH:.1f}" for x, y in line.points)
    colour = WEAK if line.weak else STROKES.get(line.kind, QUIET)
    wide = 2.5 if line.kind in (WireKind.NVLINK, WireKind.XGMI, WireKind.C2C) else 1.4
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{wide}" '
        'stroke-linejoin="round"/>'
    )


def _text(x: float, row: float, text: str, colour: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x * WIDE:.1f}" y="{(row + 0.76) * HIGH:.1f}" fill="{colour}"{weight} '
        f'xml:space="preserve">{escape(printable(text))}</text>'
    )
