"""The search for rings, trees and NVLS graphs on small systems."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.topology.nccl.domains import views
from gputop.topology.nccl.prediction import Graphs, SearchGraph
from gputop.topology.nccl.rules import rules_for
from gputop.topology.nccl.search import graphs as remembering
from gputop.topology.nccl.search.attempt import Attempt
from gputop.topology.nccl.search.draft import Draft, single, times
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.search.rules import all_rules, search_rules
from gputop.topology.nccl.search.tried import Tried, budget
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system import Link, Node, PathType, System
from gputop.topology.nccl.xml.read import read_topology

from .nccl_made import AMD, SWITCH, cpu, gpu, nic, switch, system

SKYLAKE = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"'
SAPPHIRE = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"'
EMERALD = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207"'
GEN3, GEN4, GEN5 = "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"
HIDDEN = "fffffff:ff:ff.0"


def made(xml: str, *, more_nodes: bool = False, library: str = "nccl-2.28.9") -> System:
    rules, _ = rules_for(library)
    root = read_topology(xml.encode(), "made")
    return views(root, rules, Settings({}), more_nodes=more_nodes)[0].system


def searched(
    xml: str,
    env: dict[str, str] | None = None,
    *,
    more_nodes: bool = False,
    nvls: bool = False,
    library: str = "nccl-2.28.9",
) -> Graphs:
    rules, _ = rules_for(library)
    one = made(xml, more_nodes=more_nodes, library=library)
    return search_graphs(one, rules, Settings(env or {}), nvls=nvls)


def shape(graph: SearchGraph | None) -> tuple[int, float, float, str]:
    assert graph is not None
    return graph.channels, graph.bw_intra, graph.bw_inter, graph.type_intra


def nvswitch(count: int, sm: int, links: int, nic_mbps: int = 0, together: int = 1) -> str:
    """GPUs on NVSwitch, so many under each PCIe switch, with as many NICs if asked."""
    speed = GEN4 if sm < 90 else GEN5
    halves: list[list[str]] = [[], []]
    for first in range(0, count, together):
        inside = []
        for rank in range(first, first + together):
            inside.append(gpu(0x10 + rank, rank, [(HIDDEN, links, SWITCH)], sm=sm, speed=speed))
            if nic_mbps:
                inside.append(nic(0x60 + rank, rank, speed=nic_mbps))
        halves[first * 2 // count].append(switch(0xB0 + first, *inside))
    return system(*(cpu(numa, *inside) for numa, inside in enumerate(halves) if inside))


def pcie(count: int, kind: str, speed: str, *, sm: int = 80, sockets: int = 1) -> str:
    """GPUs on root ports."""
    cpus = []
    for numa in range(sockets):
        share = range(numa * count // sockets, (numa + 1) * count // sockets)
        cpus.append(
            cpu(numa, *(gpu(0x10 + rank, rank, sm=sm, speed=speed) for rank in share), kind=kind)
        )
    return system(*cpus)


def sockets(kind: str) -> str:
    """Four GPUs of PCIe gen 5 on two sockets."""
    return pcie(4, kind, GEN5, sm=90, sockets=2)


def pairs(count: int, kind: str, sm: int, links: int, speed: str, sockets: int = 2) -> str:
    """GPUs on root ports with NVLink bridges between neighbours."""
    cpus = []
    for numa in range(sockets):
        share = range(numa * count // sockets, (numa + 1) * count // sockets)
        inside = [
            gpu(
                0x10 + rank,
                rank,
                [(f"0000:{0x10 + (rank ^ 1):02x}:00.0", links, "0x030200")],
                sm=sm,
                speed=speed,
            )
            for rank in share
        ]
        cpus.append(cpu(numa, *inside, kind=kind))
    return system(*cpus)


def cube_mesh() -> str:
    """DGX-1V: eight V100, six NVLinks each."""
    near = {
        0: {1: 1, 2: 1, 3: 2, 4: 2}, 1: {0: 1, 2: 2, 3: 1, 5: 2}, 2: {0: 1, 1: 2, 3: 2, 6: 1},
        3: {0: 2, 1: 1, 2: 2, 7: 1}, 4: {5: 1, 6: 1, 7: 2, 0: 2}, 5: {4: 1, 6: 2, 7: 1, 1: 2},
        6: {4: 1, 5: 2, 7: 2, 2: 1}, 7: {4: 2, 5: 1, 6: 2, 3: 1},
    }  # fmt: skip
    cpus = []
    for numa in range(2):
        inside = [
            gpu(
                0x10 + rank,
                rank,
                [(f"0000:{0x10 + to:02x}:00.0", count, "0x030200") for to, count in links.items()],
                sm=70,
                speed=GEN3,
            )
            for rank, links in near.items()
            if rank // 4 == numa
        ]
        cpus.append(cpu(numa, *inside, kind=SKYLAKE))
    return system(*cpus)


def under_switch(speed: str, sm: int) -> str:
    inside = [gpu(0x10 + rank, rank, sm=sm, speed=speed) for rank in range(4)]
    return system(cpu(0, switch(0x90, *inside), kind=AMD))


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


def test_the_ladders_follow_the_version() -> None:
    blackwell = nvswitch(8, 100, 18)
    assert shape(searched(blackwell, library="nccl-2.30.7").tree)[1] == 45
    assert shape(searched(blackwell, library="nccl-2.28.9").tree)[1] == 40
    assert shape(searched(blackwell, library="nccl-2.21.5").ring)[1] <= 60
    hopper, _ = rules_for("nccl-2.28.3")
    assert search_rules(hopper).version == "2.27.7"
    known = {(one.library, one.version) for one in all_rules()}
    assert {("nccl", "2.20.3"), ("nccl", "2.30.3"), ("rccl", "2.21.5")} <= known


def test_an_older_version_and_rccl_say_that_they_are_estimates() -> None:
    xml = nvswitch(4, 90, 18)
    exact, older = searched(xml).ring, searched(xml, library="nccl-2.18.1").ring
    assert exact is not None
    assert older is not None
    assert exact.estimate is None
    assert older.estimate is not None
    assert "2.20" in older.estimate


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


@pytest.mark.parametrize("library", ["nccl-2.28.9", "rccl-2.21.5"])
def test_many_channels_do_not_run_out_of_stack(library: str) -> None:
    """A channel is a few calls deep, and RCCL allows 64 of them."""
    tag = "nvlink" if library.startswith("nccl") else "xgmi"
    links = [
        [(f"0000:{0x10 + other:02x}:00.0", 400, "0x030200") for other in range(3) if other != rank]
        for rank in range(3)
    ]
    near = [gpu(0x10 + rank, rank, links[rank], sm=80) for rank in range(3)]
    nics = [nic(0x50 + dev, dev, speed=4000000) for dev in range(4)]
    xml = system(cpu(0, *near, *nics), version="1" if tag == "nvlink" else "2")
    xml = xml.replace("nvlink", tag)
    for more_nodes in (False, True):
        found = searched(xml, more_nodes=more_nodes, library=library)
        assert found.ring is not None
        assert found.ring.channels >= 1


def test_the_limits_of_the_machine_are_noted() -> None:
    rules, _ = rules_for("nccl-2.28.9")
    one = made(nvswitch(8, 90, 18))
    search_graphs(one, rules, Settings({}), nvls=False)
    assert one.max_bandwidth_gbs == pytest.approx(370.8)
    assert one.total_bandwidth_gbs == pytest.approx(370.8)


def test_a_lone_gpu_and_no_gpu() -> None:
    found = searched(pcie(1, AMD, GEN4))
    assert found.ring is not None
    assert found.ring.orders[0] == (0,)
    assert search_graphs(System(), rules_for("nccl-2.28.9")[0], Settings({}), nvls=True) == Graphs()


def test_gpus_out_of_reach_still_get_the_last_resort() -> None:
    rules, _ = rules_for("nccl-2.28.9")
    one = made(pcie(4, AMD, GEN4))
    one.inter = True  # no NIC to reach the other hosts by
    found = search_graphs(one, rules, Settings({}), nvls=False)
    assert shape(found.ring) == (1, 0.1, 0.1, "SYS")
    assert found.ring is not None
    assert sorted(found.ring.orders[0]) == [0, 1, 2, 3]


def float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def test_whole_megabytes_compare_like_the_floats_of_the_library() -> None:
    """ledger.py relies on this: no speed, with any factor, rounds to the other side."""
    speeds = {
        speed / 1000
        for rules in all_rules()
        for inter in (False, True)
        for min_sm in (0, 90, 100)
        for speed in rules.ladder(min_sm, inter=inter)
    }
    # Of 47.9, which 2.27.3 alone tries, six fifths of a half miss by the last bit of a float.
    for speed in speeds - {47.9}:
        for factor in (0.5, 1.0, 2.0):
            need = float32(float32(speed) * factor)
            dear = float32(float32(need * 6) / 5)
            for exact, real in ((speed * factor, need), (speed * factor * 1.2, dear)):
                whole = round(exact * 1000)
                assert whole == pytest.approx(exact * 1000, abs=1e-6)
                assert float32(whole / 1000) >= real
                assert float32((whole - 1) / 1000) < real


def test_channels_times_speed_are_rounded_like_floats() -> None:
    assert times(10, 240) == float32(10 * float32(0.24))
    assert single(0.1) != 0.1


def usage(graph: SearchGraph, one: System) -> Iterator[tuple[Link, float]]:
    """Every link that the channels of a graph inside one node use, with its share."""
    gpus = {node.rank: node for node in one.nodes["GPU"]}
    for order in graph.orders:
        hops = list(pairwise(order))
        if graph.pattern == 4 and len(order) > 1:
            hops.append((order[-1], order[0]))
        for src, dst in hops:
            path = gpus[src].paths["GPU"][gpus[dst].index]
            dear = path.type is PathType.PHB and any(
                link.to.vendor == "intel" for link in path.links
            )
            for link in path.links:
                yield link, graph.bw_intra * (1.2 if dear and link.kind == "PCI" else 1)


@st.composite
def machines(draw: st.DrawFn) -> str:
    """Up to two sockets, PCIe switches, any mesh of NVLinks, with NICs or without."""
    count = draw(st.integers(1, 6))
    sm = draw(st.sampled_from([70, 80, 90, 100]))
    speed = draw(st.sampled_from([GEN3, GEN4, GEN5]))
    kind = draw(st.sampled_from([SKYLAKE, SAPPHIRE, EMERALD, AMD]))
    links: dict[int, list[tuple[str, int, str]]] = {rank: [] for rank in range(count)}
    if draw(st.booleans()):
        for one in range(count):
            for other in range(one):
                if width := draw(st.sampled_from([0, 0, 1, 2, 4])):
                    links[one].append((f"0000:{0x10 + other:02x}:00.0", width, "0x030200"))
                    links[other].append((f"0000:{0x10 + one:02x}:00.0", width, "0x030200"))
    elif draw(st.booleans()):
        links = {rank: [(HIDDEN, draw(st.integers(4, 18)), SWITCH)] for rank in range(count)}
    places: list[list[list[str]]] = [[[], []], [[], []]]
    for rank in range(count):
        one_gpu = gpu(0x10 + rank, rank, links[rank], sm=sm, speed=speed)
        places[draw(st.integers(0, 1))][draw(st.integers(0, 1))].append(one_gpu)
    for dev in range(draw(st.integers(0, 2))):
        one_nic = nic(0x50 + dev, dev, speed=draw(st.sampled_from([25000, 100000, 400000])))
        places[draw(st.integers(0, 1))][draw(st.integers(0, 1))].append(one_nic)
    return system(
        *(
            cpu(numa, *bare, *([switch(0x90 + numa, *behind)] if behind else []), kind=kind)
            for numa, (bare, behind) in enumerate(places)
        )
    )


relaxed = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@relaxed
@given(machines())
def test_any_machine_gets_rings_that_visit_everyone_and_fit(xml: str) -> None:
    rules, _ = rules_for("nccl-2.28.9")
    one = made(xml)
    found = search_graphs(one, rules, Settings({}), nvls=False)
    ranks = sorted(node.rank for node in one.nodes["GPU"])
    for graph in (found.ring, found.tree):
        assert graph is not None
        assert graph.channels == len(graph.orders) >= 1
        assert all(sorted(order) == ranks for order in graph.orders)
        if graph.bw_intra < 0.11:
            continue  # the last resort promises nothing
        used: Counter[int] = Counter()
        width: dict[int, float] = {}
        for link, share in usage(graph, one):
            used[id(link)] += share  # type: ignore[assignment]
            width[id(link)] = link.bandwidth_gbs
        assert all(share <= width[link] + 0.001 * graph.channels for link, share in used.items())


def exhaustive(self: Tried, draft: Draft, best: Draft) -> int:
    """Leave nothing out."""
    self._steps -= budget(draft)
    return Attempt(self._field, draft, best).run()


@settings(parent=relaxed, max_examples=12)
@given(machines(), st.booleans())
def test_attempts_left_out_change_nothing(xml: str, more_nodes: bool) -> None:
    rules, _ = rules_for("nccl-2.28.9")
    one = made(xml, more_nodes=more_nodes)
    quick = remembering._search(one, rules, Settings({}), nvls=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tried, "search", exhaustive)
        slow = remembering._search(one, rules, Settings({}), nvls=True)
    assert quick == slow


@relaxed
@given(machines())
def test_a_search_leaves_the_system_as_it_was(xml: str) -> None:
    rules, _ = rules_for("nccl-2.28.9")
    one = made(xml, more_nodes=True)

    def state() -> list[tuple[float, ...]]:
        nodes: list[Node] = [node for kind in one.nodes.values() for node in kind]
        return [(*(link.bandwidth_gbs for link in node.links), node.speed_gbs) for node in nodes]

    before = state()
    remembering._search(one, rules, Settings({}), nvls=False)
    assert state() == before


@pytest.mark.parametrize(
    ("count", "more_nodes", "seconds"), [(8, False, 1.0), (8, True, 2.0), (72, False, 4.0)]
)
def test_a_search_is_quick(count: int, more_nodes: bool, seconds: float) -> None:
    rules, _ = rules_for("nccl-2.28.9")
    one = made(nvswitch(count, 90, 18, 400000 if count == 8 else 0), more_nodes=more_nodes)
    start = time.process_time()
    remembering._search(one, rules, Settings({}), nvls=False)
    assert time.process_time() - start < seconds
