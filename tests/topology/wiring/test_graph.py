"""The graph: what is a node, what is an edge, and what an edge carries."""

from __future__ import annotations

import json

import networkx as nx
import pytest

from gputop.topology.model.machine import GpuPair, Machine, NvLink, PciDevice, PciKind, XgmiLink
from gputop.topology.model.surroundings import Host, Interface, NumaNode, RdmaDevice, Socket
from gputop.topology.recorded.load import load
from gputop.topology.sources.collect import merge_machine
from gputop.topology.sources.nvidia import nvml
from gputop.topology.wiring.graph import build_graph
from gputop.topology.wiring.wires import Wire, WireKind, nvlink_wire, pcie_wire
from tests.support.places import RECORDINGS
from tests.support.rule_cases import cases
from tests.support.snapshots import demo_node, gpu, hosted, link, port

A, B = "0000:01:00.0", "0000:02:00.0"


def test_the_graph_is_frozen() -> None:
    graph = build_graph(Machine(gpus=(gpu(0, A),)))
    with pytest.raises(nx.NetworkXError):
        graph.add_node("more")


def test_the_attributes_of_nodes_and_edges_are_frozen() -> None:
    graph = demo_node("hgx-h100-8").graph
    a, b = next(iter(graph.edges))
    for attributes in (graph.nodes[a], graph.edges[a, b], graph[a][b], graph.adj[b][a]):
        with pytest.raises(TypeError):
            attributes["kind"] = "changed"


def test_the_h200_recording_gives_the_rates_that_its_makers_print() -> None:
    raw = json.loads((RECORDINGS / "hgx-h200-4gpu-vm" / "nvml.json").read_text())
    graph = build_graph(merge_machine([nvml.SOURCE.parse(raw)]))
    wire = graph.edges["0000:00:06.0", "nvswitch fabric"]["wire"]
    assert (wire.count, wire.count_max, wire.raw_gbs, wire.payload_gbs) == (18, 18, 478.116, 450.0)
    assert not wire.assumed
    assert graph.nodes["nvswitch fabric"]["kind"] == "nvswitch"


@pytest.mark.parametrize(
    ("version", "raw", "payload"),
    [
        ("2.0", 25.781, 25.0),
        ("3.0", 25.0, 25.0),
        ("3.1", 14.062, 14.06),
        ("4.0", 26.562, 25.0),
        ("5.0", 53.125, 50.0),
    ],
)
def test_payload_of_a_link_by_generation(version: str, raw: float, payload: float) -> None:
    wire = nvlink_wire([NvLink(link=0, active=True, version=version, raw_gbs=raw)], None)
    assert wire.payload_gbs == payload
    assert not wire.assumed


def test_a_rate_that_was_not_read_is_assumed_or_unknown() -> None:
    known = nvlink_wire([NvLink(link=0, active=True, version="4.0")], None)
    assert (known.raw_gbs, known.payload_gbs, known.assumed) == (None, 25.0, True)
    unknown = nvlink_wire([NvLink(link=0, active=True)], None)
    assert (unknown.payload_gbs, unknown.assumed) == (None, True)
    assert "not read" in unknown.source


@pytest.mark.parametrize(
    ("gts", "lanes", "raw", "payload"),
    [
        (32.0, 16, 64.0, 63.015),
        (16.0, 8, 16.0, 15.754),
        (8.0, 16, 16.0, 15.754),
        (5.0, 4, 2.5, 2.0),
    ],
)
def test_pcie_rates(gts: float, lanes: int, raw: float, payload: float) -> None:
    wire = pcie_wire(gts, lanes, 16, "test")
    assert (wire.raw_gbs, wire.payload_gbs) == (raw, payload)


