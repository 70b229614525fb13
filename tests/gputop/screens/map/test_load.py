"""The load of the links on the map: its steps, what it is a part of, and how a line shows it."""

from __future__ import annotations

import msgspec
import pytest

from gputop.app import GpuTop
from gputop.screens.map.canvas import Canvas, Marks
from gputop.screens.map.diagram import WiringDiagram
from gputop.screens.map.load import LinkLoad, load_of, loads, share_of
from gputop.topology.report import Report
from gputop.topology.sketch.drawing import Drawing
from gputop.topology.sketch.layout import fitting
from gputop.topology.wiring.wires import WireKind
from tests.support.app import demo_report, give, press


@pytest.mark.parametrize(
    ("share", "before", "load"),
    [
        (0.0, None, LinkLoad.IDLE),
        (0.0099, None, LinkLoad.IDLE),
        (0.01, None, LinkLoad.SOME),
        (0.299, None, LinkLoad.SOME),
        (0.3, None, LinkLoad.HALF),
        (0.599, None, LinkLoad.HALF),
        (0.6, None, LinkLoad.FULL),
        (1.2, None, LinkLoad.FULL),
        (0.56, LinkLoad.FULL, LinkLoad.FULL),
        (0.54, LinkLoad.FULL, LinkLoad.HALF),
        (0.64, LinkLoad.HALF, LinkLoad.HALF),
        (0.66, LinkLoad.HALF, LinkLoad.FULL),
        (0.26, LinkLoad.HALF, LinkLoad.HALF),
        (0.24, LinkLoad.HALF, LinkLoad.SOME),
        (0.006, LinkLoad.SOME, LinkLoad.SOME),
        (0.0, LinkLoad.SOME, LinkLoad.IDLE),
        (0.011, LinkLoad.IDLE, LinkLoad.IDLE),
        (0.02, LinkLoad.IDLE, LinkLoad.SOME),
    ],
)
def test_the_steps(share: float, before: LinkLoad | None, load: LinkLoad) -> None:
    assert load_of(share, before) is load


def drawn(report: Report) -> Drawing:
    return fitting(report.graph, 160, 40)


def with_nvlink(report: Report, tx: float | None, rx: float | None) -> Report:
    """All GPUs send and receive that many GB/s over NVLink."""
    readings = report.snapshot.readings
    gpus = tuple(
        msgspec.structs.replace(
            gpu,
            nvlink_tx_bytes_per_second=None if tx is None else tx * 1e9,
            nvlink_rx_bytes_per_second=None if rx is None else rx * 1e9,
        )
        for gpu in readings.gpus
    )
    replaced = msgspec.structs.replace(readings, gpus=gpus)
    return report.follow(msgspec.structs.replace(report.snapshot, readings=replaced))


def test_the_share_is_of_all_links_in_the_busier_direction() -> None:
    report = with_nvlink(demo_report("sick-h100-8"), 100.0, 300.0)
    found = {
        line.ends[0]: share_of(line, report.graph, report.snapshot.readings)
        for line in drawn(report).lines
        if line.kind is WireKind.NVLINK
    }
    shares = [round(share, 3) for share in found.values() if share is not None]
    # GPU3 has 16 of its 18 links, 400 of 450 GB/s.
    assert sorted(shares) == [0.667] * 7 + [0.75]


def test_what_is_not_known_is_no_load() -> None:
    report = with_nvlink(demo_report("hgx-h100-8"), None, 300.0)
    found = loads(drawn(report), report.graph, report.snapshot.readings, {})
    kinds = {line.kind for line in drawn(report).lines if line.ends in found}
    assert kinds == {WireKind.PCIE}


def test_no_counter_gives_the_load_of_nvlink_c2c() -> None:
    report = demo_report("gb200-nvl72-tray")
    lines = [line for line in drawn(report).lines if line.kind is WireKind.C2C]
    assert lines
    assert {share_of(line, report.graph, report.snapshot.readings) for line in lines} == {None}


@pytest.mark.parametrize(
    ("load", "sign", "style"),
    [
        (LinkLoad.IDLE, "│", "nvlink-idle"),
        (LinkLoad.SOME, "│", "nvlink"),
        (LinkLoad.HALF, "│", "nvlink-busy"),
        (LinkLoad.FULL, "┃", "nvlink-busy"),
    ],
)
def test_weight_and_colour_of_a_line(load: LinkLoad, sign: str, style: str) -> None:
    drawing = drawn(demo_report("hgx-h100-8"))
    line = next(line for line in drawing.lines if line.kind is WireKind.NVLINK)
    canvas = Canvas(drawing, Marks(loads=frozenset({(line.ends, load)})))
    (x, top), (_, bottom) = line.points[0], line.points[-1]
    assert (sign, style) in {canvas.rows[y][x] for y in range(top, bottom)}


async def test_lines_follow_the_traffic_and_the_walk_takes_a_step_with_each_reading() -> None:
    def styles(wiring: WiringDiagram) -> set[str]:
        return {ink for line in wiring.lines for _, ink in line}

    idle, full = (with_nvlink(demo_report("hgx-h100-8"), rate, rate) for rate in (0.0, 400.0))
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, idle)
        await press(pilot, "2")
        wiring = pilot.app.screen.query_one("#wiring", WiringDiagram)
        assert "link-nvlink bold" not in styles(wiring)
        await give(pilot, full)
        assert "link-nvlink bold" in styles(wiring)
        await press(pilot, "r", "r")
        assert wiring.overlay is not None
        steps = []
        for report in (idle, full, idle):
            await give(pilot, report)
            assert wiring._canvas is not None
            steps.append(wiring._canvas_for[1].step)  # type: ignore[attr-defined]
        assert len(set(steps)) == 3
        assert set(steps) <= set(wiring.overlay.ways)
