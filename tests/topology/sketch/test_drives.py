"""Drives on the map: one name for those of one switch, and none where room is short."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.model.machine import PciKind
from gputop.topology.model.surroundings import Drive
from gputop.topology.node import Node
from gputop.topology.sketch.drawing import BoxKind, Drawing
from gputop.topology.sketch.layout import fitting
from tests.grid import share
from tests.support.snapshots import demo_node


def drives_of(drawing: Drawing) -> list[tuple[str, ...]]:
    return [box.lines for box in drawing.boxes if box.kind is BoxKind.DRIVE]


def with_four_on_the_first_switch() -> Node:
    """The first switch has three drives more."""
    node = demo_node("hgx-h100-8")
    machine = node.machine
    first = next(one for one in machine.pci if one.kind == PciKind.NVME)
    more = [
        msgspec.structs.replace(first, address=first.address.replace(".0", f".{number}"))
        for number in (1, 2, 3)
    ]
    named = [Drive(name=f"nvme{8 + at}", address=one.address) for at, one in enumerate(more)]
    machine = msgspec.structs.replace(
        machine, pci=(*machine.pci, *more), drives=(*machine.drives, *named)
    )
    return Node(msgspec.structs.replace(node.snapshot, machine=machine))


def test_the_drives_of_one_switch_share_a_line() -> None:
    drawing = fitting(with_four_on_the_first_switch().graph, 160, 44)
    first, *others = drives_of(drawing)
    assert first == ("4 NVMe",)
    assert len(others) == 7
    (box,) = (box for box in drawing.boxes if box.lines == first)
    assert len(box.members) == 4


@pytest.mark.parametrize("demo", share(["mi300x-8", "hgx-h100-8", "mi250x-8"], 3))
def test_a_drive_takes_no_room_from_a_gpu(demo: str) -> None:
    graph = demo_node(demo).graph
    bare = graph.subgraph(
        node for node, data in graph.nodes(data=True) if data.get("kind") != "nvme"
    )
    for width in range(70, 170, 10):
        for height in (12, 18, 30, 44):
            both = [fitting(one, width, height) for one in (bare, graph)]
            sizes = [
                {(box.id, box.width) for box in one.boxes if box.kind is BoxKind.GPU}
                for one in both
            ]
            assert sizes[0] == sizes[1], (width, height)
            if both[0].height <= height:
                assert both[1].height <= height
