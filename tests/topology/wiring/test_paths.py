"""Best path, its wires and its narrowest one."""

from __future__ import annotations

import pytest

from gputop.topology.explain.why import why_pair
from gputop.topology.model.machine import Machine
from gputop.topology.wiring.graph import build_graph
from gputop.topology.wiring.paths import path_between
from gputop.topology.wiring.wires import WireKind
from tests.support.snapshots import demo_node, gpu, gpus_of, hosted, link, port

A, B, C = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"


def test_switches_join_with_all_their_links_together() -> None:
    report = demo_node("hgx-h100-8")
    a, b = gpus_of(report)[:2]
    path = path_between(report.graph, a, b)
    assert path is not None
    assert (path.kind, path.payload_gbs, path.complete) == ("nvswitch", 450.0, True)
    assert [wire.count for wire in path.wires] == [18, 18]
    assert len(path.edges) == 8
    assert all(report.graph.has_edge(*edge) for edge in path.edges)


def test_the_poorer_gpu_is_the_bottleneck() -> None:
    report = demo_node("sick-h100-8")
    a, sick = gpus_of(report)[0], gpus_of(report)[3]
    path = path_between(report.graph, a, sick)
    assert path is not None
    assert (path.payload_gbs, path.bottleneck) == (400.0, 1)
    back = path_between(report.graph, sick, a)
    assert back is not None
    assert (back.payload_gbs, back.bottleneck) == (400.0, 0)


def test_a_common_neighbour_is_no_path() -> None:
    report = demo_node("dgx-1v")
    gpus = gpus_of(report)
    path = path_between(report.graph, gpus[0], gpus[5])
    assert path is not None
    assert path.kind is WireKind.PCIE
    assert not set(path.nodes[1:-1]) & set(gpus)
    assert {"socket:0", "socket:1"} <= set(path.nodes)
    assert (path.payload_gbs, path.complete) == (15.754, False)


def test_direct_links_are_one_step() -> None:
    report = demo_node("dgx-1v")
    a, d = gpus_of(report)[0], gpus_of(report)[3]
    path = path_between(report.graph, a, d)
    assert path is not None
    assert (path.nodes, path.payload_gbs, path.kind) == ((a, d), 50.0, "nvlink")


def test_xgmi_is_one_step() -> None:
    report = demo_node("mi300x-8")
    a, b = gpus_of(report)[:2]
    path = path_between(report.graph, a, b)
    assert path is not None
    assert (path.kind, path.payload_gbs) == ("xgmi", 64.0)


def test_a_nic_behind_the_same_switch_is_reached_below_the_cpu() -> None:
    report = demo_node("pcie-l40s-8")
    first = gpus_of(report)[0]
    nic = next(device.address for device in report.snapshot.machine.rdma if device.address)
    path = path_between(report.graph, first, nic or "")
    assert path is not None
    assert not any(node.startswith(("pci", "numa:")) for node in path.nodes)
    assert path.payload_gbs == 31.508
    assert path.narrowest is not None
    assert path.narrowest.generation == "4"


def test_the_other_way_round_is_the_same_way() -> None:
    report = demo_node("pcie-l40s-8")
    gpus = gpus_of(report)
    there, back = (path_between(report.graph, *ends) for ends in (gpus[1:7:5], gpus[6:0:-5]))
    assert there is not None
    assert back is not None
    assert there.nodes == back.nodes[::-1]


@pytest.mark.parametrize("ends", [(A, A), (A, "nowhere"), ("nowhere", A), (A, C)])
def test_no_path(ends: tuple[str, str]) -> None:
    machine = Machine(
        host=hosted(1),
        gpus=(gpu(0, A), gpu(1, B)),
        pci=(port(A, "pci0000:00", "gpu", 0), port(B, "pci0000:00", "gpu", 0)),
    )
    assert path_between(build_graph(machine), *ends) is None


def test_unknown_rates_leave_the_bottleneck_unknown() -> None:
    unknown = tuple(
        item.__class__(link=item.link, active=True, remote_kind="gpu", remote_address=B)
        for item in (link(0, B),)
    )
    path = path_between(build_graph(Machine(gpus=(gpu(0, A, unknown), gpu(1, B)))), A, B)
    assert path is not None
    assert (path.payload_gbs, path.bottleneck, path.complete) == (None, None, False)


@pytest.mark.parametrize(("numa", "complete"), [(0, True), (None, False)])
def test_a_path_by_an_unknown_numa_node_may_cross_the_cpus(
    numa: int | None, complete: bool
) -> None:
    devices = (port(A, "pci0000:00", "gpu", numa), port(B, "pci0000:10", "gpu", numa))
    machine = Machine(host=hosted(2), gpus=(gpu(0, A), gpu(1, B)), pci=devices)
    path = path_between(build_graph(machine), A, B)
    assert path is not None
    assert (path.payload_gbs, path.complete) == (63.015, complete)


def test_the_most_that_pcie_could_reach_is_no_rate() -> None:
    ends = (gpu(n, address, pcie_gen_max=5, pcie_width_max=16) for n, address in enumerate((A, B)))
    path = path_between(build_graph(Machine(host=hosted(1), gpus=tuple(ends))), A, B)
    assert path is not None
    assert (path.payload_gbs, path.complete) == (63.015, False)


def test_xgmi_over_other_gpus_takes_no_pcie_and_promises_no_more_than_its_best_way() -> None:
    """The driver maps all memory of a hive over xGMI; which GPUs pass the bytes on is unknown."""
    report = demo_node("mi250x-8")
    gpus = gpus_of(report)
    path, back = (
        path_between(report.graph, *ends) for ends in ((gpus[0], gpus[3]), (gpus[3], gpus[0]))
    )
    assert path is not None
    assert back is not None
    assert (path.kind, path.relayed, path.complete, path.payload_gbs) == ("xgmi", True, False, 50.0)
    assert path.nodes in ((gpus[0], gpus[1], gpus[3]), (gpus[0], gpus[2], gpus[3]))
    assert back.nodes == path.nodes[::-1]
    why = why_pair(report, gpus[0], gpus[3])
    assert "xGMI leads over other GPUs" in why.claim
    assert "50.0 GB/s one way at most" in why.claim
    facts = {fact.what: fact for fact in why.facts}
    assert facts["Which route does data take?"].basis == "assumed"
    assert "Is that all that the GPU can send?" not in facts
    assert facts["What should a copy reach, one way?"].value == "no reference"
    assert not any("PCIe joins" in fact.value for fact in why.facts)


def test_the_widest_of_the_shortest_ways_is_the_most_that_a_pair_can_have() -> None:
    report = demo_node("mi250x-8")
    gpus = gpus_of(report)
    found = {
        (a, b): path_between(report.graph, gpus[a], gpus[b]) for a in range(8) for b in range(a)
    }
    far = {ends: path for ends, path in found.items() if path is not None and path.relayed}
    assert len(far) == 16
    assert {len(path.wires) for path in far.values()} <= {2, 3}
    for path in far.values():
        assert path.payload_gbs == min(wire.payload_gbs or 0 for wire in path.wires)
        assert all(node in gpus for node in path.nodes)


def test_a_pair_whose_link_is_down_is_not_carried_by_its_neighbours() -> None:
    report = demo_node("sick-mi300x-8")
    gpus = gpus_of(report)
    path = path_between(report.graph, gpus[2], gpus[5])
    assert path is not None
    assert path.kind is WireKind.PCIE
