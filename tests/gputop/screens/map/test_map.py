"""The Map screen: walking, marking, paths, live figures, and pictures of four nodes."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from textual.geometry import Region
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.screens.map.diagram import WiringDiagram
from gputop.topology.model.machine import Gpu, XgmiLink
from gputop.topology.model.readings import Readings
from gputop.topology.model.snapshot import Measurement
from gputop.topology.node import Node
from gputop.topology.report import Report
from gputop.widgets.panels import WhyPanel
from tests.grid import shown_size, turns
from tests.support.app import (
    SIZES,
    app_of,
    demo_report,
    give,
    gpu,
    picture,
    press,
    reading,
    report_of,
    settle,
    text,
)

SHAPES = ("hgx-h100-8", "dgx-1v", "mi250x-8", "mi300x-8", "sick-h100-8", "sick-mi300x-8")


def wiring(pilot: Pilot[Any]) -> WiringDiagram:
    return pilot.app.screen.query_one("#wiring", WiringDiagram)


async def show(pilot: Pilot[Any], report: Report) -> WiringDiagram:
    await give(pilot, report)
    await press(pilot, "2")
    return wiring(pilot)


def addresses(report: Report) -> list[str]:
    return [gpu.address for gpu in report.snapshot.machine.gpus]


@pytest.mark.parametrize(("shape", "size"), turns(SHAPES, SIZES), ids=shown_size)
def test_picture(snap_compare: Any, shape: str, size: tuple[int, int]) -> None:
    async def draw(pilot: Pilot[Any]) -> None:
        await show(pilot, demo_report(shape))
        await press(pilot, "space", "tab", "tab")

    assert snap_compare(GpuTop(), terminal_size=size, run_before=draw)


async def test_arrows_walk_and_the_lines_below_follow() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = demo_report("hgx-h100-8")
        diagram = await show(pilot, report)
        assert diagram.box is not None
        assert diagram.box.id == addresses(report)[0]
        await press(pilot, "right")
        assert diagram.box.id == addresses(report)[1]
        assert addresses(report)[1] in text(pilot, "#chosen")
        await press(pilot, "down")
        assert diagram.box.kind == "plane"
        await press(pilot, "up")
        assert diagram.box.id == addresses(report)[1]
        await press(pilot, "shift+tab")
        assert diagram.box.id == addresses(report)[0]


async def test_a_marked_pair_lights_up_and_names_its_bottleneck() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = demo_report("sick-h100-8")
        diagram = await show(pilot, report)
        await press(pilot, "space", "tab", "tab", "tab")
        assert diagram.pair == (addresses(report)[0], addresses(report)[3])
        said = text(pilot, "#chosen")
        assert "▲ bottleneck 400 GB/s one way: 16" in said
        assert "not measured yet" in said
        view = app_of(pilot).view
        assert view is not None
        assert set(view.probe_targets()) == set(diagram.pair)
        inks = {ink for line in diagram.lines for _, ink in line}
        assert {"accent", "bad"} <= inks
        assert "┃" in diagram.text()
        assert "▲NV16 of 18 !" in diagram.text()
        await press(pilot, "escape")
        assert diagram.pair is None
        assert "bottleneck" not in text(pilot, "#chosen")


async def test_measured_figures_are_shown_for_a_pair() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = demo_report("hgx-h100-8")
        a, b = addresses(report)[:2]
        measured = Measurement(
            probe="p2p", quantity="write_bandwidth", src=a, dst=b, value=396.1, unit="GB/s"
        )
        snapshot = msgspec.structs.replace(report.snapshot, measurements=(measured,))
        await show(pilot, Report(Node(snapshot)))
        await press(pilot, "space", "tab")
        assert "measured 396 / – GB/s there / back" in text(pilot, "#chosen")


async def test_why_explains_the_device_or_the_pair() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = demo_report("hgx-h100-8")
        await show(pilot, report)
        view = app_of(pilot).view
        assert view is not None
        alone = view.why()
        await press(pilot, "space", "tab")
        both = view.why()
        assert alone is not None
        assert both is not None
        assert alone.title != both.title
        await press(pilot, "enter")
        assert isinstance(app_of(pilot).screen, WhyPanel)


async def test_a_click_selects() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = demo_report("hgx-h100-8")
        diagram = await show(pilot, report)
        box = diagram.drawing.box(addresses(report)[5])
        assert box is not None
        await pilot.click("#wiring", offset=(box.x + 3, box.y + 1))
        await settle(pilot)
        assert diagram.box == box


async def test_only_lines_that_changed_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = gpu(0)
    before = report_of((first,), (reading(first, utilization_percent=10.0),))
    moved = (reading(first, utilization_percent=90.0),)
    snapshot = before.snapshot
    after = msgspec.structs.replace(
        snapshot, readings=msgspec.structs.replace(snapshot.readings, gpus=moved)
    )
    async with GpuTop().run_test(size=(100, 30)) as pilot:
        diagram = await show(pilot, before)
        drawing = diagram.drawing
        drawn: list[int] = []

        def cells_seen(index: int, *_: int | None) -> tuple[Region, ...]:
            drawn.append(index)
            return ()

        monkeypatch.setattr(diagram, "_cells_seen", cells_seen)
        await give(pilot, before.follow(after))
        box = diagram.box
        assert box is not None
        assert box.live is not None
        assert drawn == [box.live.y]
        assert diagram.drawing is drawing
        assert "90 %" in diagram.text()


async def test_a_lost_gpu_is_reported_in_words() -> None:
    first = gpu(0)
    async with GpuTop().run_test(size=(100, 30)) as pilot:
        diagram = await show(pilot, report_of((first,), (reading(first, lost=True),)))
        assert "lost !" in diagram.text()
        assert "this GPU is gone" in text(pilot, "#chosen")


async def test_the_selected_gpu_of_a_dense_mesh_shows_its_links() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = demo_report("mi300x-8")
        diagram = await show(pilot, report)
        await press(pilot, "tab")
        assert "to GPU1" not in diagram.text(), "what moves goes before what all have"
        lines = diagram.text().splitlines()
        xgmi = [line for line in lines if "mlx5" not in line]
        assert sum(line.count("↑") + line.count("idle") for line in xgmi) == 8
        still = msgspec.structs.replace(report.snapshot, readings=Readings())
        diagram = await show(pilot, Report(Node(still).decide()))
        assert "to 7 GPUs" in diagram.text()
        assert diagram.text().count("to GPU1: 64") == 7


async def test_many_gpus_scroll_to_the_selected_one() -> None:
    mesh = tuple(
        gpu(
            number,
            nvlinks=(),
            xgmi=tuple(
                XgmiLink(remote_address=f"0000:{0x10 + other:02x}:00.0", links=1, raw_gbs=64.0)
                for other in range(40)
                if other != number
            ),
        )
        for number in range(40)
    )
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        diagram = await show(pilot, report_of(mesh))
        assert diagram.drawing.width > 80
        for _ in range(39):
            diagram.walk("next")
        await settle(pilot)
        assert diagram.box is not None
        assert diagram.scroll_offset.x > 0
        assert diagram.box.right <= diagram.scroll_offset.x + diagram.size.width


async def test_zoom_goes_round() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        diagram = await show(pilot, demo_report("hgx-h100-8"))
        heights = []
        for _ in range(3):
            await press(pilot, "z")
            heights.append(next(b.height for b in diagram.drawing.boxes if b.kind == "gpu"))
        assert heights[0] == heights[2] == 1
        assert heights[1] > 1


async def test_zoom_shows_something_else_at_once_where_the_map_is_compact() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        diagram = await show(pilot, demo_report("hgx-h100-8"))
        assert not any(box.framed for box in diagram.drawing.boxes)
        await press(pilot, "z")
        assert any(box.framed for box in diagram.drawing.boxes)


@pytest.mark.parametrize("gpus", [(), (gpu(0),), (gpu(0), gpu(1))], ids=len)
async def test_nodes_with_few_gpus_and_no_pci_tree(gpus: tuple[Gpu, ...]) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        diagram = await show(pilot, report_of(gpus))
        assert diagram.text().count("GPU") >= len(gpus)
        assert not app_of(pilot).trouble
        await press(pilot, "space", "down", "up", "tab", "enter")
        assert not app_of(pilot).trouble


async def test_tiny_and_back() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        diagram = await show(pilot, demo_report("dgx-1v"))
        wide = diagram.drawing
        await pilot.resize_terminal(40, 10)
        await settle(pilot)
        await pilot.resize_terminal(160, 50)
        await settle(pilot)
        assert diagram.drawing == wide
        assert not app_of(pilot).trouble


async def test_no_figure_is_cut_where_there_is_no_room() -> None:
    async with GpuTop().run_test(size=(60, 24)) as pilot:
        await show(pilot, demo_report("sick-h100-8"))
        line = next(line for line in picture(pilot).splitlines() if "GPU0 " in line)
        assert "9" not in line


@pytest.mark.parametrize(
    ("name", "size"),
    turns(["mi250x-8", "mi300x-8", "mi355x-8", "hgx-h100-8"], SIZES),
    ids=shown_size,
)
async def test_facts_below_the_map_are_whole_or_left_out(name: str, size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await show(pilot, demo_report(name))
        shown = " ".join(text(pilot, "#chosen").split())
    facts = shown.partition(" lines: ")[0]
    assert re.search(r"(\w+ traffic ↑\S+ ↓\S+ GB/s|xGMI to [\w ,/]* together)$", facts)
    assert facts.endswith(" GB/s") or (name, size[0]) == ("mi250x-8", 80)


async def test_a_fact_that_does_not_fit_is_left_out_whole() -> None:
    async with GpuTop().run_test(size=(60, 24)) as pilot:
        await show(pilot, demo_report("mi300x-8"))
        shown = " ".join(text(pilot, "#chosen").split())
    assert "xGMI to 7 GPUs, 64 GB/s each, 448 together lines: " in shown


@pytest.mark.parametrize("demo", ["pcie-l40s-8", "mi250x-8", "hgx-h100-8"])
async def test_a_marked_device_has_no_line_under_blanks(demo: str) -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await show(pilot, demo_report(demo))
        await press(pilot, "space", "tab", "tab")
        board = pilot.app.screen.query_one(WiringDiagram)
        spans = [span for line in board.lines for span in line]
        lined = [text for text, ink in spans if "underline" in ink]
        assert lined
        assert all(text == text.strip() for text in lined)


async def test_a_drive_hangs_below_its_switch_and_is_told_with_its_model_and_size() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        report = demo_report("hgx-h100-8")
        diagram = await show(pilot, report)
        drive = next(one.address for one in report.snapshot.machine.drives if one.name == "nvme3")
        box = next(box for box in diagram.drawing.boxes if box.id == drive)
        assert box.lines == ("nvme3",)
        while diagram.box is None or diagram.box.id != drive:
            await press(pilot, "tab")
        told = text(pilot, "#chosen")
        assert drive in told
        assert "PCIe gen4 x4" in told
        assert "SAMSUNG MZWLR3T8HBLS-00007" in told
        assert "3.5 TiB" in told