def test_a_link_runs_as_fast_as_its_slower_end_and_counts_the_lanes_that_are_up() -> None:
    upper = port("0000:00:01.0", "pci0000:00", "root port", 0)
    device = PciDevice(
        address=A,
        parent="0000:00:01.0",
        kind=PciKind.GPU,
        link_speed_max_gts=16.0,
        link_width_max=16,
        link_width_now=8,
    )
    graph = build_graph(Machine(host=hosted(1), gpus=(gpu(0, A),), pci=(upper, device)))
    wire = graph.edges[A, "0000:00:01.0"]["wire"]
    assert (wire.gts, wire.count, wire.count_max, wire.generation) == (16.0, 8, 16, "4")
    assert wire.words() == "PCIe gen4 x8 of x16, 15.8 GB/s payload one way"
    assert graph.edges["0000:00:01.0", "pci0000:00"]["wire"].inside
    assert graph.has_edge("pci0000:00", "numa:0")


def test_width_unknown_to_sysfs_is_taken_from_the_driver_and_called_assumed() -> None:
    device = PciDevice(address=A, parent="pci0000:00", kind=PciKind.GPU, link_speed_max_gts=32.0)
    own = gpu(0, A, pcie_gen_max=5, pcie_width_max=16)
    wire = build_graph(Machine(gpus=(own,), pci=(device,))).edges[A, "pci0000:00"]["wire"]
    assert (wire.count, wire.count_max, wire.payload_gbs, wire.assumed) == (None, 16, 63.015, True)


def test_a_gpu_without_sysfs_still_appears() -> None:
    graph = build_graph(Machine(host=hosted(1), gpus=(gpu(0, A),)))
    assert graph.nodes[A]["kind"] == "gpu"
    assert graph.has_edge(A, "numa:0")


def test_unknown_numa_hangs_on_the_only_node_or_on_an_unknown_one() -> None:
    device = (port(A, "pci0000:00", "gpu"),)
    one = build_graph(Machine(host=hosted(1), gpus=(gpu(0, A),), pci=device))
    assert one.has_edge("pci0000:00", "numa:0")
    many = build_graph(Machine(host=hosted(2), gpus=(gpu(0, A),), pci=device))
    assert many.has_edge("pci0000:00", "numa:unknown")


def test_sockets_are_joined_at_a_rate_nobody_knows() -> None:
    host = Host(
        sockets=(Socket(socket=0), Socket(socket=1)),
        numa=(NumaNode(node=0, socket=0), NumaNode(node=1, socket=1)),
    )
    graph = build_graph(Machine(host=host))
    wire = graph.edges["socket:0", "socket:1"]["wire"]
    assert (wire.payload_gbs, wire.inside) == (None, False)
    assert graph.has_edge("numa:1", "socket:1")


def test_bridges_with_nothing_below_and_unused_virtual_functions_are_left_out() -> None:
    empty = port("0000:00:02.0", "pci0000:00", "root port")
    virtual = PciDevice(
        address="0000:05:00.1",
        parent="pci0000:00",
        kind=PciKind.NIC,
        physical_function="0000:05:00.0",
    )
    used = PciDevice(
        address="0000:05:00.2",
        parent="pci0000:00",
        kind=PciKind.NIC,
        physical_function="0000:05:00.0",
    )
    rdma = (RdmaDevice(name="mlx5_1", address="0000:05:00.2"),)
    display = PciDevice(address="0000:07:00.0", parent="pci0000:00", kind=PciKind.GPU)
    graph = build_graph(Machine(pci=(empty, virtual, used, display), rdma=rdma))
    assert set(graph) == {"0000:05:00.2", "pci0000:00", "numa:unknown"}
    assert graph.nodes["0000:05:00.2"]["label"] == "mlx5_1"


def test_an_interface_without_pci_device_is_a_node_and_loopback_is_not() -> None:
    interfaces = (Interface(name="eth0", kind="ethernet"), Interface(name="lo", kind="loopback"))
    graph = build_graph(Machine(host=hosted(1), interfaces=interfaces))
    assert graph.edges["net:eth0", "numa:0"]["wire"].kind is WireKind.NET
    assert "net:lo" not in graph


def test_links_between_gpus_are_one_edge_with_the_smaller_count() -> None:
    left = gpu(0, A, (link(0, B), link(1, B), link(2, B, active=False)))
    right = gpu(1, B, (link(0, A),))
    wire = build_graph(Machine(gpus=(left, right))).edges[A, B]["wire"]
    assert (wire.kind, wire.count, wire.payload_gbs) == ("nvlink", 1, 25.0)


