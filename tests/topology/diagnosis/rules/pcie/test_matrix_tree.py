"""What a matrix or a topology XML alone says of PCIe and NUMA, with the twin that is innocent."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS
from tests.support.rule_cases import diagnosed

RULES = {"flat-tree-of-a-guest", "shared-switch", "affinity-contradicts"}


def matrix(between: str, to_nics: str, cpus: str, count: int = 4, nodes: str = "") -> str:
    """GPUs that are all alike, each with a NIC; `{}` in the CPUs is the half of the GPU."""
    gpus = [f"GPU{number}" for number in range(count)]
    nics = [f"NIC{number}" for number in range(count)]
    rows = ["\t".join(["", *gpus, *nics, "CPU Affinity", "NUMA Affinity"])]
    for number, name in enumerate(gpus):
        cells = [" X " if other == name else between for other in gpus]
        half = number // (count // 2)
        tail = [
            cpus.split(";")[half % len(cpus.split(";"))],
            nodes.split(";")[half] if nodes else "0",
        ]
        rows.append("\t".join([name, *cells, *([to_nics] * count), *tail]))
    for name in nics:
        cells = [" X " if other == name else to_nics for other in nics]
        rows.append("\t".join([name, *([to_nics] * count), *cells, "", ""]))
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (matrix("NV18", "PHB", "0-63", 8), {"flat-tree-of-a-guest"}),
        (matrix("NV18", "PHB", "0-31", 4), {"flat-tree-of-a-guest"}),
        (matrix("NV18", "NODE", "0-63", 8), set()),
        (matrix("NV18", "PXB", "0-63", 8), set()),
        (matrix("PHB", "PHB", "0-31", 4), set()),  # cards in a workstation
        (matrix("NV4", "PHB", "0-31", 2), set()),  # two cards with a bridge
        (matrix("PIX", "PIX", "0-31", 4), {"shared-switch"}),
        (matrix("SYS", "SYS", "0-31", 2), {"affinity-contradicts"}),
        (matrix("SYS", "SYS", "0-31;16-47", 2), {"affinity-contradicts"}),
        (matrix("SYS", "SYS", "0-31;32-63", 2, "0;1"), set()),
        (matrix("NV18", "NODE", "0-31;0-31", 8, "0;1"), {"affinity-contradicts"}),
        (matrix("NODE", "NODE", "0-31", 4), set()),
        (matrix("NODE", "NODE", "0-31;16-47", 4), {"affinity-contradicts"}),
        (matrix("NODE", "NODE", "0-63;0-31", 4), set()),  # a part of a NUMA node is near
    ],
)
def test_what_a_matrix_says_of_the_tree(tmp_path: Path, text: str, expected: set[str]) -> None:
    file = tmp_path / "topo.txt"
    file.write_text(text)
    found = diagnosed(load([str(file)]).snapshot).findings
    assert {finding.id for finding in found} & RULES == expected
    assert {finding.severity for finding in found} <= {"notice", "by-design", "cannot-tell"}


def test_a_live_node_is_asked_and_not_judged_by_its_matrix() -> None:
    live = load([str(RECORDINGS / "hgx-h200-4gpu-live/snapshot.json")]).snapshot
    assert not RULES & {finding.id for finding in diagnosed(live).findings}


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (("nccl-topologies/pcie_2s_nosw_intel.xml", "nvidia-public/gb200-4.xml"), True),
        (("nccl-topologies/pcie_2s_nosw_intel.xml",), False),
        (("nvidia-public/gb200-4.xml",), False),
    ],
)
def test_a_topology_file_without_the_gpus_of_the_driver(
    texts: tuple[str, ...], found: bool
) -> None:
    said = diagnosed(load([str(RECORDINGS / name) for name in texts]).snapshot).findings
    assert ("topology-of-another-machine" in {finding.id for finding in said}) is found


def test_a_topology_file_with_the_gpus_of_the_driver(tmp_path: Path) -> None:
    lines = "index, uuid, pci.bus_id\n" + "".join(
        f"{number}, GPU-0000000{number}-0000-0000-0000-000000000000, 00000000:00:0{number + 6}.0\n"
        for number in range(4)
    )
    file = tmp_path / "gpus.csv"
    file.write_text(lines)
    xml = RECORDINGS / "nccl-topologies/pcie_2s_nosw_intel.xml"
    said = diagnosed(load([str(xml), str(file)]).snapshot).findings
    assert "topology-of-another-machine" not in {finding.id for finding in said}


@pytest.mark.parametrize(
    ("name", "between", "found"),
    [
        ("NVIDIA GeForce RTX 4090", "PHB", True),
        ("NVIDIA GeForce RTX 5090", "PIX", True),
        ("NVIDIA GeForce RTX 3090", "NV4", False),  # a bridge joins the two
        ("NVIDIA GeForce GTX 1080 Ti", "PHB", False),
        ("NVIDIA RTX 6000 Ada Generation", "PHB", False),
        ("NVIDIA L40S", "PHB", False),
    ],
)
def test_products_without_p2p_are_known_by_name(
    tmp_path: Path, name: str, between: str, found: bool
) -> None:
    listed = "".join(
        f"GPU {number}: {name} (UUID: GPU-0000000{number}-0000-0000-0000-000000000000)\n"
        for number in range(2)
    )
    file = tmp_path / "page.txt"
    file.write_text(f"{matrix(between, 'PHB', '0-31', 2)}\n{listed}")
    said = diagnosed(load([str(file)]).snapshot).findings
    assert ("p2p-not-in-product" in {finding.id for finding in said}) is found
