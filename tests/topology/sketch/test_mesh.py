"""Meshes of GPUs in the drawing of a node: a knot or a lane for every pair."""

from __future__ import annotations

from itertools import combinations

import pytest

from gputop.topology.model.machine import Gpu
from gputop.topology.sketch.drawing import Drawing
from gputop.topology.sketch.layout import fitting
from gputop.topology.wiring.wires import WireKind
from tests.topology.sketch import graphs
from tests.topology.sketch.checked import check
from tests.topology.sketch.graphs import Maker

SIZES = ((160, 43), (80, 18))


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
    wires = [line for line in drawing.lines if line.kind is WireKind.XGMI and len(line.points) == 4]
    assert {next(iter(line.edges)) for line in wires} == {
        frozenset(pair) for pair in combinations(maker.gpus, 2)
    }
    mesh = drawing.box("mesh")
    assert mesh is not None
    assert mesh.lines[0] == "xGMI mesh: every pair 1 link, 64 GB/s one way"
    if size == (160, 43):
        assert mesh.lines[1] == "448 to all 7; a job on 2 GPUs has 64, on 4 GPUs 192"


def test_dense_mesh_is_reported_in_words_where_the_grid_has_no_room() -> None:
    drawing = fitting(graphs.complete().graph, 80, 11)
    mesh = drawing.box("mesh")
    assert mesh is not None
    assert mesh.lines == ("xGMI mesh: every pair 1 link, 64 GB/s one way",)
    spokes = [line for line in drawing.lines if line.kind is WireKind.XGMI]
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
    lanes = [line for line in drawing.lines if line.kind is WireKind.NVLINK]
    assert len(lanes) == 16
    runs = [(line.points[1][1], *sorted((line.points[1][0], line.points[2][0]))) for line in lanes]
    for one, other in combinations(runs, 2):
        assert one[0] != other[0] or one[2] < other[1] or other[2] < one[1]
    ports = [point for line in lanes for point in (line.points[0], line.points[-1])]
    assert len(set(ports)) == len(ports)
