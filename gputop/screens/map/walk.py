"""Moves over a drawing: which box lies in a direction, and which comes next."""

from __future__ import annotations

from gputop.topology.sketch.drawing import Box, Drawing

_ASIDE = 2
"""How much a column aside counts against a row ahead when the cursor goes up or down."""
_ACROSS = 4
"""How much a row aside counts against a column ahead when the cursor goes left or right."""


def neighbour(drawing: Drawing, box: Box, direction: str, column: int) -> Box | None:
    """The next box; None at the edge.

    `direction`: "up", "down", "left" or "right". `column`: the column of a walk up and down, so
    that it leaves a wide box where it entered.
    """
    others = [other for other in drawing.boxes if other.id != box.id]
    if direction in ("up", "down"):
        ahead = {
            other.id: box.y - other.bottom if direction == "up" else other.y - box.bottom
            for other in others
        }
        aside = {other.id: _ASIDE * _outside(column, other.x, other.right - 1) for other in others}
    else:
        ahead = {
            other.id: box.x - other.right if direction == "left" else other.x - box.right
            for other in others
        }
        aside = {
            other.id: _ACROSS * max(0, other.y - box.bottom + 1, box.y - other.bottom + 1)
            for other in others
        }
    found = [other for other in others if ahead[other.id] >= 0]
    return min(found, key=lambda o: (ahead[o.id] + aside[o.id], o.y, o.x), default=None)


def _outside(value: int, low: int, high: int) -> int:
    return max(low - value, value - high, 0)


def in_order(drawing: Drawing) -> list[Box]:
    """All boxes in the order of the Tab key: GPUs, NICs, then the rest, left to right.

    The parts of a package come row by row, as they were drawn.
    """
    gpus = [box for box in drawing.boxes if box.kind == "gpu"]
    rest = [box for box in drawing.boxes if box.kind != "gpu"]
    return [*gpus, *sorted(rest, key=lambda box: (box.kind != "nic", box.x, box.y))]


def centre(box: Box) -> int:
    """Its middle column."""
    return box.x + box.width // 2
