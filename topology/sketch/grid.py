"""A mesh too dense for lanes, drawn as a grid with a knot for every pair of GPUs.

A trunk runs down from each GPU, and a row to the right from each trunk; where the row of one GPU
meets the trunk of another there is a knot if a wire joins the two, and a cross if none does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from .drawing import Box, Edge, Label, Line
from .fabric import FabricLane
from .names import is_weak

KNOT, MISSING = "●", "×"


def grid_lines(
    lanes: Sequence[FabricLane], gpus: Mapping[str, Box], trunks: Mapping[str, int], y: int
) -> list[Line]:
    """A line for every wire of the mesh.

    `gpus`: boxes from left to right; `trunks`: the column of each GPU's trunk; `y`: the first row.
    """
    rows = {gpu: y + place for place, gpu in enumerate(gpus)}
    usual = Counter(lane.wire.count for lane in lanes).most_common(1)[0][0]
    lines = []
    joined: set[Edge] = set()
    for lane in lanes:
        row = rows[lane.a]
        a_x, b_x = trunks[lane.a], trunks[lane.b]
        edge = frozenset((lane.a, lane.b))
        joined.add(edge)
        count = lane.wire.count
        # A bundle of another size shows its number of links.
        knot = KNOT if count == usual or count is None or count > 9 else str(count)
        weak = is_weak(lane.wire)
        lines.append(
            Line(
                (lane.a, lane.b),
                (
                    (a_x, gpus[lane.a].base - 1),
                    (a_x, row),
                    (b_x, row),
                    (b_x, gpus[lane.b].base - 1),
                ),
                lane.wire.kind,
                frozenset([edge]),
                (Label(b_x, row, knot, weak),),
                None,
                weak,
            )
        )
    return [*lines, *_crosses(lanes[0].wire.kind, gpus, trunks, joined, y)]


def _crosses(
    kind: str, gpus: Mapping[str, Box], trunks: Mapping[str, int], joined: set[Edge], y: int
) -> list[Line]:
    """Signs where no wire joins two GPUs of the mesh; such a line has no length."""
    order = list(gpus)
    found = []
    for i, a in enumerate(order):
        signs = tuple(
            Label(trunks[b], y + i, MISSING, True)
            for b in order[i + 1 :]
            if frozenset((a, b)) not in joined
        )
        if signs:
            end = (trunks[a], gpus[a].base - 1)
            found.append(Line((a, a), (end, end), kind, frozenset(), signs))
    return found
