"""The rings and trees over the map."""

from __future__ import annotations

import re
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.screens.map.diagram import WiringDiagram
from gputop.screens.map.rings import order_line, way
from gputop.topology.expectation.modelled import modelled
from gputop.topology.explain.nccl import pair_decision
from gputop.topology.explain.rank_orders import Laid, bottleneck, rank_orders
from gputop.topology.flags.what_if.changes import with_changes
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.demos.demo import names
from gputop.topology.report import Report
from gputop.topology.wiring.wires import WireKind
from gputop.widgets.spans import text_of
from tests.support.app import demo_report, give, press, text

PEERS, HOST = {WireKind.NVLINK, WireKind.XGMI}, {WireKind.PCIE, WireKind.C2C}


def addresses(demo: str) -> list[str]:
    return [gpu.address for gpu in demo_report(demo).snapshot.machine.gpus]


def test_every_order_of_the_search_is_an_overlay() -> None:
    report = demo_report("dgx-1v")
    found = rank_orders(report.node)
    assert report.prediction is not None
    ring, tree = report.prediction.graphs.ring, report.prediction.graphs.tree
    assert ring is not None
    assert tree is not None
    for algorithm, graph in ((Laid.RING, ring), (Laid.TREE, tree)):
        channels = [
            number for one in found if one.algorithm is algorithm for number in one.channels
        ]
        assert sorted(channels) == list(range(1, graph.channels + 1))
    first, gpus = found[0], addresses("dgx-1v")
    assert first.order == tuple(gpus[rank] for rank in ring.orders[0])
    assert first.steps[-1] == (first.order[-1], first.order[0])
    assert all(len(edge) == 2 for edge in first.edges)
    assert text_of(order_line(first, report.graph)).startswith(" RING GPU0→3→2→1→5→6→7→4→0  2 of 6")


def test_the_head_names_the_narrowest_hop_or_says_that_all_are_equal() -> None:
    for demo_name, said in (
        ("pcie-l40s-8", ", every hop 31.5 "),
        ("sick-h100-8", ", ▲ narrowest "),
    ):
        report = demo_report(demo_name)
        for laid in rank_orders(report.node):
            assert said in text_of(order_line(laid, report.graph)), demo_name


def test_a_relay_of_the_library_is_the_way() -> None:
    report, gpus = demo_report("dgx-1v"), addresses("dgx-1v")
    path = way(report, gpus[0], gpus[5])
    assert path is not None
    assert path.nodes == (gpus[0], gpus[1], gpus[5])
    assert path.payload_gbs == 25.0
    direct = way(report, gpus[0], gpus[1])
    assert direct is not None
    assert direct.nodes == (gpus[0], gpus[1])


def wiring(pilot: Pilot[Any]) -> WiringDiagram:
    return pilot.app.screen.query_one("#wiring", WiringDiagram)


async def test_r_lays_one_after_the_other_over_the_map_and_esc_takes_it_away() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("dgx-1v"))
        await press(pilot, "2", "r")
        assert text(pilot, "#map-head").splitlines()[1].startswith(" RING GPU0→3→2")
        assert "→3" in wiring(pilot).text()
        for _ in range(len(rank_orders(demo_report("dgx-1v").node)) - 1):
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


@pytest.mark.parametrize("changes", [{}, {"NCCL_P2P_DISABLE": "1"}], ids=["as-it-is", "no-p2p"])
@pytest.mark.parametrize("name", demo.names())
def test_a_ring_lies_on_the_links_of_the_transport(name: str, changes: dict[str, str]) -> None:
    report = demo_report(name)
    report = Report(report.node.follow(with_changes(report.snapshot, changes)).decide())
    for laid in rank_orders(report.node):
        decisions = [pair_decision(report.node, *step) for step in laid.steps]
        kinds = {report.graph.edges[a, b]["wire"].kind for a, b in map(tuple, laid.edges)}
        if not any(decision is None or decision.p2p for decision in decisions):
            assert not kinds & PEERS
        if any(decision is not None and decision.transport == "SHM" for decision in decisions):
            assert kinds & HOST


def test_what_an_all_reduce_of_1_gib_takes_comes_first() -> None:
    nvls, *rest = rank_orders(demo_report("hgx-h100-8").node)
    assert nvls.algorithm is Laid.NVLS
    assert nvls.chosen == "used for 1 GiB"
    assert nvls.step(1) == frozenset()
    assert not list(nvls.marks())
    assert {laid.algorithm for laid in rest} == {Laid.RING, Laid.TREE}
    assert {laid.chosen for laid in rest} == {"not used for 1 GiB"}


def test_the_narrowest_step_is_marked_where_steps_differ() -> None:
    report = demo_report("sick-h100-8")
    ring = next(laid for laid in rank_orders(report.node) if laid.algorithm is Laid.RING)
    gpu3 = report.snapshot.machine.gpus[3].address
    assert ring.narrow_gbs == 400.0
    assert ring.narrow
    assert all(gpu3 in edge for edge in ring.narrow)
    assert "▲ narrowest 400" in text_of(order_line(ring, report.graph))
    assert not any(laid.narrow for laid in rank_orders(demo_report("hgx-h100-8").node))


@pytest.mark.parametrize(
    ("demo", "said"),
    [
        ("sick-h100-8", "Bottleneck (NVLS): GPU3 – NVSwitch, 400 GB/s one way"),
        ("hgx-h100-8", "Bottleneck (NVLS): none, every hop carries 450 GB/s one way"),
        (
            "pcie-l40s-8",
            "Bottleneck (ring): NCCL 2.27.7 counts 1 × 20 GB/s SYS; every hop carries 31.5 GB/s "
            "one way",
        ),
        (
            "sick-mi300x-8",
            "Bottleneck (ring): RCCL 2.22.3 counts 2 × 48 GB/s XGMI, the rings that are left: the "
            "xGMI link of GPU2 and GPU5 is down; every hop carries 64 GB/s one way",
        ),
        (
            "mi250x-8",
            "Bottleneck (ring): GPU0 – GPU2, GPU1 – GPU3, GPU1 – GPU5 and 3 more, 50 GB/s one way",
        ),
    ],
)
def test_the_bottleneck_is_named_in_words(demo: str, said: str) -> None:
    assert bottleneck(demo_report(demo).node) == said


@pytest.mark.parametrize("demo", names())
def test_a_hop_is_never_the_whole_reason_for_a_figure_far_below_it(demo: str) -> None:
    node = demo_report(demo).node
    assert node.prediction is not None
    figure, said = modelled(node.prediction, 1 << 30), bottleneck(node)
    rates = re.findall(r"every hop carries (\S+) GB/s", said)
    if rates and figure is not None and ("none" in said or "counts" not in said):
        assert figure >= 0.9 * float(rates[0]) or "not known" in said
