"""The drawing of a node: every device once, nothing overlaps, lines touch their boxes."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.topology.machine import Gpu
from gputop.topology.wiring.packages import packages
from gputop.topology.wiring.wires import pcie_wire
from gputop.widgets import wiring_walk
from gputop.widgets.wiring_drawing import Drawing
from gputop.widgets.wiring_layout import fitting, layout
from tests import wiring_graphs as graphs
from tests.wiring_graphs import Graph, Maker

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


def check(drawing: Drawing, graph: Graph) -> None:
    kinds = {node: str(data["kind"]) for node, data in graph.nodes(data=True)}
    for kind in ("gpu", "nic"):
        drawn = sorted(box.id for box in drawing.boxes if box.kind == kind)
        assert drawn == sorted(node for node, k in kinds.items() if k == kind)
    over = {node: drawing.box(one.id) for one in packages(graph) for node in one.members}
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


@settings(max_examples=60, deadline=None)
@given(nodes(), st.sampled_from([(160, 43), (80, 18), (40, 8)]), st.booleans())
def test_random_nodes(graph: Graph, size: tuple[int, int], compact: bool) -> None:
    check(layout(graph, *size, compact), graph)


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


def knots(drawing: Drawing) -> dict[tuple[str, str], str]:
    """The sign where the row of one GPU meets the trunk of another."""
    columns = {line.ends[1]: line.points[-1][0] for line in drawing.lines if len(line.points) == 4}
    rows = {line.ends[0]: line.points[1][1] for line in drawing.lines if len(line.points) == 4}
    at = {
        (label.x, label.y): label.text
        for line in drawing.lines
        for label in line.labels
        if len(label.text) == 1
    }
    return {
        (a, b): at[columns[b], rows[a]]
        for a in rows
        for b in columns
        if (columns[b], rows[a]) in at
    }


@pytest.mark.parametrize("size", SIZES)
def test_dense_mesh_has_a_knot_for_every_pair(size: tuple[int, int]) -> None:
    maker = graphs.complete()
    drawing = fitting(maker.graph, *size)
    check(drawing, maker.graph)
    assert drawing.width <= size[0]
    assert drawing.height <= size[1]
    assert knots(drawing) == dict.fromkeys(combinations(maker.gpus, 2), "●")
    wires = [line for line in drawing.lines if line.kind == "xgmi" and len(line.points) == 4]
    assert {next(iter(line.edges)) for line in wires} == {
        frozenset(pair) for pair in combinations(maker.gpus, 2)
    }
    mesh = drawing.box("mesh")
    assert mesh is not None
    assert mesh.lines[0] == "xGMI mesh: every pair 1 link, 64 GB/s one way"
    if size == (160, 43):
        assert mesh.lines[1] == "448 to all 7; a job on 2 GPUs has 64, on 4 GPUs 192"


def test_dense_mesh_is_told_in_words_where_the_grid_has_no_room() -> None:
    drawing = fitting(graphs.complete().graph, 80, 11)
    mesh = drawing.box("mesh")
    assert mesh is not None
    assert mesh.lines == ("xGMI mesh: every pair 1 link, 64 GB/s one way",)
    spokes = [line for line in drawing.lines if line.kind == "xgmi"]
    assert len(spokes) == 8
    assert all(len(line.edges) == 7 for line in spokes)


def test_dense_mesh_shows_and_names_the_missing_pair() -> None:
    maker = graphs.complete()
    gone = (maker.gpus[2], maker.gpus[5])
    maker.graph.remove_edge(*gone)
    drawing = fitting(maker.graph, 160, 43)
    check(drawing, maker.graph)
    mesh = drawing.box("mesh")
    assert mesh is not None
    assert "27 of 28 pairs" in mesh.lines[0]
    assert mesh.lines[0].endswith("no link GPU2-GPU5 !")
    signs = knots(drawing)
    assert signs.pop(gone) == "×"
    assert set(signs.values()) == {"●"}


def test_a_card_of_another_vendor_misses_no_link_of_the_mesh() -> None:
    maker = graphs.complete()
    for gpu in maker.gpus:
        maker.graph.nodes[gpu]["record"] = Gpu(
            address=gpu, vendor="amd", name="AMD Instinct MI300X"
        )
    maker.device(maker.root(None), "gpu")
    for size in SIZES:
        mesh = fitting(maker.graph, *size).box("mesh")
        assert mesh is not None
        assert mesh.lines[0] == "xGMI mesh: every pair 1 link, 64 GB/s one way"
    lonely = maker.device(maker.root(None), "gpu")
    maker.graph.nodes[lonely]["record"] = Gpu(address=lonely, vendor="amd")
    mesh = fitting(maker.graph, 160, 43).box("mesh")
    assert mesh is not None
    assert "28 of 36 pairs" in mesh.lines[0]


def test_a_knot_of_another_bundle_shows_its_links() -> None:
    maker = Maker()
    for _ in range(8):
        maker.device(maker.root(None), "gpu")
    maker.mesh([[0 if i == j else 2 + 2 * ({i, j} == {1, 4}) for j in range(8)] for i in range(8)])
    signs = knots(fitting(maker.graph, 160, 43))
    assert signs.pop((maker.gpus[1], maker.gpus[4])) == "4"
    assert set(signs.values()) == {"●"}


def test_cube_mesh_has_a_lane_for_every_link_and_none_overlap() -> None:
    drawing = fitting(graphs.cube().graph, 160, 43)
    lanes = [line for line in drawing.lines if line.kind == "nvlink"]
    assert len(lanes) == 16
    runs = [(line.points[1][1], *sorted((line.points[1][0], line.points[2][0]))) for line in lanes]
    for one, other in combinations(runs, 2):
        assert one[0] != other[0] or one[2] < other[1] or other[2] < one[1]
    ports = [point for line in lanes for point in (line.points[0], line.points[-1])]
    assert len(set(ports)) == len(ports)


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
