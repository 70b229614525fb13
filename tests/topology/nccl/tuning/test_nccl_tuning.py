"""The tuning table and the choice by size, beside the log's and NCCL's own code."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from gputop.topology.nccl.tuning.channels import coll_channels
from gputop.topology.nccl.tuning.choices import choices, choose
from gputop.topology.nccl.tuning.inputs import TuningInput
from gputop.topology.nccl.tuning.model import tuning
from tests.topology.nccl.tuning.made import H100, H200, MIB, graph, node, picked, switches

# The log of the recorded node: LL, LL128, SIMPLE of each algorithm, latency/bandwidth.
LOGGED = {
    ("Broadcast", "RING"): "7.2/141.0 15.9/331.2 11.8/360.0",
    ("Reduce", "RING"): "7.2/141.0 15.9/331.2 11.8/360.0",
    ("AllGather", "RING"): "8.4/188.0 19.7/441.6 18.6/480.0",
    ("ReduceScatter", "RING"): "8.4/188.0 19.7/441.6 18.6/480.0",
    ("AllReduce", "TREE"): "10.4/43.6 21.5/128.8 32.4/165.6",
    ("AllReduce", "RING"): "10.2/94.0 25.4/220.8 28.8/240.0",
    ("AllReduce", "COLLNET_DIRECT"): "2.4/0.0 2.4/0.0 40.8/0.0",
    ("AllGather", "COLLNET_DIRECT"): "2.4/0.0 2.4/0.0 40.8/0.0",
    ("AllReduce", "COLLNET_CHAIN"): "0.0/0.0 0.0/0.0 46.8/0.0",
    ("AllReduce", "NVLS"): "0.0/0.0 0.0/0.0 0.0/0.0",
    ("AllGather", "PAT"): "0.0/0.0 0.0/0.0 0.0/0.0",
    ("Broadcast", "TREE"): "0.0/0.0 0.0/0.0 0.0/0.0",
}


@pytest.mark.parametrize("cell", LOGGED, ids=" ".join)
def test_the_table_is_the_logged_one(cell: tuple[str, str]) -> None:
    collective, algorithm = cell
    cells = tuning(H200)[collective][algorithm]
    assert " ".join(f"{us:.1f}/{gbs:.1f}" for us, gbs in cells.values()) == LOGGED[cell]


def test_the_worked_example_is_timed_as_in_the_log() -> None:
    table, channels = tuning(H200), coll_channels(H200)
    assert channels == 24
    assert picked(H200, "AllReduce", MIB) == "RING LL 0..23"
    assert picked(H200, "AllReduce", 16 * MIB) == "RING SIMPLE 0..23"
    assert picked(H200, "AllReduce", 4) == "RING LL 0..0"
    for size, time_us, close in ((MIB, 21.36, 0.01), (16 * MIB, 98.7, 0.1)):
        choice = choose(H200, table, channels, "AllReduce", size)
        assert choice is not None
        assert choice.time_us == pytest.approx(time_us, abs=close)
    shown = choices(H200, table, channels)
    assert [choice.bytes // MIB for choice in shown] == [1, 4, 16, 64, 256, 1024]
    assert all(one.time_us < later.time_us for one, later in pairwise(shown))


SWITCHES = [
    (
        "8x A100",
        node(8, 80, graph(12, 20), graph(12, 20, pattern=1)),
        {"AllReduce": "RING LL, 4096K RING LL128, 32768K RING SIMPLE"},
    ),
    (
        "8x H100",
        replace(H100, number="2.30.7"),
        {
            "AllReduce": "RING LL, 2048K NVLS SIMPLE",
            "AllGather": "RING LL, 8192K RING LL128, 32768K RING SIMPLE",
            "ReduceScatter": "RING LL, 8192K RING LL128, 32768K RING SIMPLE",
        },
    ),
    (
        "4x H100",
        node(4, 90, graph(12, 30), graph(12, 30, pattern=1), graph(4, 60, pattern=5)),
        {"AllReduce": "RING LL, 4096K RING LL128, 16384K RING SIMPLE"},
    ),
    (
        "8x B200",
        node(8, 100, graph(16, 45), graph(16, 45, pattern=1), graph(8, 80, 90, pattern=5)),
        {"AllReduce": "RING LL, 4096K NVLS SIMPLE"},
    ),
    (
        "GB200 tray",
        node(4, 100, graph(16, 45), graph(16, 50, pattern=3), graph(4, 90, pattern=5)),
        {"AllReduce": "RING LL, 8192K RING LL128, 16384K RING SIMPLE"},
    ),
    (
        "8x V100",
        node(8, 70, graph(6, 20, same=0), graph(6, 20, pattern=1, same=0)),
        {"AllReduce": "RING LL, 1024K RING LL128, 16384K RING SIMPLE"},
    ),
    (
        "4x PCIe gen4",
        node(4, 80, graph(1, 20, kind="PHB"), graph(1, 20, kind="PHB", pattern=1)),
        {"AllReduce": "RING LL, 512K RING SIMPLE"},
    ),
    (
        "8x PCIe gen4",
        node(8, 80, graph(1, 20, kind="PHB"), graph(1, 20, kind="PHB", pattern=1)),
        {"AllReduce": "RING LL, 1024K RING SIMPLE"},
    ),
    (
        "8x H100 NVL pairs",
        node(8, 90, graph(2, 11, kind="SYS"), graph(2, 20, kind="SYS", pattern=1)),
        {"AllReduce": "RING LL, 1024K RING SIMPLE, 2048K TREE SIMPLE"},
    ),
    (
        "2x DGX H100",
        node(16, 90, graph(8, 48), graph(8, 48, pattern=2), graph(8, 40, 48, pattern=5), nodes=2),
        {
            "AllReduce": "TREE LL, 256K TREE LL128, 4096K NVLS_TREE SIMPLE",
            "AllGather": "RING LL, 1024K RING LL128, 65536K RING SIMPLE",
        },
    ),
]


@pytest.mark.parametrize(("name", "comm", "wanted"), SWITCHES, ids=[case[0] for case in SWITCHES])
def test_choices_switch_where_nccls_own_code_does(
    name: str, comm: TuningInput, wanted: dict[str, str]
) -> None:
    assert {collective: switches(comm, collective) for collective in wanted} == wanted


def test_2_18_has_cheap_trees_and_multicast_for_all_reduce_alone() -> None:
    """Figures worked out by hand from graph/tuning.cc of 2.18.6 and 2.19.3."""
    found = {}
    for number in ("2.18.6", "2.19.3"):
        one = tuning(replace(H100, number=number))
        found[number] = (
            one["AllReduce"]["TREE"]["SIMPLE"][0],
            *one["AllReduce"]["NVLS"]["SIMPLE"],
            one["AllGather"]["NVLS"]["SIMPLE"][1],
        )
    assert found["2.18.6"] == pytest.approx((2 * 7 * 4, 23, 8 * 40 * 5 / 6, 0.0))
    assert found["2.19.3"] == pytest.approx((2 * 7 * 28, 23, 8 * 40 * 5 / 6, 8 * 40 * 5 / 6))


def test_between_nodes_2_18_counts_the_steps_of_nvls_trees() -> None:
    four = replace(H100, number="2.18.6", nodes=4, ranks=32)
    time, gbs = tuning(four)["AllReduce"]["NVLS_TREE"]["SIMPLE"]
    assert time == pytest.approx(23 + 2 * 3 * 19)
    assert gbs == pytest.approx(8 * 60 * 0.7 * 4 / 6)
    assert tuning(four)["AllReduce"]["NVLS"]["SIMPLE"][0] == pytest.approx(23 + 18)
