"""Packages on the map: parts inside one box, two dies under one heading, and what is said of them.

The trees of KFD are recordings (their origin is in recordings/README.md); MI250X is a demo.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.screens.map.diagram import WiringDiagram
from gputop.topology.explain.pair import why_pair
from gputop.topology.model.machine import Gpu, Machine, XgmiLink
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report
from gputop.topology.sketch.drawing import Drawing
from gputop.topology.sketch.layout import fitting, layout
from gputop.topology.sketch.packages import side_by_side
from gputop.topology.wiring.graph import build_graph, wires_of
from gputop.topology.wiring.packages import Package, packages
from gputop.topology.wiring.wires import Wire, WireKind
from tests.grid import shown_size, turns
from tests.support.app import SIZES, app_of, demo_report, give, press, text
from tests.support.mixed_made import mixed
from tests.topology.sketch import graphs
from tests.topology.sketch.checked import check

TREES = {"mi308x-8-cpx": 4, "mi300x-8-cpx": 8}
"""Recordings, and parts of a package in them."""
ROOMS = ((160, 43), (80, 18))


@cache
def report(name: str) -> Report:
    if name not in TREES:
        return demo_report(name)
    return Report(Node(load([f"tests/recordings/kfd/{name}.tar.gz"]).snapshot).decide())


async def show(pilot: Pilot[Any], name: str, *keys: str) -> WiringDiagram:
    await give(pilot, report(name))
    await press(pilot, "2", *keys)
    return pilot.app.screen.query_one("#wiring", WiringDiagram)


@pytest.mark.parametrize(("name", "size"), turns(TREES, SIZES), ids=shown_size)
def test_picture(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    async def draw(pilot: Pilot[Any]) -> None:
        await show(pilot, name, "space", *["tab"] * 9)

    assert snap_compare(GpuTop(), terminal_size=size, run_before=draw)


@pytest.mark.parametrize("size", ROOMS)
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("name", [*TREES, "mi250x-8", "mi300x-8"])
def test_drawing_holds_every_part_once(name: str, compact: bool, size: tuple[int, int]) -> None:
    graph = report(name).graph
    check(layout(graph, *size, compact), graph)


@pytest.mark.parametrize("size", ROOMS)
@pytest.mark.parametrize("name", TREES)
def test_parts_stand_inside_their_package(name: str, size: tuple[int, int]) -> None:
    graph = report(name).graph
    drawing = fitting(graph, *size)
    assert drawing.width <= size[0]
    assert drawing.height <= size[1]
    found = packages(graph)
    assert len(found) == 8
    assert {box.id for box in drawing.boxes if box.kind == "package"} == {p.id for p in found}
    for package in found:
        home = drawing.box(package.id)
        assert home is not None
        for number, node in enumerate(package.members):
            part = drawing.box(node)
            assert part is not None
            assert part.lines == (str(number),)
            assert home.x <= part.x
            assert part.right <= home.right
            assert home.bottom <= part.y < home.base
            assert drawing.at(part.x, part.y) == part
            assert drawing.at(home.x, home.y) == home


@pytest.mark.parametrize("name", TREES)
def test_one_wire_of_the_mesh_joins_two_packages_for_all_their_parts(name: str) -> None:
    graph = report(name).graph
    drawing = fitting(graph, 80, 18)
    knots = [line for line in drawing.lines if len(line.points) == 4 and line.kind is WireKind.XGMI]
    assert len(knots) == 28
    wires = {
        frozenset((a, b)): wire for a, b, wire in wires_of(graph) if wire.kind is WireKind.XGMI
    }
    drawn = {edge for line in knots for edge in line.edges}
    inside = {edge for edge, wire in wires.items() if wire.inside}
    assert drawn == set(wires) - inside
    assert inside


def test_a_part_that_is_missing_leaves_its_place_empty() -> None:
    found = packages(report("mi300x-8-cpx").graph)
    assert [len(package.members) for package in found] == [8] * 7 + [7]


def dies(drawing: Drawing) -> dict[str, tuple[str, ...]]:
    """Heading -> labels of the GPUs right below it."""
    return {
        box.id: tuple(
            gpu.lines[0].split()[0]
            for gpu in drawing.boxes
            if gpu.kind == "gpu" and gpu.y == box.bottom and box.x <= gpu.x < box.right
        )
        for box in drawing.boxes
        if box.kind == "package"
    }


@pytest.mark.parametrize("size", ROOMS)
def test_two_gcds_of_an_mi250x_stand_under_one_heading(size: tuple[int, int]) -> None:
    drawing = fitting(report("mi250x-8").graph, *size)
    assert list(dies(drawing).values()) == [(f"GPU{i}", f"GPU{i + 1}") for i in (0, 2, 4, 6)]
    headings = [box for box in drawing.boxes if box.kind == "package"]
    assert all("MI250X package" in box.lines[0] for box in headings)


@pytest.mark.parametrize(
    ("model", "links", "found"),
    [
        ("AMD Instinct MI250X", [4], 1),
        ("AMD Instinct MI250X", [2], 0),
        ("AMD Instinct MI250X", [4, 4], 0),
        ("AMD Instinct MI210", [4], 0),
        ("NVIDIA H100 80GB HBM3", [4], 0),
    ],
)
def test_two_dies_are_known_by_their_model_and_the_links_between_them(
    model: str, links: list[int], found: int
) -> None:
    maker = graphs.Maker()
    for _ in range(3):
        maker.device(maker.root(None), "gpu")
    first, *others = maker.gpus
    for gpu in maker.gpus:
        vendor = "amd" if model.startswith("AMD") else "nvidia"
        maker.graph.nodes[gpu]["record"] = Gpu(address=gpu, vendor=vendor, name=model)
    for other, count in zip(others, links, strict=False):
        wire = Wire(kind=WireKind.XGMI, payload_gbs=50.0 * count, count=count, count_max=count)
        maker.graph.add_edge(first, other, wire=wire)
    assert len(packages(maker.graph)) == found


def test_a_heading_is_left_out_where_something_stands_between_the_dies() -> None:
    package = Package(id="package a", members=("a", "b"), shared=False, links=4)
    assert side_by_side([package], ["a", "b", "nic"]) == (package,)
    assert side_by_side([package], ["a", "nic", "b"]) == ()
    assert side_by_side([package], ["a", "nic"]) == ()


async def test_a_part_says_whose_it_is_and_what_it_shares() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        diagram = await show(pilot, "mi308x-8-cpx", "tab")
        said = text(pilot, "#chosen")
        assert "part 1 of MI308X 0a:00.0" in said
        assert "xGMI to 7 packages, 64 GB/s each, for all its parts" in said
        assert diagram.text().count("to 0a: 64") == 7
        await press(pilot, "up")
        assert diagram.box is not None
        assert diagram.box.kind == "package"
        assert "CPX, 4 parts" in text(pilot, "#chosen")
        await press(pilot, "space")
        assert diagram.first is None
        view = app_of(pilot).view
        assert view is not None
        page = view.why()
        assert page is not None
        assert "inside one package" in page.claim
        assert not app_of(pilot).trouble


async def test_two_parts_of_one_package_are_joined_without_a_link() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await show(pilot, "mi308x-8-cpx", "space", "tab")
        said = text(pilot, "#chosen")
        assert "inside one package: no xGMI link lies between its parts" in said
        assert "bottleneck" not in said


async def test_the_arrows_reach_every_part() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        diagram = await show(pilot, "mi300x-8-cpx")
        seen = []
        for key in ("right", "right", "right", "down", "left", "up", "up", "down", "down", "down"):
            await press(pilot, key)
            assert diagram.box is not None
            seen.append(diagram.box.kind if diagram.box.kind != "gpu" else diagram.box.lines[0])
        assert seen == ["1", "2", "3", "7", "6", "2", "package", "2", "6", "mesh"]


def split(machine: Machine, count: int) -> Machine:
    """The same with each of AMD's GPUs in so many parts."""
    own = {gpu.address: [f"{gpu.address[:-1]}{i}" for i in range(count)] for gpu in amd_of(machine)}
    gpus = []
    for gpu in machine.gpus:
        for i, address in enumerate(own.get(gpu.address, ())):
            ends = [other for parts in own.values() for other in parts if other != address]
            part = msgspec.structs.replace(
                gpu, address=address, partition=str(i), parent=gpu.address,
                compute_partition="CPX", memory_partition="NPS4",
                xgmi=tuple(XgmiLink(remote_address=end, hops=1) for end in ends),
            )  # fmt: skip
            gpus.append(part)
        gpus += [gpu] if gpu.address not in own else []
    return msgspec.structs.replace(machine, gpus=tuple(gpus))


