"""The first lines of Node: verdict, use and cost; its graphs and orders."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.app import GpuTop
from gputop.screens.charts import area, ceiling, spark
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.explain.nics import gpu_nics
from gputop.topology.explain.switches import switch_above
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.report import Report
from tests.support.added import without_counts
from tests.support.app import demo_report, give, press, text


def judged(name: str) -> Report:
    node = demo_report(name).node
    return Report(node, diagnose(Case(node)))


@pytest.mark.parametrize(
    ("shape", "verdict"),
    [
        ("hgx-h100-8", "✓ healthy: nothing wrong, N checks done, N skipped · 1 notice"),
        ("sick-h100-8", "▼ slow  GPU3: 16 of 18 NVLinks, PCIe x8 of x16"),
        ("sick-mi300x-8", "▼ slow  xGMI links are down: GPU2-GPU5"),
    ],
)
async def test_the_first_line_is_the_verdict_and_the_second_who_runs(
    shape: str, verdict: str
) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, judged(shape))
        # Whether the demo's job has told by now is the thread's affair.
        said = without_counts(text(pilot, "#verdict")).replace(" node ", " ")
        assert verdict in said
        if "sick" not in shape:
            assert "BUSY GPU0-5 torchrun demo 5 h · FREE GPU6-7" in text(pilot, "#use")


async def test_a_node_without_a_free_gpu_is_healthy() -> None:
    report = judged("hgx-h100-8")
    gpus = report.snapshot.readings.gpus
    full = (*gpus[:6], *(replace(one, processes=gpus[0].processes) for one in gpus[6:]))
    readings = replace(report.snapshot.readings, gpus=full)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report.follow(replace(report.snapshot, readings=readings)))
        assert "✓ healthy: nothing wrong" in text(pilot, "#verdict")


async def test_graphs_and_orders() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, judged("hgx-h100-8"))
        await press(pilot, "g")
        busy = judged("hgx-h100-8").snapshot.readings.gpus[0].utilization_percent
        assert f"Utilisation {busy:.0f} %" in text(pilot, "#plots")
        assert "clocks: power cap on GPU" in text(pilot, "#gpus")
        assert "last 30 s" in text(pilot, "#plots")
        await press(pilot, "escape", "s")
        assert not pilot.app.screen.query_one("#plots").display
        assert "by utilisation" in text(pilot, "#gpus")


def test_each_gpu_has_its_nic_and_its_switch() -> None:
    node = demo_report("hgx-h100-8").node
    nics = gpu_nics(node)
    third = node.snapshot.machine.gpus[3].address
    said = "NCCL takes mlx5_3: PIX, GPUDirect RDMA; carries {} GB/s, NCCL counts 48.0"
    assert nics[third].text == said.format("50.0"), "the port's 400 Gb/s"
    narrow = gpu_nics(demo_report("sick-h100-8").node).values()
    assert said.format("31.5") in {nic.text for nic in narrow}, "PCIe x8 of GPU3"
    assert all("in the library's table" in nic.because for nic in narrow)
    assert nics[third].place == "near"
    assert "shared with mlx5_3" in switch_above(node.snapshot.machine, third)


def test_a_library_that_leaves_nics_out_within_one_node_still_takes_one_between_nodes() -> None:
    for demo, first in (
        (
            "pcie-l40s-8",
            "NCCL takes mlx5_0: PIX, GPUDirect RDMA; carries 31.5 GB/s, NCCL counts 24.0",
        ),
        ("mi300x-8", "RCCL takes mlx5_0: PIX, GPUDirect RDMA; carries 50.0 GB/s, RCCL counts 48.0"),
    ):
        node = demo_report(demo).node
        prediction = node.prediction
        assert prediction is not None
        assert not any(view.nets for view in prediction.views)
        nics = gpu_nics(node)
        assert all(nic.taken for nic in nics.values())
        assert nics[node.snapshot.machine.gpus[0].address].text == first
    hosts_alike = predict(node.snapshot, nodes=2)
    assert [view.local_nets for view in node.nic_views] == [
        view.local_nets for view in hosts_alike.views
    ]


def test_charts() -> None:
    assert spark((None, 0.0, 50.0, 100.0), 100.0, "bar") == ((" ▁▄▇", "bar"),)
    assert area((0.0, 100.0), 100.0, 2, "bar") == (((" █", "bar"),), (("▁█", "bar"),))
    assert [ceiling(value) for value in (0.0, 0.03, 3.0, 70.0)] == [1.0, 0.05, 5.0, 100.0]
