"""Topology XML on the command line and on the screens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gputop.app import GpuTop
from gputop.topology.explain.why import why_device, why_pair
from gputop.topology.model.snapshot import decode
from gputop.topology.nccl.xml.read import read_topology
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report
from tests.grid import shown_size, turns
from tests.support.app import SIZES, give, picture, press
from tests.support.places import CAPTURES, RECORDINGS, ROOT

TOPOLOGIES = RECORDINGS / "nccl-topologies"
SHOWN = [
    TOPOLOGIES / "real.xml",
    TOPOLOGIES / "pcie_2s_2sw_amd.xml",
    CAPTURES / "nccl-2.28.9-graph/topologies/ndv5_h100.xml",
    CAPTURES / "rccl-2.21.5-graph/topologies/topo_8p_940.xml",
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gputop", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_a_topology_is_printed_as_it_was_read() -> None:
    path = TOPOLOGIES / "mesh_a100_amd.xml"
    done = run("topo", "--format", "nccl-xml", "--from", str(path))
    assert done.stdout == path.read_text()
    assert done.stderr == ""


def test_another_source_prints_what_nccl_would_detect() -> None:
    done = run("topo", "--format", "nccl-xml", "--demo", "hgx-h100-8")
    root = read_topology(done.stdout.encode(), "stdout")
    assert sum(1 for element in root.walk() if element.tag == "gpu") == 8
    assert "are assumed to support GPUDirect RDMA" in done.stderr


def test_a_snapshot_of_a_topology_prints_it_too(tmp_path: Path) -> None:
    path = TOPOLOGIES / "one_missing_nvlink.xml"
    done = run("snapshot", "--from", str(path), "-o", str(tmp_path / "node.json"))
    snapshot = decode((tmp_path / "node.json").read_bytes())
    assert snapshot.source == (path.name,)
    done = run("topo", "--format", "nccl-xml", "--from", str(tmp_path / "node.json"))
    assert done.stdout == path.read_text()


def test_matrix_and_tree() -> None:
    path = str(TOPOLOGIES / "nvswitch_2s_intel.xml")
    assert "GPU0\t X \tNV18\tNV18\tNV18\t" in run("topo", "--from", path).stdout
    tree = run("topo", "--format", "tree", "--from", path).stdout
    assert "GPU3: 18 NVLinks to NVSwitches" in tree


@pytest.mark.parametrize(("path", "size"), turns(SHOWN, SIZES), ids=shown_size)
async def test_screens_open(path: Path, size: tuple[int, int]) -> None:
    if not path.exists():
        pytest.skip("the captures are not on this machine")
    report = Report(Node(load([str(path)]).snapshot))
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, report)
        for key, sign in (("1", "Util %"), ("2", "NUMA"), ("3", "rows send")):
            await press(pilot, key)
            assert sign in picture(pilot)
            assert "kernel module" not in picture(pilot)
        await press(pilot, "2", "right", "down", "w", "escape")


def test_explanations_name_the_file_as_their_source() -> None:
    report = Report(Node(load([str(TOPOLOGIES / "pcie_2s_2sw_intel.xml")]).snapshot))
    sources = {
        fact.source
        for node in report.graph
        for fact in why_device(report.node, node).facts
        if fact.source
    }
    assert sources == {"topology XML", "the PCI tree"}
    switch = why_device(report.node, "0000:a0:00.0")
    assert "a PCIe switch" in switch.claim
    assert "PCIe gen5 x16" in [fact.value for fact in switch.facts]
    pair = why_pair(report.node, "0000:00:06.0", "0000:00:07.0")
    assert "topology XML: both are below 0000:a0:00.0" in pair.facts[0].because
