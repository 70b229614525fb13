"""What holds of every drawing of a node: nothing is lost, nothing overlaps, lines meet boxes."""

from __future__ import annotations

from itertools import combinations

from gputop.topology.sketch.drawing import Drawing
from gputop.topology.wiring.packages import packages
from tests.topology.sketch.graphs import Graph


def check(drawing: Drawing, graph: Graph) -> None:
    kinds = {node: str(data["kind"]) for node, data in graph.nodes(data=True)}
    for kind in ("gpu", "nic"):
        drawn = sorted(box.id for box in drawing.boxes if box.kind == kind)
        assert drawn == sorted(node for node, k in kinds.items() if k == kind)
    over = {
        node: drawing.box(package.id) for package in packages(graph) for node in package.members
    }
    for box in drawing.boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.right <= drawing.width
        assert box.base <= drawing.height
        assert all(len(line) <= box.width for line in box.lines)
        assert len(box.lines) + (2 if box.framed else 0) <= box.height + bool(
            not box.framed or box.frame
        )
    for one, other in combinations(drawing.boxes, 2):
        apart = (
            one.right <= other.x
            or other.right <= one.x
            or one.bottom <= other.y
            or other.bottom <= one.y
        )
        assert apart, f"{one} overlaps {other}"
    for line in drawing.lines:
        first, last = (drawing.box(end) for end in line.ends)
        assert first is not None
        assert first.contains(*line.points[0])
        assert last is not None
        # A line to a die of a package ends at the heading over both dies.
        heading = over.get(last.id)
        ends = [last] if heading is None else [last, heading]
        assert any(box.contains(*line.points[-1]) for box in ends)
        for (x0, y0), (x1, y1) in zip(line.points, line.points[1:], strict=False):
            assert x0 == x1 or y0 == y1
        for label in line.labels:
            assert label.x >= 0
            assert label.x + len(label.text) <= drawing.width
            assert drawing.at(label.x, label.y) is None
