"""Signs of findings on the devices of the map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.clean import clean
from gputop.widgets.spans import Line, Span
from gputop.widgets.wiring_drawing import Drawing

if TYPE_CHECKING:
    from gputop.findings import Shown


def signs(drawing: Drawing, shown: Shown | None) -> Iterator[tuple[int, int, str, str]]:
    """Column, row, sign and style for each box with a finding: in its upper right corner."""
    if shown is None or not shown.findings:
        return
    for box in drawing.boxes:
        mark = shown.mark(*box.members)
        if mark is not None:
            sign, ink = mark
            if box.framed:
                yield box.right - 2, box.y, sign, ink
            else:
                yield box.right - 1, box.y, sign, f"{ink}-chip"


def about(shown: Shown | None, *nodes: str) -> Line:
    """The worst finding on these devices in words, and how many more there are."""
    found = () if shown is None else shown.about(*nodes)
    if shown is None or not found:
        return ()
    sign, ink = shown.mark(*nodes) or ("", "")
    more = f", {len(found) - 1} more" if len(found) > 1 else ""
    span: Span = (f"{sign} {clean(found[0].title, 160)}{more}", ink)
    return ((" · ", "rule"), span)
