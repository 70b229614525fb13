"""The drawing of a node: every device once, nothing overlaps, lines touch their boxes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.screens.map import diagram as wiring_walk
from gputop.topology.recorded.demos import demo
from gputop.topology.sketch.drawing import Drawing
from gputop.topology.sketch.layout import fitting, layout
from gputop.topology.wiring.wires import WireKind, pcie_wire
from tests.support.app import demo_report
from tests.topology.sketch import graphs
from tests.topology.sketch.checked import check
from tests.topology.sketch.graphs import Graph, Maker

SHAPES: dict[str, Callable[[], Maker]] = {
    "switched": graphs.switched,
    "cube": graphs.cube,
    "complete": graphs.complete,
    "flat": graphs.flat,
    "one GPU": lambda: graphs.flat(1, 0),
    "no GPU": lambda: graphs.flat(0, 2),
    "no NUMA": lambda: graphs.flat(2, 1, 0),
    "sick": graphs.sick,
    "bridged": graphs.bridged,
    "eight NUMA nodes": graphs.eight_numa,
    "sixteen GPUs": lambda: graphs.switched(16, 2),
    "32 NICs": lambda: graphs.switched(8, 1, 4),
}
SIZES = ((160, 43), (80, 18))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, compact: bool, size: tuple[int, int]) -> None:
    graph = SHAPES[name]().graph
    check(layout(graph, *size, compact), graph)


@pytest.mark.parametrize("name", [*SHAPES, "two GPUs", "four GPUs"])
def test_up_to_sixteen_gpus_fit_a_large_terminal(name: str) -> None:
    two_or_four = {"two GPUs": graphs.switched(2), "four GPUs": graphs.switched(4)}
    graph = two_or_four[name].graph if name in two_or_four else SHAPES[name]().graph
    drawing = fitting(graph, 160, 43)
    assert drawing.width <= 160
    assert drawing.height <= 43
    assert all(box.framed for box in drawing.boxes if box.kind == "gpu")


@pytest.mark.parametrize("name", ["switched", "cube", "complete", "sick", "eight NUMA nodes"])
def test_eight_gpus_fit_a_small_terminal(name: str) -> None:
    drawing = fitting(SHAPES[name]().graph, 80, 18)
    assert drawing.width <= 80
    assert drawing.height <= 18
    assert [box.lines[0] for box in drawing.boxes if box.kind == "gpu"] == [
        f"GPU{i}" for i in range(8)
    ]


def test_seventy_two_gpus_are_drawn_wider_than_the_terminal() -> None:
    graph = graphs.switched(72, 4).graph
    drawing = fitting(graph, 160, 43)
    check(drawing, graph)
    assert drawing.width > 160
    assert all(box.lines[0] for box in drawing.boxes)


@st.composite
def nodes(draw: st.DrawFn) -> Graph:
    """Random trees: switches below switches, devices anywhere, NVLinks between some GPUs."""
    maker = Maker()
    numa = maker.host(draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    for _ in range(draw(st.integers(0, 12))):
        home = draw(st.sampled_from([*numa, None]))
        parent = maker.switch(home) if draw(st.booleans()) else maker.root(home)
        if draw(st.booleans()):
            parent = maker.bridge(maker.bridge(parent, "switch downstream"), "switch upstream")
        for kind in draw(st.lists(st.sampled_from(["gpu", "nic"]), max_size=6)):
            lanes = draw(st.sampled_from([16, 8, None]))
            maker.device(parent, kind, pcie_wire(32.0, lanes, 16, ""))
    if draw(st.booleans()):
        maker.plane()
    elif maker.gpus:
        count = len(maker.gpus)
        rows = [[draw(st.integers(0, 2)) for _ in range(i)] for i in range(min(count, 9))]
        maker.mesh(rows)
    return maker.graph


@given(nodes(), st.sampled_from([(160, 43), (80, 18), (40, 8)]), st.booleans())
def test_random_nodes(graph: Graph, size: tuple[int, int], compact: bool) -> None:
    check(layout(graph, *size, compact), graph)


@pytest.mark.timing
def test_layout_of_sixteen_gpus_takes_under_thirty_milliseconds() -> None:
    graph = graphs.switched(16, 2).graph
    fastest = 1.0
    for _ in range(5):
        start = time.process_time()
        fitting(graph, 160, 43)
        fastest = min(fastest, time.process_time() - start)
    assert fastest < 0.03


def labels(drawing: Drawing) -> set[str]:
    return {label.text for line in drawing.lines for label in line.labels}


def test_labels_say_links_lanes_and_payload() -> None:
    assert {"gen5 x16 63", "NV18 450"} <= labels(fitting(graphs.switched().graph, 160, 43))


def test_fewer_lanes_or_links_have_a_sign() -> None:
    for size in SIZES:
        weak = [
            label.text
            for line in fitting(graphs.sick().graph, *size).lines
            for label in line.labels
            if label.weak
        ]
        assert any("x8" in text and "!" in text for text in weak)
        assert any("14" in text and "!" in text for text in weak)


def test_lanes_not_known_to_be_up_have_a_question_mark() -> None:
    maker = Maker()
    maker.device(maker.root(maker.host(1)[0]), "gpu", pcie_wire(32.0, None, 16, "", assumed=True))
    assert "gen5 x16? 63" in labels(fitting(maker.graph, 160, 43))


def test_bridges_with_one_child_are_part_of_a_line() -> None:
    maker = graphs.bridged()
    drawing = fitting(maker.graph, 160, 43)
    assert {box.kind for box in drawing.boxes} == {"host", "gpu"}
    line = next(line for line in drawing.lines if line.ends[1] == maker.gpus[0])
    assert len(line.edges) == 3


def test_numa_nodes_without_devices_share_a_box() -> None:
    boxes = fitting(graphs.eight_numa().graph, 160, 43).boxes
    shared = [box.members for box in boxes if len(box.members) > 1 and box.kind == "host"]
    assert shared == [("numa:0", "numa:2"), ("numa:4", "numa:6")]


def test_a_gap_between_sockets_is_crossed_by_all_that_runs_from_left_to_right() -> None:
    maker = Maker()
    for numa in maker.host(sockets=4):
        maker.device(maker.root(numa), "gpu")
    drawing = layout(maker.graph, 160, 50, compact=False)
    crossed = [line.edges for line in drawing.lines if line.points[0][1] == line.points[-1][1]]
    numbers = [sorted(sorted(end[-1] for end in edge) for edge in edges) for edges in crossed]
    assert numbers == [
        [["0", "1"], ["0", "2"], ["0", "3"]],
        [["0", "2"], ["0", "3"], ["1", "2"], ["1", "3"]],
        [["0", "3"], ["1", "3"], ["2", "3"]],
    ]


def test_walking_through_a_wide_box_goes_on_where_it_began() -> None:
    maker = graphs.switched()
    drawing = fitting(maker.graph, 160, 43)
    gpu = drawing.box(maker.gpus[2])
    assert gpu is not None
    column, box = wiring_walk.centre(gpu), gpu
    seen = []
    for direction in ("up", "up", "up", "down", "down", "down"):
        found = wiring_walk.neighbour(drawing, box, direction, column)
        assert found is not None
        box = found
        seen.append(box.kind)
    assert seen[2] == "host"
    assert box.x <= column < box.right
    right = wiring_walk.neighbour(drawing, gpu, "right", column)
    assert right is not None
    assert right.id == maker.gpus[3]
    below = wiring_walk.neighbour(drawing, gpu, "down", column)
    assert below is not None
    assert below.kind == "plane"
    assert wiring_walk.neighbour(drawing, below, "down", column) is None


def test_tab_order_is_gpus_then_nics() -> None:
    drawing = fitting(graphs.switched().graph, 160, 43)
    kinds = [box.kind for box in wiring_walk.in_order(drawing)]
    assert kinds[:16] == ["gpu"] * 8 + ["nic"] * 8


def test_a_wide_drawing_has_room_for_the_traffic_of_every_gpu() -> None:
    for name in demo.names():
        report = demo_report(name)
        gpus = {gpu.address for gpu in report.snapshot.machine.gpus}
        drawing = fitting(report.graph, 160, 36)
        for line in drawing.lines:
            c2c = any(other.kind is WireKind.C2C and other.ends == line.ends
                      for other in drawing.lines)  # fmt: skip
            if line.kind is WireKind.PCIE and not gpus.isdisjoint(line.ends) and not c2c:
                assert line.live is not None, (name, line.ends)
