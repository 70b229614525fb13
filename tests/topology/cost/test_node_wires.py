"""What joins the groups of a layout: the worst one of them counts."""

from __future__ import annotations

import msgspec
import pytest

from gputop.answers.cost import CostRequest, answer
from gputop.topology.cost.node_wires import NodeWires
from gputop.topology.cost.wires import GroupWire
from gputop.topology.expectation.calls.kinds import CollectiveKind
from gputop.topology.expectation.calls.times import TimesOfCalls
from gputop.topology.model.severity import FigureBasis
from gputop.topology.model.snapshot import EnvironmentVariable
from gputop.topology.node import Node
from tests.support.snapshots import demo_node

GIB = 1 << 30


def wire(demo: str, ranks: int, stride: int = 1, nodes: int = 1) -> GroupWire:
    found = NodeWires(demo_node(demo).decide(), nodes).of(ranks, stride)
    assert found is not None
    return found


def seconds(found: GroupWire, size: int = GIB) -> float:
    return found.seconds(CollectiveKind.ALL_REDUCE, size)


def test_pairs_of_a_cube_mesh_are_as_slow_as_the_worst_of_them() -> None:
    # By the table of DGX-1V GPU0-4 have two links and GPU2-6 one; of neighbours GPU0-1 have one.
    neighbours, across = wire("dgx-1v", 2), wire("dgx-1v", 2, 4)
    assert seconds(across) == seconds(neighbours)
    two_links = TimesOfCalls(demo_node("dgx-1v").decide()).of(
        ["0000:05:00.0", "0000:84:00.0"], CollectiveKind.ALL_REDUCE, GIB
    )
    assert two_links is not None
    assert two_links.us / 1e6 < 0.6 * seconds(across)


def test_missing_links_slow_the_groups_that_have_them() -> None:
    assert seconds(wire("sick-h100-8", 8)) > 1.2 * seconds(wire("hgx-h100-8", 8))
    found = answer(CostRequest(given=demo_node("sick-h100-8").snapshot, names=("GPT-2",)))
    assert any("Links are not healthy here" in note for note in found.notes)
    whole = answer(CostRequest(given=demo_node("hgx-h100-8").snapshot, names=("GPT-2",)))
    assert not any("not healthy" in note for note in whole.notes)


def test_links_that_nobody_measured_give_an_estimate_with_a_range() -> None:
    found = wire("mi355x-8", 8)
    assert found.basis is FigureBasis.ESTIMATE
    assert found.least < 1 < found.most
    rate = GIB * 2 * 7 / 8 / seconds(found)
    assert 0.6 < rate / (7 * 76.8e9) < 0.85


def test_between_nodes_a_group_has_its_share_of_the_nics() -> None:
    one_each = wire("hgx-h100-8", 4, 8, nodes=4)
    whole = wire("hgx-h100-8", 32, 1, nodes=4)
    assert one_each.name == whole.name == "the network"
    share = GIB * 2 * 3 / 4 / seconds(one_each)
    assert share == pytest.approx(0.92 * 50e9, rel=0.01)
    assert GIB * 2 * 31 / 32 / seconds(whole) > 6 * share


def test_an_all_to_all_leaves_a_node_by_the_nic_of_each_gpu() -> None:
    """16 GPUs on two hosts: 8 of 16 parts of a GPU leave by its own 46 GB/s."""
    found = wire("hgx-h100-8", 16, 1, nodes=2)
    by_hand = GIB / 16 * 8 / (0.92 * 50e9)
    assert found.seconds(CollectiveKind.ALL_TO_ALL, GIB) == pytest.approx(by_hand, rel=0.01)
    assert found.seconds(CollectiveKind.ALL_TO_ALL, GIB) > 4 * seconds(found) / 2


def test_a_gather_waits_at_each_hop_of_its_ring() -> None:
    """1023 hops between hosts of 14 us and 7168 inside of 3.4 us (NCCL's hwLat) are 38.7 ms."""
    found = wire("hgx-h100-8", 8192, 1, nodes=1024)
    size = 1 << 26
    waits = 1023 * 14e-6 + 7168 * 3.4e-6
    gather = found.seconds(CollectiveKind.ALL_GATHER, size)
    assert gather == pytest.approx(waits + size / (8 * 0.92 * 50e9), rel=0.05)
    assert gather > 20 * found.seconds(CollectiveKind.ALL_REDUCE, size)


def test_between_racks_each_gpu_brings_its_nic() -> None:
    """Two racks of 72: a group of all has as many NICs as GPUs of a rack; one of a GPU each one."""
    one = demo_node("gb200-nvl72-tray")
    rates = sum(port.rate_gbit or 0 for nic in one.machine.rdma for port in nic.ports) / 8
    pair = wire("gb200-nvl72-tray", 2, 72, nodes=36)
    assert GIB / seconds(pair) == pytest.approx(0.92 * rates / 4 * 1e9, rel=0.01)
    rack, both = wire("gb200-nvl72-tray", 72, 1, 36), wire("gb200-nvl72-tray", 144, 1, 36)
    assert both.name == "the network"
    assert seconds(both) == pytest.approx(seconds(rack), rel=0.05)


@pytest.mark.parametrize(("joined", "published"), [(4, 196.87), (8, 393.66)])
def test_between_partitions_of_racks_a_ring_reaches_what_was_published(
    joined: int, published: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three partitions of 4 and of 8 GB200 in different racks, ring, 16 GiB (NVIDIA/nccl 1801)."""
    monkeypatch.setattr(NodeWires, "domain", joined)
    found = wire("gb200-nvl72-tray", 3 * joined, 1, nodes=3 * joined // 4)
    assert found.name == "the network"
    moved = GIB * 2 * (3 * joined - 1) / (3 * joined)
    assert moved / seconds(found) == pytest.approx(published * 1e9, rel=0.1)


def test_a_rack_of_nvlink_is_faster_than_its_nics() -> None:
    rack = wire("gb200-nvl72-tray", 8, 1, nodes=18)
    assert rack.name == "NVLink of the rack"
    assert GIB * 2 * 7 / 8 / seconds(rack) > 5 * 100e9


def test_without_p2p_everything_goes_through_the_host() -> None:
    snapshot = demo_node("hgx-h100-8").snapshot
    off = EnvironmentVariable(name="NCCL_P2P_DISABLE", value="1", origin="--set")
    node = Node(msgspec.structs.replace(snapshot, environment=(off,))).decide()
    found = NodeWires(node).of(2, 1)
    assert found is not None
    assert found.name == "the host's memory"
    assert seconds(found) > 8 * seconds(wire("hgx-h100-8", 2))
