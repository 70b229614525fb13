"""Verdicts: true to the table and to what the node has; silent where nothing is known."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from gputop.topology.expectation.judge import judge
from gputop.topology.expectation.judgement import Judgement
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from tests.support.expectation_made import (
    CUBE,
    GIB,
    addresses,
    change_gpu,
    collective,
    demo,
    figure,
    h200,
    matrix,
    with_machine,
    with_variables,
)
from tests.support.snapshots import demo_node

MIB = 1 << 20


def one(snapshot: NodeSnapshot, item: Measurement) -> Judgement:
    return judge(snapshot, [item])[0]


@pytest.mark.parametrize(
    ("quantity", "value", "facts", "healthy", "verdict"),
    [
        ("write_bandwidth", 395.8, {}, 396.4, "healthy"),
        ("write_bandwidth", 330.0, {}, 396.4, "low"),
        ("write_bandwidth", 460.0, {}, 396.4, "high"),
        ("write_sweep", 395.8, {"bytes_per_copy": GIB}, 396.4, "healthy"),
        ("read_bandwidth", 393.0, {}, 393.8, "healthy"),
        ("kernel_write_bandwidth", 250.0, {}, 370.0, "low"),
        ("both_ways_bandwidth", 391.0, {}, 391.9, "healthy"),
        ("together_bandwidth", 783.0, {}, 783.7, "healthy"),
        ("together_bandwidth", 400.0, {}, 783.7, "low"),
        ("kernel_latency", 0.83, {}, 0.827, "healthy"),
        ("kernel_latency", 1.4, {}, 0.827, "low"),
    ],
)
def test_a_pair_of_h200(
    quantity: str, value: float, facts: dict[str, Any], healthy: float, verdict: str
) -> None:
    snapshot = h200()
    found = one(snapshot, figure(quantity, value, *addresses(snapshot)[:2], **facts))
    assert found.band is not None
    assert found.band.healthy == pytest.approx(healthy, rel=1e-3)
    assert (found.verdict, found.band.basis) == (verdict, "typical")
    assert found.band.source


@pytest.mark.parametrize(
    ("quantity", "value", "facts", "healthy", "verdict"),
    [
        ("h2d_bandwidth", 55.5, {"variant": "pinned"}, 55.43, "healthy"),
        ("d2h_bandwidth", 30.0, {"variant": "pinned"}, 55.06, "low"),
        ("h2d_bandwidth", 55.5, {"variant": "pinned, NUMA node 0"}, 55.43, "healthy"),
        ("memory_copy", 4170.0, {}, 4164.9, "healthy"),
        ("memory_copy", 2085.0, {"counted": "bytes copied, once"}, 2082.45, "healthy"),
        ("memory_triad", 3000.0, {}, 4150.0, "low"),
        ("gemm", 640.0, {"variant": CUBE}, 657.0, "healthy"),
        ("gemm", 730.0, {"variant": CUBE}, 657.0, "healthy"),  # a cool GPU's clock
        ("gemm", 640.0, {"details": {"dtype": "bf16", "m": 8192, "k": 8192, "n": 8192}}, 657.0,
         "healthy"),
        ("gemm", 640.0, {"variant": "bf16 M8192 K8192 N8192 linear"}, 657.0, "healthy"),
        ("gemm", 1100.0, {"variant": "fp8 M16384 K1024 N8192 scaled_mm"}, 1078.0, "healthy"),
        ("gemm", 700.0, {"variant": "bf16 M16384 K16384 N16384 matmul"}, 720.0, "healthy"),
    ],
)  # fmt: skip
def test_one_h200(
    quantity: str, value: float, facts: dict[str, Any], healthy: float, verdict: str
) -> None:
    snapshot = h200()
    found = one(snapshot, figure(quantity, value, addresses(snapshot)[0], **facts))
    assert found.band is not None
    assert found.band.healthy == pytest.approx(healthy, rel=1e-3)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("quantity", "value", "healthy"),
    [
        ("all_reduce_busbw", 353.0, 356.13),
        ("all_gather_busbw", 326.0, 326.35),
        ("reduce_scatter_busbw", 328.0, 327.95),
        ("all_to_all_busbw", 330.0, 337.55),
        ("send_receive_busbw", 360.0, 360.61),
    ],
)
def test_collectives_of_four_h200(quantity: str, value: float, healthy: float) -> None:
    found = one(h200(), collective(value, quantity, ranks=4))
    assert found.band is not None
    assert found.band.healthy == pytest.approx(healthy)
    assert (found.verdict, found.cause) == ("healthy", "")


@pytest.mark.parametrize(
    ("name", "item", "verdict", "basis"),
    [
        ("hgx-h100-8", ("write_bandwidth", 378.0, 0, 1), "healthy", "typical"),
        ("hgx-a100-8", ("write_bandwidth", 274.0, 0, 7), "healthy", "best"),
        ("hgx-a100-8", ("write_bandwidth", 180.0, 0, 7), "low", "best"),
        ("mi300x-8", ("write_bandwidth", 46.0, 0, 5), "healthy", "typical"),
        ("mi300x-8", ("write_bandwidth", 33.0, 0, 5), "low", "typical"),
        ("pcie-l40s-8", ("write_bandwidth", 26.0, 0, 1), "healthy", "typical"),
        ("pcie-l40s-8", ("write_bandwidth", 22.0, 0, 2), "no reference", "estimate"),
        ("pcie-l40s-8", ("write_bandwidth", 13.0, 0, 1), "low", "typical"),
        ("pcie-l40s-8", ("write_bandwidth", 9.0, 0, 5), "no reference", None),
        ("dgx-1v", ("write_bandwidth", 48.0, 0, 3), "no reference", None),
        ("mi300x-8", ("together_bandwidth", 20.0, 0, 1), "no reference", "estimate"),
        ("mi300x-8", ("h2d_bandwidth", 20.0, 0), "no reference", "estimate"),
        ("hgx-a100-8", ("h2d_bandwidth", 26.0, 0), "healthy", "typical"),
    ],
)
def test_other_nodes(name: str, item: tuple[Any, ...], verdict: str, basis: str | None) -> None:
    snapshot = demo(name)
    quantity, value, *places = item
    ends = [addresses(snapshot)[place] for place in places]
    found = one(snapshot, figure(quantity, value, *ends))
    assert found.verdict == verdict
    assert (found.band.basis if found.band else None) == basis


def test_gpus_on_a_mesh_have_one_link_for_each_other_gpu() -> None:
    snapshot = demo("mi300x-8")
    two = one(snapshot, collective(47.0, ranks=2))
    four = one(snapshot, collective(140.0, ranks=4))
    eight = one(snapshot, collective(312.0, ranks=8))
    assert (two.verdict, eight.verdict) == ("healthy", "healthy")
    assert four.verdict == "no reference"
    assert four.band is not None
    assert four.band.basis == "estimate"
    assert four.band.healthy == pytest.approx(3 * 47.7, rel=0.02)
    assert four.band.scaled == ("3 links of 64 GB/s",)


def test_words_of_the_band() -> None:
    snapshot = h200()
    pair = addresses(snapshot)[:2]
    good, look, low = (
        one(snapshot, figure("write_bandwidth", share * 396.4, *pair))
        for share in (0.96, 0.91, 0.84)
    )
    assert (good.verdict, good.note) == ("healthy", "")
    assert (look.verdict, look.note) == ("healthy", "look: 91 % of the reference")
    assert (low.verdict, low.cause, low.explained) == ("low", "", False)
    assert low.share == pytest.approx(0.84, abs=0.001)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"quantity": "write_bandwidth", "engine": "copy, staged through the host"}, "staged"),
        ({"quantity": "write_bandwidth", "verdict": "wrong-data"}, "wrong"),
        ({"quantity": "write_bandwidth", "device_kind": "cpu"}, "CPU"),
        ({"quantity": "write_bandwidth", "value": None, "why_none": "no P2P here"}, "no P2P here"),
        ({"quantity": "write_sweep", "bytes_per_copy": 4 * MIB}, "small"),
        ({"quantity": "concurrent_bandwidth", "variant": "all to one"}, "pattern"),
        ({"quantity": "h2d_bandwidth", "variant": "pageable"}, "staging"),
        ({"quantity": "h2d_bandwidth", "variant": "pinned, both ways"}, "siblings"),
        ({"quantity": "h2d_bandwidth", "variant": "pinned, NUMA node 1"}, "NUMA node 1"),
        ({"quantity": "h2d_bandwidth", "variant": "pinned, all GPUs at once"}, "siblings"),
        ({"quantity": "memory_copy", "bytes_per_copy": MIB}, "cache"),
        ({"quantity": "gemm", "variant": "bf16 M128 K128 N128 matmul"}, "small"),
        ({"quantity": "gemm", "variant": "something else"}, "shape"),
        ({"quantity": "gemm", "variant": "fp64 M8192 K8192 N8192 matmul"}, "fp64"),
        ({"quantity": "first_use"}, "kind"),
    ],
)  # fmt: skip
def test_what_no_reference_is_fit_for(item: dict[str, Any], words: str) -> None:
    snapshot = h200()
    gpus = addresses(snapshot)
    ends = gpus[:2] if "bandwidth" in item["quantity"] else gpus[:1]
    if item["quantity"] == "h2d_bandwidth":
        ends = gpus[:1]
    if item["quantity"] == "write_sweep":
        ends = gpus[:2]
    facts = {"value": 1.0, **item}
    quantity, value = facts.pop("quantity"), facts.pop("value")
    found = one(snapshot, figure(quantity, value, *ends, **facts))
    assert (found.verdict, found.band) == ("no reference", None)
    assert words in found.note


@pytest.mark.parametrize(
    "facts",
    [
        {"name": "NVIDIA Quantum Toaster", "pci_id": "10de:ffff"},
        {"mig_enabled": True},
    ],
)
def test_an_unknown_or_partitioned_gpu_has_no_reference(facts: dict[str, Any]) -> None:
    snapshot = h200()
    for index in range(4):
        snapshot = change_gpu(snapshot, index, **facts)
    gpus = addresses(snapshot)
    figures = [
        figure("write_bandwidth", 10.0, *gpus[:2]),
        figure("memory_copy", 10.0, gpus[0]),
        figure("gemm", 10.0, gpus[0], variant=CUBE),
        collective(10.0),
    ]
    found = judge(snapshot, figures)
    assert {item.verdict for item in found} == {"no reference"}
    assert all(item.band is None and item.note for item in found)


def test_an_estimate_alone_is_never_low() -> None:
    """Nobody published a figure of a B200 pair, so even 10 GB/s gets no verdict."""
    snapshot = demo("hgx-h100-8")
    b200 = {"name": "NVIDIA B200", "pci_id": "10de:2901", "compute_capability": "10.0"}
    for index, gpu in enumerate(snapshot.machine.gpus):
        links = tuple(
            msgspec.structs.replace(link, version="5.0", raw_gbs=53.125) for link in gpu.nvlinks
        )
        snapshot = change_gpu(snapshot, index, nvlinks=links, **b200)
    found = one(snapshot, figure("write_bandwidth", 10.0, *addresses(snapshot)[:2]))
    assert found.verdict == "no reference"
    assert found.band is not None
    assert found.band.basis == "estimate"
    assert 700 < found.band.healthy < 800
    assert "estimate" in found.note


def test_only_the_plateau_of_a_collective_is_low() -> None:
    small = collective(100.0, bytes_per_copy=64 * MIB)
    large_good, large_low = collective(350.0), collective(100.0)
    alone, _ = judge(h200(), [small, large_good])
    assert alone.verdict == "no reference"
    assert "at this size alone" in alone.note
    assert [item.verdict for item in judge(h200(), [small, large_low])] == ["low", "low"]
    assert one(h200(), small).verdict == "low"  # a third, and no larger message was measured
    near = one(h200(), collective(220.0, bytes_per_copy=64 * MIB))
    assert near.verdict == "no reference"
    assert 0.69 < (near.share or 0.0) < 0.71
    tiny = one(h200(), collective(3.0, bytes_per_copy=MIB))
    assert tiny.verdict == "no reference"
    assert "below 16 MiB" in tiny.note


def test_silent_cases_of_the_field() -> None:
    """Peers, "Rules that must stay silent": by design, none of these is low."""
    node = h200()
    assert one(node, collective(355.0, ranks=4)).verdict == "healthy"  # 8: no NVLS up to 4 GPUs
    eight = demo("hgx-h100-8")
    for quantity in ("all_gather_busbw", "reduce_scatter_busbw"):  # 13: NVLS does all-reduce only
        assert one(eight, collective(360.0, quantity)).verdict != "low"
    a100 = demo("hgx-a100-8")
    assert one(a100, collective(228.0)).verdict == "healthy"  # 8: no NVLS on A100
    copy = figure("h2d_bandwidth", 55.4, addresses(node)[0])
    assert one(with_machine(node, pci=()), copy).verdict == "healthy"  # a VM without a PCI tree


def test_idle_links_do_not_explain_anything() -> None:
    """A sleeping link shows generation 1; only what was read under load counts."""
    snapshot = h200()
    slow = tuple(msgspec.structs.replace(reading, pcie_gen=1) for reading in snapshot.readings.gpus)
    readings = msgspec.structs.replace(snapshot.readings, gpus=slow)
    snapshot = msgspec.structs.replace(snapshot, readings=readings)
    found = one(snapshot, figure("h2d_bandwidth", 20.0, addresses(snapshot)[0]))
    assert (found.verdict, found.cause) == ("low", "")


def test_a_gpu_may_be_named_by_its_uuid() -> None:
    uuids = [gpu.uuid or "" for gpu in h200().machine.gpus]
    assert one(h200(), figure("write_bandwidth", 395.0, *uuids[:2])).verdict == "healthy"


@pytest.mark.timing
def test_five_hundred_figures_are_judged_at_once() -> None:
    report = demo_node("hgx-h100-8")
    report = report.decide()
    snapshot = with_variables(report.snapshot)
    quantities = ("write_bandwidth", "read_bandwidth", "kernel_write_bandwidth",
                  "both_ways_bandwidth", "together_bandwidth", "write_sweep")  # fmt: skip
    figures = [item for name in quantities for item in matrix(snapshot, lambda i, j: 300 + i, name)]
    figures += [collective(300.0, bytes_per_copy=1 << size, ranks=8) for size in range(10, 31)]
    figures += [
        figure("gemm", 600.0 + shape, gpu, variant=f"bf16 M8192 K8192 N{8192 + shape} matmul")
        for gpu in addresses(snapshot)
        for shape in range(18)
    ]
    assert len(figures) > 490
    judge(snapshot, figures[:1], report.prediction)  # the tables and networkx are read once
    started = time.process_time()
    for _ in range(5):
        judge(snapshot, figures, report.prediction)
    assert (time.process_time() - started) / 5 < 0.05
