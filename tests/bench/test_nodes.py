"""The nodes of the benchmark are nodes: every GPU has its NIC, its switch and its links."""

from __future__ import annotations

import pytest

from gputop.topology.exports.nccl_xml import as_nccl_xml
from gputop.topology.model.snapshot import decode, encode
from gputop.topology.nccl.xml.read import read_topology
from gputop.topology.node import Node
from gputop.topology.sources.amd.amdsmi_readings import SLOW_EVERY
from tests.harness.bench.__main__ import exponent
from tests.harness.bench.nodes import (
    SWITCHES,
    WIRINGS,
    MadeFeed,
    MadeNode,
    numa_nodes_xml,
    with_links_gone,
)

LETTERS = {"nvswitch": {"NV18"}, "xgmi": {"XGMI"}, "pcie": {"PIX", "PXB", "NODE", "SYS"}}


@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_made_node_is_whole(wiring: str) -> None:
    snapshot = MadeNode(wiring, 16).snapshot()
    assert decode(encode(snapshot)).machine == snapshot.machine
    machine = snapshot.machine
    assert len(machine.gpus) == len(machine.rdma) == len(snapshot.readings.gpus) == 16
    matrix = Node(snapshot).matrix
    gpus = [row for row in matrix.rows if row.kind == "gpu"]
    assert {cell.code for row in gpus for cell in row.cells[:16]} == {"X", *LETTERS[wiring]}
    # Each GPU has a NIC below its own switch.
    assert all("PIX" in {cell.code for cell in row.cells[16:]} for row in gpus)
    topology = read_topology(as_nccl_xml(snapshot).text.encode(), "made")
    assert sum(element.tag == "gpu" for element in topology.walk()) == 16
    assert sum(element.tag == "net" for element in topology.walk()) == 16


def test_its_figures_move() -> None:
    feed = MadeFeed(MadeNode("pcie", 8))
    first, second = feed.snapshot(), feed.snapshot()
    assert first.machine is second.machine
    assert first.readings != second.readings
    assert not feed.wait(0.0)  # a second has not passed


def test_link_counters_move_as_rarely_as_they_are_asked() -> None:
    feed = MadeFeed(MadeNode("xgmi", 8))
    readings = [feed.snapshot().readings.gpus for _ in range(SLOW_EVERY + 1)]
    for gpu in range(8):
        counts = [reading[gpu].xgmi for reading in readings]
        assert counts[0]
        assert len(set(counts)) == 2


def test_every_nvlink_has_its_counters() -> None:
    feed = MadeFeed(MadeNode("nvswitch", 8))
    first, *_, last = (feed.snapshot().readings.gpus for _ in range(3))
    assert [len(reading.nvlinks) for reading in first] == [SWITCHES] * 8
    assert all(link.replay_errors == 0 for reading in first for link in reading.nvlinks)
    # Asked in turns: of each GPU once in two minutes, the first one in the second reading.
    moved = [old.nvlinks != new.nvlinks for old, new in zip(first, last, strict=True)]
    assert moved == [True, True] + [False] * 6


def test_links_are_gone_at_both_ends() -> None:
    gpus = with_links_gone(MadeNode("xgmi", 16), gpu=3, count=5).snapshot().machine.gpus
    links = [len(gpu.xgmi) for gpu in gpus]
    assert links[3] == 10
    assert sorted(links) == [10, *[14] * 5, *[15] * 10]


def test_numa_nodes_have_a_gpu_each() -> None:
    topology = read_topology(numa_nodes_xml(5).encode(), "made")
    assert sum(element.tag == "gpu" for element in topology.walk()) == 5


def test_growth_is_an_exponent() -> None:
    sizes = (8, 32, 128)
    assert exponent(sizes, [0.3 + 0.001 * size**2 for size in sizes]) == pytest.approx(2, abs=0.1)
    assert exponent(sizes, [0.3, 0.3, 0.3]) == 0
