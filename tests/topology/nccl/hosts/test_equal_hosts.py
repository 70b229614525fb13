"""Predictions over several equal hosts: what must hold for any number of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.hosts.equal_hosts import (
    LIMIT,
    NONE,
    TreePosition,
    double_tree,
    nvls_trees,
    rings,
    trees,
)
from gputop.topology.nccl.hosts.rails import ring_hops, tree_hops
from gputop.topology.nccl.hosts.records import HostTree, MultiNode, NvlsTrees
from gputop.topology.nccl.hosts.spread import Spread
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.versions import version_for
from tests.topology.nccl.made import ARM, SWITCH, cpu, gpu, nic, snapshot, system
from tests.topology.nccl.nodes_made import NVSWITCH

from .made import EIGHT, FOUR, HIDDEN, over
from .recorded import nodes_of, recording

COUNTS = (2, 3, 4, 7, 8, 64)
SPLIT = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
NO_CROSSING = {"NCCL_CROSS_NIC": "0"}

CASES = range(49)


def check(found: MultiNode) -> None:
    """Rings, trees and heads of any prediction."""
    every = list(range(found.ranks))
    assert sorted(c for ring in found.rings for c in ring.channels) == list(
        range(found.coll_channels or 0)
    )
    for ring in found.rings:
        assert sorted(rank for stop in ring.stops for rank in stop.ranks) == every
        assert [stop.node for stop in ring.stops] == list(range(found.nodes))
    assert sorted(c for tree in found.trees for c in tree.channels) == list(
        range(found.coll_channels or 0)
    )
    for tree in found.trees:
        assert sum(place.parent is None for place in tree.places) == 1
        assert sum(len(place.children) for place in tree.places) == found.nodes - 1
        for place in tree.places:
            assert len(place.children) == len(place.down) <= 2
            assert (place.parent is None) is (place.up is None)
            for child in place.children:
                assert tree.places[child].parent == place.node
        assert len(list(tree_hops(tree))) == found.nodes - 1
    if found.nvls_trees is not None:
        assert len({len(heads) for heads in found.nvls_trees.heads}) == 1


@pytest.mark.parametrize("hosts", COUNTS)
@pytest.mark.parametrize("node", [FOUR, EIGHT], ids=["four", "eight"])
def test_every_rank_is_on_every_ring_once_and_every_node_in_every_tree(
    node: object, hosts: int
) -> None:
    found = over(hosts, node)  # type: ignore[arg-type]
    assert (found.hosts, found.nodes) == (hosts, hosts)
    check(found)


def test_two_hosts_are_what_is_predicted_for_two_nodes() -> None:
    two = predict(EIGHT, Settings(), library="nccl-2.28.9", nodes=2)
    found = over(2, EIGHT)
    for name in ("graphs", "choices", "tuning", "coll_channels", "library"):
        assert getattr(found, name) == getattr(two, name), name
    assert set(two.assumptions) < set(found.assumptions)


def test_equal_hosts_have_equal_ends() -> None:
    found = over(6, EIGHT)
    for ring in found.rings:
        for stop in ring.stops[2:]:
            equal = ring.stops[stop.node % 2]
            moved = 8 * (stop.node - equal.node)
            assert stop.ranks == tuple(rank + moved for rank in equal.ranks)
            assert (stop.sends.nic, stop.receives.nic) == (equal.sends.nic, equal.receives.nic)


def test_rings_stay_on_their_rails() -> None:
    for hosts in COUNTS:
        found = over(hosts, EIGHT, NO_CROSSING)
        assert found.aligned
        hops = [hop for ring in found.rings for hop in ring_hops(ring)]
        assert all(one.nic == other.nic for one, other in hops)
        assert all(rail.ring_to == (rail.nic,) for rail in found.rails)


def test_channels_in_pairs_swap_nics_so_that_an_odd_number_of_hosts_crosses_rails_once() -> None:
    """NCCL exchanges the channels of every second node; the last one meets the first again."""
    assert over(4, EIGHT).aligned
    found = over(5, EIGHT)
    assert not found.aligned
    for ring in found.rings:
        crossing = [
            place for place, (one, other) in enumerate(ring_hops(ring)) if one.nic != other.nic
        ]
        assert crossing == [4]


def test_older_versions_exchange_no_channels() -> None:
    found = over(4, EIGHT, library="nccl-2.19.3")
    (ring, *_) = found.rings
    assert len({stop.sends.nic for stop in ring.stops}) == 1


def test_a_gpu_beside_the_nic_relays_the_end_of_a_ring() -> None:
    (first, *_) = over(3).rings
    assert [(stop.sends.path, stop.sends.relay) for stop in first.stops] == [
        ("PXN", stop.ranks[0]) for stop in first.stops
    ]
    assert all(stop.receives.relay is None for stop in first.stops)
    without = over(3, env={"NCCL_PXN_DISABLE": "1"})
    ends = [stop.sends for ring in without.rings for stop in ring.stops]
    assert {end.relay for end in ends} == {None}
    assert all(route.relay is None for route in without.send_routes)


def test_send_and_receive_leave_by_the_rail_of_the_receiver() -> None:
    found = over(3)
    for route in found.send_routes:
        assert route.nic == f"mlx5_{route.dst}"
        assert route.relay == (None if route.src == route.dst else route.dst)
    assert len(found.send_routes) == 16


def test_send_and_receive_ask_for_gpudirect_on_the_relay_since_2_30() -> None:
    """graph/search.cc:ncclTopoGetNetDev asks ncclTopoCheckGdr of the GPU beside the rail."""
    c2c = '<c2c bw="25000" count="10"/></gpu>'
    gpus = [gpu(2 + n, n, [(HIDDEN, 18, SWITCH)]).replace("</gpu>", c2c) for n in range(2)]
    node = snapshot(system(cpu(0, *gpus, nic(6, 0, name="eth{}", gdr=0), kind=ARM)))
    libraries = ("nccl-2.29.7", "nccl-2.30.3", "nccl-2.30.7")
    relays = [
        [(route.src, route.dst, route.relay) for route in over(2, node, library=name).send_routes]
        for name in libraries
    ]
    assert relays[0] == [(0, 0, None), (0, 1, None), (1, 0, 0), (1, 1, 0)]
    for after in relays[1:]:
        assert after == [(src, dst, None) for src, dst, _ in relays[0]]


def test_more_hosts_take_longer_and_reach_no_more() -> None:
    made = [over(hosts, EIGHT) for hosts in (4, 8, 16, 32, 64, 128)]
    for few, many in pairwise(made):
        for one, other in zip(few.choices, many.choices, strict=True):
            assert one.time_us <= other.time_us
        for collective, algorithms in few.tuning.items():
            for algorithm, protocols in algorithms.items():
                for protocol, (latency_us, rate) in protocols.items():
                    more = many.tuning[collective][algorithm][protocol]
                    assert more[0] >= latency_us
                    assert more[1] <= rate * 1.0001 or collective != "AllReduce"


def test_the_nics_bound_many_hosts_and_nvlink_two() -> None:
    many, two = over(64, EIGHT).bound, over(2, EIGHT).bound
    assert (many.what, many.nics_gbs, many.ceiling_gbs) == ("NICs", 384.0, 364.0)
    assert (two.what, two.ceiling_gbs) == ("NVLink", 461.6)
    assert over(64, EIGHT).ring_gbs == 384.0


def test_a_split_host_counts_as_several_nodes() -> None:
    found = over(3, FOUR, SPLIT)
    assert (found.hosts, found.nodes, found.ranks) == (3, 12, 12)
    check(found)
    assert "a node" in found.bound.because


def test_one_gpu_a_host() -> None:
    found = over(5, snapshot(system(cpu(0, gpu(2, 0), nic(3, 0)))))
    check(found)
    assert found.bound.inside_gbs is None
    assert found.bound.what == "NICs"
    assert found.aligned


def test_without_a_nic_in_the_source_one_is_assumed() -> None:
    found = over(3, snapshot(NVSWITCH))
    check(found)
    assert (found.network, found.gdr, found.rails) == ("Socket", "unknown", ())
    assert found.rings[0].stops[0].sends.nic == "eth0"
    assert found.bound.nics_gbs == 1.25
    assert any("eth0" in text for text in found.assumptions)


def test_rccl_has_rings_and_no_choices() -> None:
    found = over(3, library="rccl-2.26.6")
    assert found.choices == ()
    assert found.coll_channels is None
    assert found.nvls_trees is None
    assert all(len(ring.stops) == 3 for ring in found.rings)
    assert any("RCCL's source" in text for text in found.assumptions)


def test_ranks_of_a_file_that_do_not_start_at_zero() -> None:
    found = over(2, snapshot(system(cpu(0, gpu(2, 8), gpu(3, 11), nic(4, 0)))))
    assert found.ranks == 4
    check(found)


@pytest.mark.parametrize("hosts", [0, 1, LIMIT + 1])
def test_the_limits(hosts: int) -> None:
    with pytest.raises(ValueError, match="can be predicted"):
        over(hosts)


# Rings and trees between hosts, against what NCCL's own code connects (graph/connect.cc).
def spread_of(case: dict[str, Any]) -> Spread:
    kinds = {kind: case["kinds"][kind] for kind in case["nodes"]}.values()
    searched = min(min(len(kind["ring"]), len(kind["tree"])) for kind in kinds)
    total = case["expected"]["coll"]
    return Spread(searched, total, total)


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = recording("connections")
    assert len(found) == len(CASES)
    return found


def test_rings(cases: list[dict[str, Any]]) -> None:
    for number, case in enumerate(cases):
        version, _ = version_for(case["version"])
        made = rings(nodes_of(case), version, spread_of(case))
        found = {}
        for ring in made:
            order = [rank for stop in ring.stops for rank in stop.ranks]
            start = order.index(0)
            for channel in ring.channels:
                found[channel] = order[start:] + order[:start]
            for stop in ring.stops:
                ends = stop.receives.rank, stop.sends.rank
                assert ends == (stop.ranks[0], stop.ranks[-1])
        assert [found[channel] for channel in sorted(found)] == case["expected"]["ring"], number


def test_trees(cases: list[dict[str, Any]]) -> None:
    for number, case in enumerate(cases):
        nodes, spread = nodes_of(case), spread_of(case)
        made = trees(nodes, spread)
        wanted = case["expected"]["tree"]
        seen: list[int] = []
        for tree in made:
            for channel in tree.channels:
                seen.append(channel)
                assert rows(case, tree, channel) == wanted[channel], (number, channel)
        assert sorted(seen) == list(range(len(wanted)))


def rows(case: dict[str, Any], tree: HostTree, channel: int) -> list[list[int]]:
    """Parent and children of every rank, those inside its host included, as NCCL keeps them."""
    found: list[list[int]] = []
    for node in nodes_of(case):
        graph = node.kind.view.graphs.tree
        assert graph is not None
        place = tree.places[len(found) // len(node.kind.view.ranks)]
        order = [node.rank(rank) for rank in graph.orders[channel % spread_of(case).searched]]
        here: dict[int, list[int]] = {}
        for at, rank in enumerate(order):
            up = order[at - 1] if at else -1
            if place.parent is not None and place.up is not None and place.up.rank == rank:
                above = tree.places[place.parent]
                up = above.down[above.children.index(place.node)].rank
            down = order[at + 1 : at + 2]
            for child, port in zip(place.children, place.down, strict=True):
                end = tree.places[child].up
                if port.rank == rank and end is not None:
                    down = [*down, end.rank]
            here[rank] = [up, *down, *[-1] * (3 - len(down))]
        found += [here[rank] for rank in sorted(here)]
    return found


def test_nvls_trees(cases: list[dict[str, Any]]) -> None:
    seen = 0
    for number, case in enumerate(cases):
        made = nvls_trees(nodes_of(case), 16)
        wanted = case["expected"]["nvls"]
        assert (made is None) is (not wanted), number
        if made is not None:
            seen += 1
            assert [heads(made, which, case) for which in (0, 1)] == wanted, number
    assert seen > 10


def heads(made: NvlsTrees, which: int, case: dict[str, Any]) -> list[list[int]]:
    """Number of the head and its parent for every rank, -1 for none."""
    each = len(case["kinds"][0]["ring"][0])
    found = [[-1, -1] for _ in range(each * len(case["nodes"]))]
    for node, own in enumerate(made.heads):
        parent = made.trees[which].parents[node]
        for number, head in enumerate(own):
            above = -1 if parent is None else made.heads[parent][number].rank
            found[head.rank] = [number, above]
    return found


def test_the_first_gpu_of_a_ring_has_the_first_nic_of_its_channel() -> None:
    (node, *_) = nodes_of({"kinds": [KIND], "nodes": [0, 0]})
    ring = node.kind.view.graphs.ring
    assert ring is not None
    assert node.kind.net_of(ring, 1, 2) == 2
    assert node.kind.net_of(ring, 1, 0) == 3
    assert node.kind.net_of(ring, 7, 0) is None


KIND = {
    "ring": [[0, 1, 2], [2, 1, 0]],
    "cross_nic": 0,
    "bw_intra": 24.0,
    "pattern": 1,
    "tree": [[0, 1, 2], [1, 2, 0]],
    "heads": [],
}


def test_channels_are_doubled_then_copied() -> None:
    assert Spread(2, 8, 8).of_rings() == {(0, 0): (0, 2, 4, 6), (1, 1): (1, 3, 5, 7)}
    assert Spread(2, 8, 8).of_trees(0) == {(0, 0): (0, 4), (1, 1): (1, 5)}
    assert Spread(2, 8, 8).of_trees(1) == {(0, 0): (2, 6), (1, 1): (3, 7)}
    # NCCL_MAX_NCHANNELS=3 and NCCL_MIN_NCHANNELS=5: the first three are copied.
    found = Spread(2, 5, 3).of_rings()
    assert found == {(0, 0): (0, 2), (1, 1): (1,), (0, 1): (3,), (1, 0): (4,)}
    assert Spread(2, 5, 3).of_trees(1) == {(0, 0): (2,)}


def test_a_copied_channel_takes_the_nics_of_its_own_number() -> None:
    """graph/search.cc:ncclTopoGetNetDev takes the channel modulo the searched channels."""
    env = {"NCCL_MAX_NCHANNELS": "1", "NCCL_MIN_NCHANNELS": "6"}
    made = over(2, FOUR, env)
    assert made.graphs.ring is not None
    first = made.graphs.ring.orders[0]
    for ring in made.rings:
        assert {stop.ranks[0] for stop in ring.stops} == {first[0], 4 + first[0]}
    nics = {at: ring.stops[0].sends.nic for ring in made.rings for at in ring.channels}
    assert [nics[at] for at in range(6)] == [f"mlx5_{at % 4}" for at in range(6)]
    (tips,) = {tree.places[0].down[0].rank for tree in made.trees}
    assert tips == first[0]
    assert [tree.places[0].down[0].nic for tree in made.trees] == [*nics.values()]
    assert [rail.ring_channels for rail in made.rails] == [(0, 4), (1, 5), (2,), (3,)]


# The double binary tree, against NCCL's own for 2 to 64 nodes.
def test_both_trees_are_nccls_own() -> None:
    every = recording("double-trees")
    assert sorted(map(int, every)) == list(range(2, 65))
    for count, rows in every.items():
        trees = double_tree(int(count))
        for node, row in enumerate(rows):
            for place, (parent, below, above, second) in zip(
                (tree[node] for tree in trees), (row[:4], row[4:]), strict=True
            ):
                assert (place.parent, place.children) == (parent, (below, above)), (count, node)
                # NCCL leaves the last one unset for a root.
                assert parent == NONE or place.second is bool(second), (count, node)


def inner(tree: tuple[TreePosition, ...]) -> set[int]:
    """Nodes with two children; a root has one and no parent, so that its load is a leaf's."""
    return {node for node, place in enumerate(tree) if NONE not in place.children}


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 1000, 1023])
def test_each_node_hangs_on_one_parent_and_has_children_in_one_tree(count: int) -> None:
    trees = double_tree(count)
    for tree in trees:
        roots = [node for node, place in enumerate(tree) if place.parent == NONE]
        assert len(roots) == 1
        reached, edge = set(roots), roots
        while edge:
            edge = [child for node in edge for child in tree[node].children if child != NONE]
            assert reached.isdisjoint(edge)
            reached.update(edge)
        assert reached == set(range(count))
        for node, place in enumerate(tree):
            for child in place.children:
                assert child == NONE or tree[child].parent == node
    assert inner(trees[0]).isdisjoint(inner(trees[1]))
