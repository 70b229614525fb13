"""Exports: readable by the programs they are for, whatever a device calls itself."""

from __future__ import annotations

import io
import json
from pathlib import Path

import networkx as nx
import pytest

from gputop.topology.exports import dot, graphml
from gputop.topology.exports import tree as tree_file
from gputop.topology.exports.json import document as as_json
from gputop.topology.model.machine import Machine
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Host, NumaNode, RdmaDevice
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from tests.support import kfd_trees
from tests.support.mixed_made import mixed_report
from tests.support.rule_cases import cases
from tests.support.snapshots import demo_node, gpu, node_of, port, recorded_node

DEMOS = ["hgx-h100-8", "hgx-a100-8", "mi300x-8", "pcie-l40s-8", "dgx-1v", "sick-h100-8"]
HOSTILE = 'x"];\x1b[31m\nevil [label="<b>&'
A = "0000:01:00.0"


def graphml_text(report: Node) -> str:
    return graphml.write(report).text


def dot_text(report: Node) -> str:
    return dot.write(report).text.removesuffix("\n")


def tree_text(report: Node) -> str:
    return tree_file.write(report).text.removesuffix("\n")


def hostile() -> Machine:
    return Machine(
        gpus=(gpu(0, A, name=HOSTILE),),
        pci=(port(A, "pci0000:00", "gpu", 0), port("0000:02:00.0", "pci0000:00", "nic", 0)),
        rdma=(RdmaDevice(name=HOSTILE, address="0000:02:00.0"),),
    )


@pytest.mark.parametrize("name", DEMOS)
def test_graphml_comes_back_as_the_same_graph(name: str) -> None:
    report = demo_node(name)
    back = nx.read_graphml(io.BytesIO(graphml_text(report).encode()))
    assert set(back) == set(report.graph)
    assert {frozenset(e) for e in back.edges} == {frozenset(e) for e in report.graph.edges}
    a, b = next(iter(report.graph.edges))
    assert back.edges[a, b]["kind"] == report.graph.edges[a, b]["wire"].kind


@pytest.mark.parametrize("name", DEMOS)
def test_json_is_one_document_with_what_the_contract_promises(name: str) -> None:
    report = demo_node(name)
    document = json.loads(json.dumps(as_json(report)))
    assert document["schema"] == "gputop.topo/1"
    assert document["source"] == [f"demo {name}"]
    assert isinstance(document["assumptions"], list)
    assert len(document["nodes"]) == len(report.graph)
    assert len(document["edges"]) == report.graph.number_of_edges()
    cells = document["matrix"]["cells"]
    assert len(cells) == len(document["matrix"]["devices"]) == len(cells[0])
    assert cells[0][0] == "X"


def test_json_says_whose_letters_the_cells_are() -> None:
    amd, nvidia = as_json(demo_node("mi300x-8")), as_json(demo_node("hgx-h100-8"))
    both = as_json(mixed_report().node)
    assert "nvidia-smi" not in amd["matrix"]["alphabet"]
    assert nvidia["matrix"]["alphabet"] == "nvidia-smi topo -m"
    assert both["matrix"]["alphabet"] == "nvidia-smi topo -m, XGMI of rocm-smi"


@pytest.mark.parametrize("name", DEMOS)
def test_the_tree_holds_every_node_once(name: str) -> None:
    report = demo_node(name)
    text = tree_text(report)
    for row in report.matrix.rows:
        assert text.count(row.address) == 1
    drawn = text.split("\n\n")[0].splitlines()[1:]
    assert len(drawn) == len(report.graph)


@pytest.mark.parametrize("name", ["two-socket-switches", "epyc-root-ports"])
def test_the_tree_of_a_recording_holds_every_node_once(name: str) -> None:
    report = recorded_node(name)
    assert len(tree_text(report).split("\n\n")[0].splitlines()[1:]) == len(report.graph)


def test_the_tree_ends_with_the_links() -> None:
    assert "GPU3: 16 of 18 NVLinks, 400 GB/s to NVSwitches" in tree_text(demo_node("sick-h100-8"))
    assert "GPU1 1 xGMI link, 64.0 GB/s" in tree_text(demo_node("mi300x-8"))
    assert "NVLink" not in tree_text(demo_node("pcie-l40s-8"))


