"""Signs of findings on the devices of the map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gputop.screens.map.canvas import Cell
from gputop.screens.map.facts import DOT
from gputop.terminal.clean import clean
from gputop.topology.sketch.drawing import Box, Drawing
from gputop.widgets.spans import Line, Span

if TYPE_CHECKING:
    from gputop.live.findings import Shown


def signs(drawing: Drawing, shown: Shown | None) -> Iterator[tuple[Box, str, str]]:
    """Each box with a finding, its sign and the sign's ink."""
    if shown is None or not shown.findings:
        return
    for box in drawing.boxes:
        mark = shown.mark(*box.members)
        if mark is not None:
            yield box, *mark


def place(box: Box, row: Sequence[Cell], ink: str) -> tuple[int, str]:
    """Column and style of a sign in the first row of a box.

    On a frame the sign stands in the corner. If its name fills a box of one line, the sign stands
    beside the box, if need be over the line that leads there.
    """
    if box.framed:
        return box.right - 2, ink
    if row[box.right - 1][0] == " ":
        return box.right - 1, f"{ink}-chip"
    if box.right < len(row) and row[box.right][0] == " ":
        return box.right, ink
    return (box.x - 1, ink) if box.x > 0 else (box.right - 1, f"{ink}-chip")


def about(shown: Shown | None, *nodes: str) -> Line:
    """The worst finding on these devices in words, and how many more there are."""
    found = () if shown is None else shown.about(*nodes)
    if shown is None or not found:
        return ()
    sign, ink = shown.mark(*nodes) or ("", "")
    more = f", {len(found) - 1} more" if len(found) > 1 else ""
    span: Span = (f"{sign} {clean(found[0].title, 160)}{more}", ink)
    return (DOT, span)
