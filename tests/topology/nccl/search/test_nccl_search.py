"""The search for rings, trees and NVLS graphs on small systems."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.nccl.nodes import System
from gputop.topology.nccl.prediction import Graphs
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.search.version import search_version, search_versions
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.versions import version_for

from ..made import AMD, cpu, gpu, nic, switch, system
from ..nodes import (
    EMERALD,
    GEN3,
    GEN4,
    GEN5,
    SAPPHIRE,
    SKYLAKE,
    cube_mesh,
    made,
    nvswitch,
    pairs,
    pcie,
    searched,
    shape,
    sockets,
    under_switch,
)

TABLE: list[tuple[str, str, tuple[Any, ...], tuple[Any, ...]]] = [
    ("8x A100", nvswitch(8, 80, 12), (12, 20, 20, "NVL"), (12, 20, 20, "NVL")),
    ("4x A100", nvswitch(4, 80, 12), (12, 20, 20, "NVL"), (12, 20, 20, "NVL")),
    ("2x A100", nvswitch(2, 80, 12), (12, 20, 20, "NVL"), (12, 40, 40, "NVL")),
    ("8x H100", nvswitch(8, 90, 18), (12, 30, 30, "NVL"), (12, 30, 30, "NVL")),
    ("4x H100", nvswitch(4, 90, 18), (12, 30, 30, "NVL"), (12, 30, 30, "NVL")),
    ("2x H100", nvswitch(2, 90, 18), (12, 30, 30, "NVL"), (12, 60, 60, "NVL")),
    ("8x B200", nvswitch(8, 100, 18), (16, 45, 45, "NVL"), (16, 40, 40, "NVL")),
    ("V100 mesh", cube_mesh(), (6, 20, 20, "NVL"), (6, 20, 20, "NVL")),
    ("3090", pairs(2, AMD, 86, 4, GEN4, 1), (2, 20, 20, "NVL"), (2, 40, 40, "NVL")),
    ("NVL pairs", pairs(8, SAPPHIRE, 90, 18, GEN5), (2, 11, 11, "SYS"), (2, 20, 20, "SYS")),
    ("gen3 Intel", pcie(4, SKYLAKE, GEN3), (1, 10, 10, "PHB"), (1, 10, 10, "PHB")),
    ("gen3 AMD", pcie(4, AMD, GEN3), (1, 12, 12, "PHB"), (1, 12, 12, "PHB")),
    ("gen4 Intel", pcie(4, SKYLAKE, GEN4), (1, 20, 20, "PHB"), (1, 20, 20, "PHB")),
    ("gen4 AMD", pcie(4, AMD, GEN4), (2, 12, 12, "PHB"), (2, 12, 12, "PHB")),
    ("2 gen4 AMD", pcie(2, AMD, GEN4), (2, 12, 12, "PHB"), (2, 20, 20, "PHB")),
    ("gen5 Intel", pcie(4, SAPPHIRE, GEN5, sm=90), (2, 20, 20, "PHB"), (2, 20, 20, "PHB")),
    ("gen5 AMD", pcie(4, AMD, GEN5, sm=90), (2, 24, 24, "PHB"), (2, 24, 24, "PHB")),
    ("switch gen3", under_switch(GEN3, 80), (1, 12, 12, "PIX"), (1, 12, 12, "PIX")),
    ("switch gen4", under_switch(GEN4, 80), (2, 12, 12, "PIX"), (2, 12, 12, "PIX")),
    ("switch gen5", under_switch(GEN5, 90), (2, 24, 24, "PIX"), (2, 24, 24, "PIX")),
    ("2s gen4 SKL", pcie(4, SKYLAKE, GEN4, sockets=2), (1, 10, 10, "SYS"), (1, 10, 10, "SYS")),
    ("2s gen4 SPR", pcie(4, SAPPHIRE, GEN4, sockets=2), (1, 20, 20, "SYS"), (1, 20, 20, "SYS")),
    ("2s gen4 EMR", pcie(4, EMERALD, GEN4, sockets=2), (1, 20, 20, "SYS"), (1, 20, 20, "SYS")),
    ("2s gen5 SKL", sockets(SKYLAKE), (3, 3, 3, "SYS"), (3, 3, 3, "SYS")),
    ("2s gen5 SPR", sockets(SAPPHIRE), (2, 11, 11, "SYS"), (2, 20, 20, "SYS")),
    ("2s gen5 EMR", sockets(EMERALD), (2, 20, 20, "SYS"), (2, 20, 20, "SYS")),
    ("2s gen3 AMD", pcie(4, AMD, GEN3, sockets=2), (1, 12, 12, "SYS"), (1, 12, 12, "SYS")),
    ("2s gen4 AMD", pcie(4, AMD, GEN4, sockets=2), (1, 15, 15, "SYS"), (1, 15, 15, "SYS")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("xml", "ring", "tree"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_common_nodes_get_the_known_channels(
    xml: str, ring: tuple[Any, ...], tree: tuple[Any, ...]
) -> None:
    found = searched(xml)
    assert (shape(found.ring), shape(found.tree)) == (ring, tree)
    assert found.nvls is None


@pytest.mark.parametrize(
    ("xml", "ring", "tree"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_2_30_agrees_below_blackwell(
    xml: str, ring: tuple[Any, ...], tree: tuple[Any, ...]
) -> None:
    found = searched(xml, library="nccl-2.30.7")
    if tree[1] == 40 and ring[1] == 45:
        tree = ring
    assert (shape(found.ring), shape(found.tree)) == (ring, tree)


def test_four_blackwells_get_a_plain_tree() -> None:
    found = searched(nvswitch(4, 100, 18), nvls=True, library="nccl-2.30.7")
    assert (shape(found.ring)[:2], shape(found.tree)[:2]) == ((16, 45), (16, 50))
    assert shape(found.nvls)[:3] == (4, 90, 90)
    assert found.tree is not None
    assert found.tree.pattern == 3


@pytest.mark.parametrize(
    ("count", "sm", "heads", "intra", "inter"),
    [(8, 90, 8, 40, 60), (4, 90, 4, 60, 60), (2, 90, 2, 60, 60), (8, 100, 8, 80, 90)],
)
def test_nvls_has_a_head_for_each_gpu(
    count: int, sm: int, heads: int, intra: float, inter: float
) -> None:
    found = searched(nvswitch(count, sm, 18), nvls=True).nvls
    assert shape(found)[:3] == (heads, intra, inter)
    assert found is not None
    assert found.orders == tuple((rank,) for rank in range(count))


def test_no_nvls_without_switches_or_on_older_gpus() -> None:
    for xml in (nvswitch(8, 80, 12), pcie(4, AMD, GEN5, sm=90)):
        found = searched(xml, nvls=True).nvls
        assert found is not None
        assert found.channels == 0


@pytest.mark.parametrize(
    ("xml", "ring", "tree"),
    [
        (nvswitch(8, 80, 12, 200000, 2), (8, 24, 24, "NVL"), (8, 30, 24, "NVL")),
        (nvswitch(8, 90, 18, 400000), (8, 48, 48, "NVL"), (8, 48, 48, "NVL")),
        (nvswitch(8, 100, 18, 400000), (8, 48, 48, "NVL"), (8, 96, 48, "NVL")),
    ],
    ids=["A100", "H100", "B200"],
)
def test_several_nodes_are_bounded_by_their_nics(
    xml: str, ring: tuple[Any, ...], tree: tuple[Any, ...]
) -> None:
    found = searched(xml, more_nodes=True)
    assert (shape(found.ring), shape(found.tree)) == (ring, tree)
    assert found.ring is not None
    assert len({start for start, _ in found.ring.nets}) == 8


def test_a_balanced_tree_cannot_come_back_by_pxn_until_2_29() -> None:
    """PXN leads only towards the NIC; 2.29.2 allows SYS on the way back below sm 90."""
    xml = nvswitch(8, 80, 12, 200000)
    assert shape(searched(xml, more_nodes=True).tree) == (1, 0.1, 0.1, "SYS")
    assert shape(searched(xml, more_nodes=True, library="nccl-2.30.3").tree)[0] == 8


def test_two_gpus_share_the_nic_of_a_balanced_tree() -> None:
    """As NCCL decided on a recorded machine of this shape: the second GPU is the last, too."""
    near = (gpu(0x13, 0, sm=86, gdr=0), gpu(0x10, 1, sm=86), nic(0x42, 2, speed=200000))
    far = nic(0x41, 1, speed=200000)
    slow = [
        switch(bus, *inside).replace("32.0", "16.0", 1) for bus, inside in ((1, near), (2, (far,)))
    ]
    both = (switch(3, slow[0]), switch(4, slow[1]))
    xml = system(cpu(0, nic(0x40, 0, speed=100000, gdr=0), *both))
    tree = searched(xml, more_nodes=True).tree
    assert tree is not None
    assert shape(tree) == (2, 18, 12, "PIX")
    assert (tree.same_channels, tree.cross_nic) == (1, 0)
    assert tree.nets == ((2, 2), (2, 2))
    assert tree.orders == ((1, 0), (1, 0))


def test_the_ladders_follow_the_version() -> None:
    blackwell = nvswitch(8, 100, 18)
    assert shape(searched(blackwell, library="nccl-2.30.7").tree)[1] == 45
    assert shape(searched(blackwell, library="nccl-2.28.9").tree)[1] == 40
    assert shape(searched(blackwell, library="nccl-2.21.5").ring)[1] <= 60
    hopper, _ = version_for("nccl-2.28.3")
    assert search_version(hopper).number == "2.27.6"
    known = {(version.library, version.number) for version in search_versions()}
    assert {("nccl", "2.18.5"), ("nccl", "2.30.3"), ("rccl", "2.21.5")} <= known


def test_an_older_version_and_rccl_say_that_they_are_estimates() -> None:
    xml = nvswitch(4, 90, 18)
    exact, older = searched(xml).ring, searched(xml, library="nccl-2.18.1").ring
    assert exact is not None
    assert older is not None
    assert exact.estimate is None
    assert older.estimate is not None
    assert "2.18.5" in older.estimate


def test_cross_nic_changes_where_channels_end() -> None:
    xml = nvswitch(4, 80, 12, 100000)
    one = searched(xml, {"NCCL_CROSS_NIC": "0"}, more_nodes=True).ring
    assert one is not None
    assert one.cross_nic == 0
    assert all(start == end for start, end in one.nets)
    free = searched(xml, {"NCCL_CROSS_NIC": "1"}, more_nodes=True).ring
    assert free is not None
    assert free.cross_nic == 1


def test_fewer_nics_when_the_policy_says_so() -> None:
    inside = [gpu(0x10, 0, sm=90), gpu(0x11, 1, sm=90)]
    nics = [nic(0x50 + dev, dev, speed=100000) for dev in range(4)]
    xml = system(cpu(0, switch(0x90, *inside, *nics)))
    all_nets = searched(xml, {"NCCL_NETDEVS_POLICY": "ALL"}, more_nodes=True).ring
    one_each = searched(xml, {"NCCL_NETDEVS_POLICY": "MAX:1"}, more_nodes=True).ring
    assert all_nets is not None
    assert one_each is not None
    assert len({start for start, _ in one_each.nets}) <= 2
    assert len({start for start, _ in all_nets.nets}) >= len({start for start, _ in one_each.nets})


def test_the_limits_of_the_machine_are_noted() -> None:
    version, _ = version_for("nccl-2.28.9")
    one = made(nvswitch(8, 90, 18))
    search_graphs(one, version, Settings({}), nvls=False)
    assert one.max_bandwidth_gbs == pytest.approx(370.8)
    assert one.total_bandwidth_gbs == pytest.approx(370.8)


def test_a_lone_gpu_and_no_gpu() -> None:
    found = searched(pcie(1, AMD, GEN4))
    assert found.ring is not None
    assert found.ring.orders[0] == (0,)
    assert (
        search_graphs(System(), version_for("nccl-2.28.9")[0], Settings({}), nvls=True) == Graphs()
    )


def test_gpus_out_of_reach_still_get_the_last_resort() -> None:
    version, _ = version_for("nccl-2.28.9")
    one = made(pcie(4, AMD, GEN4))
    one.inter = True  # no NIC to reach the other hosts by
    found = search_graphs(one, version, Settings({}), nvls=False)
    assert shape(found.ring) == (1, 0.1, 0.1, "SYS")
    assert found.ring is not None
    assert sorted(found.ring.orders[0]) == [0, 1, 2, 3]
