"""What a drawing of a node is made of: boxes, lines between them and texts beside the lines.

Positions are terminal cells from the top left corner of the drawing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from ..model.severity import Word
from ..wiring.wires import WireKind

Edge: TypeAlias = frozenset[str]
"""The two graph nodes that an edge of the graph joins."""

NIC_CELLS = 8
"""Cells of "↑1.2↓3.4", the least for the traffic of a NIC beside its name."""
TRAFFIC_CELLS = 9
"""Cells of the traffic beside a line: "↑1.8 ↓2.6"."""

Point: TypeAlias = tuple[int, int]
"""Column and row."""


class BoxKind(Word):
    """What a box stands for."""

    HOST = "host"
    BRIDGE = "bridge"
    GPU = "gpu"
    PACKAGE = "package"
    NIC = "nic"
    DRIVE = "nvme"
    PLANE = "plane"
    MESH = "mesh"


@dataclass(frozen=True, slots=True)
class Label:
    """A text beside a line."""

    x: int
    y: int
    text: str
    weak: bool = False
    """True when it shows less than is possible, such as x8 in an x16 slot."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for a figure that moves; what is in it is not part of the drawing."""

    x: int
    y: int
    width: int


@dataclass(frozen=True, slots=True)
class Box:
    """One device, or several that are drawn as one."""

    id: str
    """Graph node that it stands for; the name of a mesh, which is no node, begins with "mesh"."""
    members: tuple[str, ...]
    """All graph nodes that it stands for."""
    kind: BoxKind
    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...]
    """Texts inside, top to bottom."""
    live: Slot | None = None
    frame: int = 0
    """Rows below it that it takes in: other boxes stand there."""

    @property
    def framed(self) -> bool:
        """A frame round it; without one it is one coloured line."""
        return self.height >= 3 or (self.height > 1 and self.frame > 0)

    @property
    def right(self) -> int:
        """First column right of it."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """First row below it."""
        return self.y + self.height

    @property
    def base(self) -> int:
        """First row below it and what it takes in."""
        return self.bottom + self.frame

    def contains(self, x: int, y: int) -> bool:
        """Whether a cell belongs to the box, its frame included."""
        return self.x <= x < self.right and self.y <= y < self.base


@dataclass(frozen=True, slots=True)
class Line:
    """A wire, or a chain of wires with nothing else on it, between two boxes."""

    ends: tuple[str, str]
    """Ids of the boxes; the first and last point lie inside them."""
    points: tuple[Point, ...]
    """Corners of the line, each in one row or column with the next."""
    kind: WireKind
    edges: frozenset[Edge]
    """Edges of the graph that it stands for."""
    labels: tuple[Label, ...] = ()
    live: Slot | None = None
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """A whole drawing."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]

    def box(self, box_id: str) -> Box | None:
        """Find a box by its id."""
        return next((box for box in self.boxes if box.id == box_id), None)

    def box_of(self, node: str) -> Box | None:
        """Find the box that stands for a graph node; None for a bridge inside a line."""
        return next((box for box in self.boxes if node in box.members), None)

    def at(self, x: int, y: int) -> Box | None:
        """Find the box at a cell, the inner one of two."""
        found = (box for box in self.boxes if box.contains(x, y))
        return min(found, key=lambda box: box.width * (box.base - box.y), default=None)

    def moved(self, x: int, y: int) -> Drawing:
        """The same, so many columns to the right and rows down."""

        def slot(old: Slot | None) -> Slot | None:
            return None if old is None else replace(old, x=old.x + x, y=old.y + y)

        boxes = tuple(
            replace(box, x=box.x + x, y=box.y + y, live=slot(box.live)) for box in self.boxes
        )
        lines = tuple(
            replace(
                line,
                points=tuple((px + x, py + y) for px, py in line.points),
                labels=tuple(replace(label, x=label.x + x, y=label.y + y) for label in line.labels),
                live=slot(line.live),
            )
            for line in self.lines
        )
        return Drawing(self.width + x, self.height + y, boxes, lines)
