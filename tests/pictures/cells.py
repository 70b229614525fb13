"""What stands on the screen of an app, as rows of runs of one style."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App


@dataclass(frozen=True, slots=True)
class Ink:
    """How a run of cells looks; colours as `#rrggbb`."""

    fore: str
    back: str
    bold: bool = False
    italic: bool = False
    underline: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring cells of one ink; `start` and `width` count cells."""

    start: int
    width: int
    text: str
    ink: Ink


Row = tuple[Run, ...]


def rows_of(app: App[Any]) -> tuple[Row, ...]:
    """Every row of the terminal, panels included, as the driver would send it."""
    fore, back = (
        f"#{colour.hex6.lstrip('#')}"
        for colour in (app.screen.styles.color, app.screen.styles.background)
    )
    return tuple(_row(strip, fore, back) for strip in app.screen._compositor.render_strips())


def _row(strip: Any, fore: str, back: str) -> Row:
    runs: list[Run] = []
    start = 0
    for segment in strip:
        width = cell_len(segment.text)
        run = Run(start, width, segment.text, _ink(segment, fore, back))
        start += width
        if runs and runs[-1].ink == run.ink:
            last = runs.pop()
            run = Run(last.start, last.width + width, last.text + run.text, run.ink)
        runs.append(run)
    return tuple(runs)


def _ink(segment: Segment, fore: str, back: str) -> Ink:
    style = segment.style or Style.null()
    front, behind = _hex(style.color, fore), _hex(style.bgcolor, back)
    if style.dim:
        front = _between(front, behind)
    if style.reverse:
        front, behind = behind, front
    return Ink(front, behind, bool(style.bold), bool(style.italic), bool(style.underline))


def _hex(colour: Any, default: str) -> str:
    return default if colour is None or colour.is_default else str(colour.get_truecolor().hex)


def _between(one: str, other: str) -> str:
    pairs = zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + bytes((a + b) // 2 for a, b in pairs).hex()