def amd_of(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if gpu.vendor == "amd"]


@pytest.mark.parametrize("size", ROOMS)
@pytest.mark.parametrize("parts", [2, 8])
def test_parts_below_pcie_switches_fit_both_terminals(parts: int, size: tuple[int, int]) -> None:
    machine = split(report("mi300x-8").snapshot.machine, parts)
    graph = build_graph(machine)
    drawing = fitting(graph, *size)
    check(drawing, graph)
    assert drawing.width <= size[0]
    assert drawing.height <= size[1]
    wires = [line for line in drawing.lines if line.kind is WireKind.PCIE]
    for package in packages(graph):
        # All parts go through the one PCIe link that their package has.
        assert [line.ends[1] for line in wires].count(package.id) == 1
        assert not any(node in line.ends for line in wires for node in package.members)
    if size[0] > 100:
        live = [box.live for box in drawing.boxes if box.kind == "gpu"]
        assert all(slot is not None and slot.width >= 3 for slot in live)
        assert "CPX" in " ".join(box.lines[1] for box in drawing.boxes if box.kind == "package")


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("size", ROOMS)
def test_a_card_beside_packages_in_parts(size: tuple[int, int], compact: bool) -> None:
    graph = build_graph(split(mixed().machine, 8))
    drawing = layout(graph, *size, compact)
    check(drawing, graph)
    cards = [drawing.box(gpu.address) for gpu in mixed().machine.gpus if gpu.vendor == "nvidia"]
    assert [box is not None and box.framed for box in cards] == [not compact] * 2


