"""The rings and trees over the map."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.screens.map.diagram import WiringDiagram
from gputop.screens.map.rings import overlays, relay, way
from gputop.widgets.spans import text_of
from tests.support.app import demo_report, give, press, text


def addresses(demo: str) -> list[str]:
    return [gpu.address for gpu in demo_report(demo).snapshot.machine.gpus]


def test_every_order_of_the_search_is_an_overlay() -> None:
    report = demo_report("dgx-1v")
    found = overlays(report)
    assert report.prediction is not None
    ring, tree = report.prediction.graphs.ring, report.prediction.graphs.tree
    assert ring is not None
    assert tree is not None
    for is_ring, graph in ((True, ring), (False, tree)):
        channels = [number for one in found if one.is_ring is is_ring for number in one.channels]
        assert sorted(channels) == list(range(1, graph.channels + 1))
    first, gpus = found[0], addresses("dgx-1v")
    assert first.order == tuple(gpus[rank] for rank in ring.orders[0])
    assert first.steps[-1] == (first.order[-1], first.order[0])
    assert all(len(edge) == 2 for edge in first.edges)
    assert text_of(first.head(report.graph)).startswith(" RING GPU0→3→2→1→5→6→7→4→0  2 of 6")


def test_a_relay_of_the_library_is_the_way() -> None:
    report, gpus = demo_report("dgx-1v"), addresses("dgx-1v")
    assert relay(report.prediction, gpus[0], gpus[5]) == gpus[1]
    path = way(report, gpus[0], gpus[5])
    assert path is not None
    assert path.nodes == (gpus[0], gpus[1], gpus[5])
    assert path.payload_gbs == 25.0
    assert relay(report.prediction, gpus[0], gpus[1]) is None


def wiring(pilot: Pilot[Any]) -> WiringDiagram:
    return pilot.app.screen.query_one("#wiring", WiringDiagram)


async def test_r_lays_one_after_the_other_over_the_map_and_esc_takes_it_away() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("dgx-1v"))
        await press(pilot, "2", "r")
        assert text(pilot, "#map-head").splitlines()[1].startswith(" RING GPU0→3→2")
        assert "→3" in wiring(pilot).text()
        for _ in range(len(overlays(demo_report("dgx-1v"))) - 1):
            await press(pilot, "r")
        assert text(pilot, "#map-head").splitlines()[1].startswith(" TREE GPU0")
        assert "root" in wiring(pilot).text()
        await press(pilot, "r")
        assert wiring(pilot).overlay is None
        await press(pilot, "r", "escape")
        assert wiring(pilot).overlay is None
        assert "RING" not in text(pilot, "#map-head")
        await press(pilot, "space", *["tab"] * 5)
        assert "NCCL relays through GPU1" in text(pilot, "#chosen")
