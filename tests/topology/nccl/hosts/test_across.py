"""Predictions over several equal hosts: what must hold for any number of them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.hosts.across import LIMIT
from gputop.topology.nccl.hosts.rails import ring_hops, tree_hops
from gputop.topology.nccl.hosts.records import MultiNode
from gputop.topology.nccl.settings import Settings
from tests.topology.nccl.made import cpu, gpu, nic, snapshot, system
from tests.topology.nccl.nodes_made import NVSWITCH

from .made import EIGHT, FOUR, over

COUNTS = (2, 3, 4, 7, 8, 64)
SPLIT = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
NO_CROSSING = {"NCCL_CROSS_NIC": "0"}


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
            alike = ring.stops[stop.node % 2]
            moved = 8 * (stop.node - alike.node)
            assert stop.ranks == tuple(rank + moved for rank in alike.ranks)
            assert (stop.sends.nic, stop.receives.nic) == (alike.sends.nic, alike.receives.nic)


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