async def test_gcds_name_their_partner() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await show(pilot, "mi250x-8", "tab", "tab")
        assert "one package with GPU3" in text(pilot, "#chosen")
        await press(pilot, "up")
        assert "4 xGMI links join only dies of one package" in text(pilot, "#chosen")


def test_pairs_in_one_package_say_what_ties_them() -> None:
    parts = report("mi308x-8-cpx")
    said = why_pair(parts.node, "0000:0a:00.0", "0000:0a:00.3")
    assert said.claim.startswith("XGMI: inside one package: no xGMI link lies between its parts;")
    assert "KFD states 819.2 GB/s, its constant" in said.claim
    assert "parts of one package, 0000:0a:00.0" in said.facts[0].because
    grant = next(fact for fact in said.facts if "grant" in fact.what)
    assert grant.source.startswith("KFD io_links")
    far = why_pair(parts.node, "0000:0a:00.0", "0000:80:00.0")
    assert "package" not in far.claim
    dies = report("mi250x-8")
    first, second, third = (gpu.address for gpu in dies.snapshot.machine.gpus[:3])
    assert (
        "as the two dies of one package, 200 GB/s one way"
        in why_pair(dies.node, first, second).claim
    )
    assert "dies" not in why_pair(dies.node, first, third).claim
    assert "driver: 4 xGMI links join" in why_pair(dies.node, first, second).facts[0].because
