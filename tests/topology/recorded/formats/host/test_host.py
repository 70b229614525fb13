"""What people paste about the host: lscpu, numactl, lstopo, hwloc's XML, variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Host
from gputop.topology.node import Node
from gputop.topology.recorded.load import LoadError, load
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "pasted"


def snapshot(name: str | Path) -> NodeSnapshot:
    return load([str(FOLDER / name)]).snapshot


def host(*names: str | Path) -> Host:
    found = load([str(FOLDER / name) for name in names]).snapshot.machine.host
    assert found is not None
    return found


def test_lscpu_of_a_machine() -> None:
    found = host("epyc-lscpu.txt")
    assert (found.cpu_vendor, found.cpu_family, found.cpu_model) == ("AuthenticAMD", 23, 49)
    assert found.cpu_model_name == "AMD EPYC 7H12 64-Core Processor"
    assert (found.hypervisor, found.why("hypervisor")) == (None, None)  # bare metal
    assert [(s.socket, s.cores, s.threads) for s in found.sockets] == [(0, 64, 128), (1, 64, 128)]
    assert [(n.node, n.cpus) for n in found.numa] == [(0, "0-63,128-191"), (1, "64-127,192-255")]
    assert found.why("memory_bytes") == "not in lscpu"


def test_lscpu_of_a_guest() -> None:
    found = host("xeon-guest-lscpu.txt")
    assert (found.hypervisor, found.cpu_vendor) == ("Microsoft", "GenuineIntel")
    assert [node.cpus for node in found.numa] == ["0,1"]


def test_flags_that_are_broken_over_lines_name_a_guest(tmp_path: Path) -> None:
    text = (FOLDER / "xeon-guest-lscpu.txt").read_text()
    silent = text.replace("  Hypervisor vendor:", "  X:").replace("Virtualization type", "Y")
    path = tmp_path / "lscpu.txt"
    path.write_text(silent)
    assert host(path).hypervisor == "unknown hypervisor"
    path.write_text(silent.replace(" hypervisor ", " "))
    assert (host(path).hypervisor, host(path).why("hypervisor")) == (None, None)


def test_lscpu_without_its_flags_does_not_say_bare_metal(tmp_path: Path) -> None:
    text = "\n".join(
        line
        for line in (FOLDER / "epyc-lscpu.txt").read_text().split("\n")
        if not line.startswith(("Flags", " ", "Virtualization"))
    )
    path = tmp_path / "lscpu.txt"
    path.write_text(text)
    assert host(path).why("hypervisor") == "not in lscpu"


def test_nodes_of_numactl_complete_those_of_lscpu(tmp_path: Path) -> None:
    found = host("epyc-numactl.txt")
    assert [(n.node, n.cpus, n.memory_bytes) for n in found.numa[:2]] == [
        (0, "0-15,128-143", 63733 << 20),
        (1, "16-31,144-159", 64502 << 20),
    ]
    assert found.numa[7].distances == (32, 32, 32, 32, 12, 12, 12, 10)
    sizes = (63733, 64502, 64456, 64490, 64502, 64502, 64502, 64428)
    assert found.memory_bytes == sum(sizes) << 20
    path = tmp_path / "both.txt"
    nodes = (
        "available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 257655 MB\n"
        "node 1 cpus: 64 65\nnode 1 size: 258022 MB\nnode distances:\nnode   0   1\n"
        "  0:  10  32\n  1:  32  10\n"
    )
    path.write_text((FOLDER / "epyc-lscpu.txt").read_text() + nodes)
    joined = host(path)
    assert [(n.cpus, n.distances, n.memory_bytes) for n in joined.numa] == [
        ("0-63,128-191", (10, 32), 257655 << 20),
        ("64-127,192-255", (32, 10), 258022 << 20),
    ]


def test_lstopo_with_addresses() -> None:
    node = snapshot("v100-lstopo.txt")
    machine = node.machine
    assert [(g.address, g.vendor, g.index, g.numa_node) for g in machine.gpus] == [
        ("0000:1a:00.0", "nvidia", 0, 0),
        ("0000:89:00.0", "nvidia", 1, 1),
    ]
    assert [(d.name, d.address, d.numa_node) for d in machine.rdma] == [
        ("mlx5_0", "0000:1c:00.0", 0)
    ]
    found = host("v100-lstopo.txt")
    assert [(n.node, n.cpus, n.memory_bytes) for n in found.numa] == [
        (0, "0-1,4-5", None),
        (1, "2-3,6-7", None),
    ]
    assert [(s.socket, s.threads) for s in found.sockets] == [(0, 4), (1, 4)]
    # Bridges have no addresses in it, so nobody knows who shares one.
    assert {device.parent for device in machine.pci} == {""}
    assert Node(node).matrix.rows[0].cells[1].code == "?"


def test_lstopo_of_hwloc_1_names_no_device() -> None:
    node = snapshot("opteron-lstopo.txt")
    assert node.machine.pci == ()
    assert [(n.node, n.cpus) for n in host("opteron-lstopo.txt").numa] == [(0, "0,4"), (1, "24")]


def test_xml_of_hwloc() -> None:
    machine = snapshot("mi50-hwloc.xml").machine
    (gpu,) = machine.gpus
    assert (gpu.address, gpu.vendor, gpu.index, gpu.numa_node) == ("0000:e3:00.0", "amd", 0, 0)
    assert [(d.address[5:], d.parent[5:], d.kind) for d in machine.pci] == [
        ("80:01.1", "00:80", "root port"),
        ("81:00.0", "80:01.1", "nic"),
        ("e0:03.1", "00:e0", "root port"),
        ("e1:00.0", "e0:03.1", "switch upstream"),
        ("e2:00.0", "e1:00.0", "switch downstream"),
        ("e3:00.0", "e2:00.0", "gpu"),
    ]
    assert [(d.name, d.numa_node) for d in machine.rdma] == [("mlx5_0", 1)]
    assert [(n.cpus, n.memory_bytes) for n in host("mi50-hwloc.xml").numa] == [
        ("0-1", 270000000000),
        ("2-3", 270100000000),
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("<topology", '<!DOCTYPE a [<!ENTITY x "y">]><topology'), "not XML|refused"),
        (("</topology>", ""), "not XML"),
        (("<object ", '<object type="Group">' * 200 + "<object "), "deep"),
    ],
    ids=["entity", "cut", "deep"],
)  # fmt: skip
def test_hostile_xml_is_refused(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    path = tmp_path / "topo.xml"
    path.write_text((FOLDER / "mi50-hwloc.xml").read_text().replace(*change))
    with pytest.raises(LoadError, match=why):
        load([str(path)])


def test_variables_that_are_listed_and_no_others() -> None:
    found = snapshot("env.txt").environment
    assert [(variable.name, variable.value) for variable in found] == [
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_IB_HCA", "mlx5_0,mlx5_1"),
        ("NCCL_SOCKET_IFNAME", "bond0"),
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("NCCL_P2P_LEVEL", "PHB"),
        ("NCCL_SHM_DISABLE", "1"),
    ]
