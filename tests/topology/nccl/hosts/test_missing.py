"""Hosts that lack a NIC."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.hosts.missing import UnknownNicError, without_nics
from gputop.topology.recorded.feeds import DemoFeed

from .made import EIGHT, FOUR, over

H100 = DemoFeed("hgx-h100-8").at(0)


def test_one_host_without_a_nic_costs_all_of_them_a_ring() -> None:
    found = over(4, EIGHT, missing=((2, "mlx5_3"),))
    change = found.change
    assert change is not None
    assert change.ring_channels == (8, 7)
    assert change.ring_gbs == (384.0, 336.0)
    assert change.all_reduce_gbs is not None
    before, after = change.all_reduce_gbs
    assert after < before
    assert not found.aligned
    assert [rail.missing_on for rail in found.rails] == [
        (2,) if rail.nic == "mlx5_3" else () for rail in found.rails
    ]
    ends = [
        (stop.node, port.nic)
        for ring in found.rings
        for stop in ring.stops
        for port in (stop.sends, stop.receives)
    ]
    assert (2, "mlx5_3") not in ends
    assert (1, "mlx5_3") in ends


def test_only_the_host_that_lacks_it_takes_other_ways() -> None:
    whole, found = over(4, EIGHT), over(4, EIGHT, missing=((3, "mlx5_7"),))
    for node in range(3):
        before = {stop.ranks for ring in whole.rings for stop in ring.stops if stop.node == node}
        after = {stop.ranks for ring in found.rings for stop in ring.stops if stop.node == node}
        assert after <= before


def test_a_nic_that_all_lack_keeps_them_equal() -> None:
    found = over(4, missing=tuple((host, "mlx5_0") for host in range(4)))
    assert found.aligned
    assert found.change is not None
    assert found.change.ring_channels[0] > found.change.ring_channels[1]


def test_a_host_without_any_nic_does_not_start() -> None:
    found = over(3, missing=tuple((1, f"mlx5_{n}") for n in range(4)))
    assert found.failure is not None
    assert found.failure.startswith("host 1 has no NIC left for IB")
    assert found.change is None


@pytest.mark.parametrize(
    ("missing", "said"), [((3, "mlx5_0"), "no host 3"), ((0, "eth7"), "there are: mlx5_0, mlx5_1")]
)
def test_unknown_names(missing: tuple[int, str], said: str) -> None:
    with pytest.raises(UnknownNicError, match=said):
        over(3, FOUR, missing=(missing,))


def test_the_adapter_of_a_live_node_goes_with_its_interfaces() -> None:
    machine = without_nics(H100, frozenset({"mlx5_3"}), fuses=True).machine
    assert [one.name for one in H100.machine.rdma if one not in machine.rdma] == ["mlx5_3"]
    found = over(2, H100, missing=((0, "mlx5_3"),))
    assert found.change is not None
    assert found.change.ring_channels == (8, 7)


def test_the_numbers_of_the_others_close_up_in_a_topology_file() -> None:
    topology = without_nics(FOUR, frozenset({"mlx5_1"}), fuses=True).machine.nccl_topology
    assert topology is not None
    nets = {net.get("name"): net.get("dev") for net in topology.walk("net")}
    assert nets == {"mlx5_0": "0", "mlx5_2": "1", "mlx5_3": "2"}
    assert all(nic.children for nic in topology.walk("nic"))
