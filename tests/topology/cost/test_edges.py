"""The edge that bounds a layout, on nodes whose narrow ways are known."""

from __future__ import annotations

import pytest

from gputop.answers.cost import CostRequest, answer
from gputop.answers.cost_records import CostLayout
from gputop.topology.wiring.paths import path_between
from tests.support.snapshots import demo_node


def layout(demo: str, ways: str, nodes: int = 1) -> CostLayout:
    snapshot = demo_node(demo).snapshot
    asked = CostRequest(given=snapshot, names=("Llama 3 8B",), layout=ways, nodes=nodes)
    (found,) = answer(asked).layouts
    return found


def test_tensor_parallelism_over_a_cube_mesh_is_bound_by_a_single_link() -> None:
    """Of neighbours of DGX-1V GPU0 and GPU1 have one link; GPU0 and GPU4, farther apart, two."""
    edge = layout("dgx-1v", "tp=2,pp=4").edge
    assert edge is not None
    assert edge.what == "tensor: all-reduce"
    assert edge.names == ("GPU0", "GPU1")


def test_a_ring_of_eight_goes_by_the_double_links_of_a_cube_mesh() -> None:
    """GPU0-3-2-1-5-6-7-4 has two links everywhere: no pair that has one, or none, bounds it."""
    edge = layout("dgx-1v", "tp=8").edge
    assert edge is not None
    graph = demo_node("dgx-1v").graph
    path = path_between(graph, *edge.ends)
    assert path is not None
    assert path.payload_gbs == 50.0
    assert len(path.nodes) == 2


def test_over_pcie_the_edge_leads_from_socket_to_socket() -> None:
    edge = layout("pcie-l40s-8", "tp=8").edge
    assert edge is not None
    numa = {gpu.address: gpu.numa_node for gpu in demo_node("pcie-l40s-8").machine.gpus}
    assert numa[edge.ends[0]] != numa[edge.ends[1]]


def test_between_nodes_the_edge_is_a_gpu_and_the_nic_beside_it() -> None:
    edge = layout("hgx-h100-8", "dp=16", nodes=2).edge
    assert edge is not None
    assert edge.what.startswith("data")
    assert edge.names == ("GPU0", "mlx5_0")


def test_a_pipeline_over_nodes_is_as_slow_as_the_hop_between_them() -> None:
    """Four stages of four GPUs on two nodes: the hop from the second stage to the third leaves."""
    found = layout("hgx-h100-8", "pp=4,dp=4", nodes=2)
    (hops,) = [one for one in found.communication if one.what.startswith("pipeline")]
    assert hops.wire == "the network"
    inside = layout("hgx-h100-8", "pp=2,dp=8", nodes=2)
    (hops,) = [one for one in inside.communication if one.what.startswith("pipeline")]
    assert hops.wire == "the network", "both stages have a node"
    alone = layout("hgx-h100-8", "pp=4,dp=2")
    (hops,) = [one for one in alone.communication if one.what.startswith("pipeline")]
    assert hops.wire == "NVLink"


@pytest.mark.parametrize(("demo", "nodes"), [("gb200-nvl72-tray", 18)])
def test_switches_of_a_rack_are_no_edge_of_a_node(demo: str, nodes: int) -> None:
    assert layout(demo, "tp=1,dp=72", nodes).edge is None


def test_what_sends_nothing_and_what_does_not_fit_has_no_edge() -> None:
    snapshot = demo_node("hgx-h100-8").snapshot
    (one,) = answer(CostRequest(given=snapshot, names=("Llama 3 405B",), layout="tp=8")).layouts
    assert one.fits is False
    assert one.edge is None