def test_xgmi_joins_neighbours_and_not_far_gpus() -> None:
    near = XgmiLink(remote_address=B, active=True, links=1, raw_gbs=64.0, hops=1)
    far = XgmiLink(remote_address="0000:03:00.0", active=True, links=1, hops=2)
    machine = Machine(gpus=(gpu(0, A, xgmi=(near, far)), gpu(1, B), gpu(2, "0000:03:00.0")))
    graph = build_graph(machine)
    assert graph.edges[A, B]["wire"].payload_gbs == 64.0
    assert not graph.has_edge(A, "0000:03:00.0")


def test_c2c_goes_to_the_cpu_and_its_rate_is_assumed() -> None:
    host = Host(numa=(NumaNode(node=0),))
    pci = (port(A, "pci0000:00", "gpu", 0),)
    machine = Machine(host=host, gpus=(gpu(0, A, c2c_enabled=True, numa_node=0),), pci=pci)
    wire = build_graph(machine).edges[A, "numa:0"]["wire"]
    assert (wire.kind, wire.payload_gbs, wire.assumed) == ("c2c", 450.0, True)


def counted(*counts: tuple[str, str, int]) -> tuple[GpuPair, ...]:
    return tuple(GpuPair(src=a, dst=b, nvlinks_reported=count) for a, b, count in counts)


def test_counts_of_another_tool_become_edges_or_a_plane_of_switches() -> None:
    c = "0000:03:00.0"
    gpus = (gpu(0, A), gpu(1, B), gpu(2, c))
    direct = build_graph(Machine(gpus=gpus, pairs=counted((A, B, 4))))
    assert direct.edges[A, B]["wire"].count == 4
    plane = build_graph(Machine(gpus=gpus, pairs=counted((A, B, 18), (A, c, 18), (B, c, 18))))
    wire = plane.edges[A, "nvswitch fabric"]["wire"]
    assert (wire.count, wire.payload_gbs, wire.assumed) == (18, None, True)


def test_the_sick_gpu_shows_what_is_missing() -> None:
    report = demo_node("sick-h100-8")
    sick = report.snapshot.machine.gpus[3]
    wires: list[Wire] = [edge["wire"] for edge in report.graph[sick.address].values()]
    assert sum(wire.count or 0 for wire in wires if wire.kind is WireKind.NVLINK) == 16
    assert [(w.count, w.count_max) for w in wires if w.kind == "pcie"] == [(8, 16)]


def test_an_empty_machine_gives_an_empty_graph() -> None:
    assert len(build_graph(Machine())) == 0


@pytest.mark.parametrize("name", ["nvlink-inactive", "link-to-itself"])
def test_a_link_that_leads_to_no_other_gpu_here_makes_no_switch(name: str) -> None:
    (case,) = (case for case in cases() if case.name == name)
    drawn = build_graph(case.snapshot.machine)
    gpus = {gpu.address for gpu in case.snapshot.machine.gpus}
    assert [node for node in drawn if drawn.nodes[node]["kind"] == "nvswitch"] == []
    assert all(drawn.number_of_edges(gpu, gpu) == 0 for gpu in gpus)


@pytest.mark.parametrize(
    ("name", "nics"),
    [("nvidia-public/b300-8-topo.txt", 9), ("nvidia-public/h100-8-topo-mp.txt", 12)],
)
def test_a_nic_that_a_text_relates_to_gpus_is_there_beside_the_nearest(
    name: str, nics: int
) -> None:
    machine = load([str(RECORDINGS / name)]).snapshot.machine
    graph = build_graph(machine)
    drawn = {node for node, held in graph.nodes(data=True) if held["kind"] == "nic"}
    assert len(drawn) == nics
    assert drawn == {adapter.name for adapter in machine.rdma}
    near = {cell.b: cell.a for cell in machine.relations if cell.code == "PIX"} | {
        cell.a: cell.b for cell in machine.relations if cell.code == "PIX"
    }
    for nic in drawn & near.keys():
        (numa,) = graph[nic]
        assert numa in graph[near[nic]], nic