def test_parts_of_a_package_stand_below_it_and_share_its_links() -> None:
    """63 parts of 8 packages; each package has one link to each other one, whatever KFD lists."""
    report = Node(load(["tests/recordings/kfd/mi300x-8-cpx.tar.gz"]).snapshot)
    tree, links = tree_text(report).split("\n\n")
    lines = tree.splitlines()
    start = lines.index("   ├─ package 0000:05:00.0 · CPX, 8 parts · PCIe")
    assert lines[start + 1] == "   │  ├─ GPU0 0000:05:00.0"
    assert lines[start + 8] == "   │  └─ GPU7 0000:05:00.7"
    assert "   └─ package 0000:e5:00.0 · CPX, 7 parts · PCIe" in lines
    assert len(lines) == 1 + len(report.graph) + 8
    title, *rows = links.splitlines()
    assert title == "Links between GPUs; all parts of a package share its links:"
    assert [line.split(" (")[0] for line in rows] == [
        f"  package 0000:{bus}:00.0" for bus in ("05", "27", "47", "65", "85", "a7", "c7", "e5")
    ]
    assert rows[0].startswith("  package 0000:05:00.0 (GPU0 to GPU7): package 0000:27:00.0 ")
    assert all(line.count("; ") == 6 for line in rows)
    # KFD states no rate between parts of two packages: that of the data sheet stands in.
    assert rows[0].endswith(" package 0000:e5:00.0 1 xGMI link, 64.0 GB/s assumed")
    assert "assumed" not in tree_text(demo_node("mi300x-8"))


def test_two_parts_are_named_both(tmp_path: Path) -> None:
    tree = kfd_trees.Tree(tmp_path)
    for number, place in enumerate(("0c:00.0", "0c:00.1", "22:00.0"), start=2):
        tree.gpu(number, f"0000:{place}", 0x74A1, 90402, cpu=0, num_xcc=4)
    tree.xgmi(2, 4, 1)
    tree.device("0000:0c:00.0", current_compute_partition="DPX", current_memory_partition="NPS2")
    text = tree_text(Node(load([str(tmp_path)]).snapshot))
    assert "├─ package 0000:0c:00.0 · DPX NPS2, 2 parts · PCIe" in text
    assert "  package 0000:0c:00.0 (GPU0 and GPU1): GPU2 1 xGMI link, 64.0 GB/s assumed" in text


def test_dies_of_a_package_have_links_of_their_own() -> None:
    assert "GPU0: GPU1 4 xGMI links, 200 GB/s;" in tree_text(demo_node("mi250x-8"))


def test_dot_has_a_line_for_every_node_and_edge() -> None:
    report = demo_node("dgx-1v")
    lines = dot_text(report).splitlines()
    assert sum(" -- " in line for line in lines) == report.graph.number_of_edges()
    assert '"0000:05:00.0" [label="GPU0", shape=box3d];' in dot_text(report)


def test_hostile_names_stay_text() -> None:
    report = node_of(hostile())
    dot = dot_text(report)
    assert "\x1b" not in dot
    assert len(dot.splitlines()) == 3 + len(report.graph) + report.graph.number_of_edges()
    assert r"x\"];[31mevil [label=\"<b>&" in dot
    back = nx.read_graphml(io.BytesIO(graphml_text(report).encode()))
    assert back.nodes["0000:02:00.0"]["label"] == 'x"];[31mevil [label="<b>&'
    tree = tree_text(report)
    assert "\x1b" not in tree
    assert len(tree.splitlines()) == 1 + len(report.graph)


def test_an_empty_machine_exports_as_nothing() -> None:
    report = node_of(Machine())
    assert as_json(report)["nodes"] == []
    assert len(tree_text(report).splitlines()) == 1
    assert dot_text(report).startswith("graph")


def test_a_numa_node_of_a_gpus_memory_has_no_cpus() -> None:
    nodes = tuple(
        NumaNode(node=node, memory_bytes=2**34, cpus=cpus)
        for node, cpus in ((0, "0-87"), (254, ""), (255, None))
    )
    made = NodeSnapshot(taken_at=0.0, machine=Machine(host=Host(numa=nodes)))
    report = Node(made)
    lines = [line.strip("├└─ ") for line in tree_text(report).splitlines() if "NUMA" in line]
    assert sorted(line.partition(", ")[2] for line in lines) == [
        "CPUs 0-87",
        "CPUs unknown",
        "no CPUs",
    ]


def test_a_gpu_that_only_a_matrix_names_breaks_no_document() -> None:
    made = as_json(Node(next(one.snapshot for one in cases() if one.name == "board-incomplete")))
    shown = {vertex["id"] for vertex in made["nodes"]}
    assert all({edge["a"], edge["b"]} <= shown for edge in made["edges"])
