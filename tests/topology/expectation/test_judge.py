"""Why a figure is low: slots, links, throttling, limits; and figures beside their siblings."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.expectation.judge import judge
from gputop.topology.expectation.judgement import Judgement
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from tests.support.expectation_made import (
    CUBE,
    addresses,
    change_gpu,
    collective,
    demo,
    figure,
    h200,
    links_up,
    matrix,
)
from tests.support.snapshots import demo_node


def one(snapshot: NodeSnapshot, item: Measurement) -> Judgement:
    return judge(snapshot, [item])[0]


@pytest.mark.parametrize(
    ("details", "reach", "words"),
    [
        ({"pcie_generation": 4, "pcie_width": 16}, 27.7, "PCIe gen4 x16 instead of gen5 x16"),
        ({"pcie_generation": 5, "pcie_width": 8}, 27.7, "PCIe gen5 x8 instead of gen5 x16"),
    ],
)
def test_a_poor_slot_explains_a_low_copy(details: dict[str, Any], reach: float, words: str) -> None:
    snapshot = h200()
    gpu = addresses(snapshot)[0]
    found = one(snapshot, figure("h2d_bandwidth", 27.4, gpu, details=details))
    assert (found.verdict, found.explained) == ("low", True)
    assert words in found.cause
    assert found.band is not None
    assert found.band.reach == pytest.approx(reach, abs=0.1)
    worse = one(snapshot, figure("h2d_bandwidth", 12.0, gpu, details=details))
    assert (worse.verdict, worse.explained) == ("low", False)
    assert worse.cause.endswith("and this is lower still")


def test_missing_links_explain_a_low_pair_and_a_low_collective() -> None:
    snapshot = h200()
    snapshot = change_gpu(snapshot, 2, **links_up(snapshot.machine.gpus[2], 9))
    gpus = addresses(snapshot)
    pair = one(snapshot, figure("write_bandwidth", 197.0, gpus[0], gpus[2]))
    assert (pair.verdict, pair.explained) == ("low", True)
    assert pair.cause == "GPU2 has 9 of 18 NVLinks up: 198 GB/s is what that can give"
    other = one(snapshot, figure("write_bandwidth", 197.0, gpus[0], gpus[1]))
    assert (other.verdict, other.explained, other.cause) == ("low", False, "")
    together = one(snapshot, collective(177.0))
    assert (together.verdict, together.explained) == ("low", True)
    assert "9 of 18 NVLinks" in together.cause


def test_a_sick_demo_is_explained_where_it_is_sick() -> None:
    snapshot = demo("sick-h100-8")
    gpus = addresses(snapshot)
    copy = one(snapshot, figure("h2d_bandwidth", 25.4, gpus[3]))
    assert copy.explained
    assert "x8 instead of gen5 x16" in copy.cause


@pytest.mark.parametrize(
    ("quantity", "sick", "sound"),
    [
        ("write_bandwidth", 337.1, 379.7),
        ("both_ways_bandwidth", 331.8, 373.9),
        ("together_bandwidth", 664.1, 751.2),
    ],
)
def test_links_that_are_down_lower_every_figure_over_them(
    quantity: str, sick: float, sound: float
) -> None:
    """89 % of what is healthy each, whether or not other pairs were measured beside."""
    snapshot = demo("sick-h100-8")
    gpus = addresses(snapshot)
    pair = one(snapshot, figure(quantity, sick, gpus[0], gpus[3]))
    assert (pair.verdict, pair.explained) == ("low", True)
    assert pair.cause.startswith("GPU3 has 16 of 18 NVLinks up")
    other = one(snapshot, figure(quantity, sick, gpus[0], gpus[1]))
    assert (other.verdict, other.cause) == ("healthy", ""), "by what nobody knows"
    assert one(snapshot, figure(quantity, sound, gpus[0], gpus[3])).verdict == "healthy"


def gemm(snapshot: NodeSnapshot, **details: Any) -> Judgement:
    item = figure("gemm", 480.0, addresses(snapshot)[0], variant=CUBE, details=details)
    return one(snapshot, item)


@pytest.mark.parametrize(
    ("throttle", "explained", "words"),
    [
        (["sw-power-cap"], False, ""),  # every large GEMM meets it
        (["idle"], False, ""),
        ([], False, ""),
        (["sw-power-cap", "hw-thermal"], True, "temperature"),
        (["sw-thermal"], True, "temperature"),
        (["hw-power-brake"], True, "power brake"),
        (["hw-slowdown"], True, "slowed down by hardware"),
        (["application-clocks"], True, "clocks that somebody set"),
    ],
)
def test_throttling_explains_a_low_product(
    throttle: list[str], explained: bool, words: str
) -> None:
    found = gemm(h200(), throttle=throttle)
    assert (found.verdict, found.explained) == ("low", explained)
    assert words in found.cause
    assert bool(found.cause) == explained


def test_a_lowered_power_limit_explains_a_power_cap() -> None:
    snapshot = change_gpu(h200(), 0, power_limit_watts=450.0)
    assert gemm(snapshot, throttle=["sw-power-cap"]).cause == (
        "GPU0 has a power limit of 450 W instead of 700 W"
    )
    assert gemm(snapshot, throttle=["sw-power-cap"]).explained
    assert not gemm(snapshot, throttle=["idle"]).explained  # the limit was not met


def test_a_shared_gpu_explains_a_low_figure() -> None:
    found = gemm(h200(), shared=True)
    assert found.explained
    assert "shared with another process" in found.cause


def test_siblings_are_compared_without_a_table() -> None:
    snapshot = demo("dgx-1v")
    gpus = addresses(snapshot)
    values = [100.0] * 7 + [91.0]
    found = judge(
        snapshot, [figure("h2d_bandwidth", v, g, variant="pageable") for v, g in
                   zip(values, gpus, strict=True)]
    )  # fmt: skip
    assert [bool(item.note.count("siblings' median")) for item in found] == [False] * 7 + [True]
    assert found[-1].note.endswith("9 % under its siblings' median (100 GB/s)")
    assert {item.verdict for item in found} == {"no reference"}


def test_a_product_five_percent_behind_its_siblings_is_normal() -> None:
    snapshot = h200()
    values = (664.0, 662.0, 665.0, 632.0)
    found = judge(
        snapshot,
        [
            figure("gemm", v, g, variant=CUBE)
            for v, g in zip(values, addresses(snapshot), strict=True)
        ],
    )
    assert [(item.verdict, item.note) for item in found] == [("healthy", "")] * 4


def test_pairs_of_different_kinds_are_no_siblings() -> None:
    snapshot = demo("dgx-1v")
    rates = {"NV2": 48.0, "NV1": 24.0}
    cells = demo_node("dgx-1v").matrix
    gpus = addresses(snapshot)
    figures = matrix(
        snapshot,
        lambda i, j: rates.get(
            cell.code if (cell := cells.cell(gpus[i], gpus[j])) is not None else "", 9.0
        ),
    )
    assert {item.note for item in judge(snapshot, figures)} == {
        "no published figure fits this model and kind of path"
    }


def test_a_pair_as_slow_as_pcie_may_not_use_its_links() -> None:
    snapshot = h200()
    pair = addresses(snapshot)[:2]
    found = one(snapshot, figure("write_bandwidth", 44.0, *pair))
    assert (found.verdict, found.explained) == ("low", False)
    assert found.cause.startswith("no more than PCIe gen5 x16 carries")
    assert one(snapshot, figure("write_bandwidth", 150.0, *pair)).cause == ""


def test_a_forced_measurement_is_a_cause_of_its_own() -> None:
    found = gemm(h200(), forced="GPU0 is in use by process 7")
    assert found.cause == "the measurement was forced: GPU0 is in use by process 7"
    assert gemm(h200(), forced=True).cause == "the measurement was forced: a GPU was in use"


@pytest.mark.parametrize(
    ("details", "words"),
    [({"numa_node": 1}, "NUMA node 1"), ({"memory": "pageable"}, "staging buffer")],
)
def test_host_memory_that_is_not_what_the_reference_used(
    details: dict[str, Any], words: str
) -> None:
    snapshot = h200()
    item = figure("h2d_bandwidth", 20.0, addresses(snapshot)[0], variant="pinned", details=details)
    found = one(snapshot, item)
    assert found.verdict == "no reference"
    assert words in found.note


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (figure("write_bandwidth", 500.0, *addresses(h200())[:2]), "does it fit a cache"),
        (figure("memory_copy", 9000.0, addresses(h200())[0]), "does it fit a cache"),
        (figure("gemm", 900.0, addresses(h200())[0], variant=CUBE), "another data distribution"),
        (collective(480.0), "in-network reduction"),
    ],
    ids=["copy", "memory", "gemm", "collective"],
)
def test_a_high_figure_is_asked_what_fits_its_kind(item: Measurement, words: str) -> None:
    found = one(h200(), item)
    assert found.verdict == "high"
    assert words in found.note


def test_a_ring_over_half_of_the_links_is_reported_beside_the_links() -> None:
    """190 of 466 GB/s: less than half of NVLS, and what Ring gives over nine of eighteen links."""
    snapshot = demo("hgx-h100-8")
    snapshot = change_gpu(snapshot, 3, **links_up(snapshot.machine.gpus[3], 9))
    found = one(snapshot, collective(190.0))
    assert "GPU3 has 9 of 18 NVLinks up" in found.cause
    assert "about what Ring gives (185 GB/s), and NVLS was expected" in found.cause
    assert "Ring" not in one(snapshot, collective(120.0)).cause


def test_a_figure_behind_its_siblings_is_low_though_the_table_allows_it() -> None:
    snapshot = h200()
    gpus = addresses(snapshot)
    rates = [figure("h2d_bandwidth", v, g) for v, g in zip((55.0, 55.0, 55.0, 50.0), gpus)]  # noqa: B905
    assert [item.verdict for item in judge(snapshot, rates)] == ["healthy"] * 3 + ["low"]
