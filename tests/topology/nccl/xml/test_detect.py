"""The topology XML that NCCL would find: compared with its own dump and with what its code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.model.machine import Machine, PciDevice, XgmiLink
from gputop.topology.model.surroundings import Host
from gputop.topology.nccl.xml.detect import NOTE, ranked, stated
from gputop.topology.nccl.xml.read import check_topology, read_topology
from gputop.topology.nccl.xml.write import write_topology
from gputop.topology.node import Node
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.recorded.load import load
from tests.support.faults.machine import read
from tests.support.places import RECORDINGS
from tests.topology.nccl.xml.made import (
    adapter,
    found,
    gpu,
    gpu_links,
    link,
    machine,
    made,
    nets,
    pci_of,
    pcis,
    with_gpu,
)

VM = RECORDINGS / "hgx-h200-4gpu-vm"
DUMP = RECORDINGS / "nccl-topologies" / "real.xml"


def text(machine: Machine, **variables: str) -> str:
    return write_topology(found(machine, **variables).element)


def test_the_dump_of_a_real_run_is_found_again() -> None:
    machine = load([str(VM / "nvml.json"), str(VM / "sysfs.tar.gz")]).snapshot.machine
    detected = found(machine)
    # Only the hash of the host differs, which no snapshot tells.
    dump = DUMP.read_text().replace(' host_hash="0xdf4136679ee45c87"', "")
    assert write_topology(detected.element) == dump
    assert detected.assumptions == ()


def test_a_live_reading_of_such_a_machine_gives_the_same() -> None:
    machine = load([str(RECORDINGS / "hgx-h200-4gpu-live/snapshot.json")]).snapshot.machine
    dump = DUMP.read_text().replace(' host_hash="0xdf4136679ee45c87"', "")
    assert text(machine).split("<nic>")[0] == dump.split("<nic>")[0]


def test_what_too_little_was_read_of_is_assumed_and_said() -> None:
    for name in ("nvidia-smi-q.xml", "nvidia-smi-topo-m.txt", "nvml.json", "sysfs.tar.gz"):
        detected = found(load([str(VM / name)]).snapshot.machine)
        links = gpu_links(detected.element)
        assert set(map(str, links.values())) == {"[('fffffff:ff:ff.0', 18, '0x068000')]"}
        assert bool(detected.assumptions)
        check_topology(detected.element)


def test_letters_alone_give_a_tree(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(
        "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tPIX\tPXB\tSYS\tSYS\t0-31\t0\n"
        "GPU1\tPIX\t X \tPXB\tSYS\tSYS\t0-31\t0\n"
        "GPU2\tPXB\tPXB\t X \tSYS\tSYS\t0-31\t0\n"
        "GPU3\tSYS\tSYS\tSYS\t X \tNODE\t32-63\t1\n"
        "NIC0\tSYS\tSYS\tSYS\tNODE\t X \t\t\n"
    )
    detected = found(load([str(tmp_path / "topo.txt")]).snapshot.machine)
    tree = dict(pcis(detected.element))
    assert tree["fffe:00:00.0"] == tree["fffe:01:00.0"] != tree["fffe:02:00.0"]
    assert tree[tree["fffe:00:00.0"]] == tree["fffe:02:00.0"]
    assert tree[tree["fffe:02:00.0"]] == "cpu 0"
    assert tree["fffe:03:00.0"] == "cpu 1"
    assert any("codes" in sentence for sentence in detected.assumptions)


def test_every_second_port_is_left_out() -> None:
    tree = dict(pcis(found(made("two-socket-switches")).element))
    assert tree["0000:18:00.0"] == tree["0000:19:00.0"] == "0000:16:00.0"
    assert tree["0000:16:00.0"] == "cpu 0"
    # A switch below a switch, and a device right below a root port.
    assert (tree["0000:3c:00.0"], tree["0000:3a:00.0"]) == ("0000:3a:00.0", "0000:38:00.0")
    assert tree["0000:1c:00.0"] == "cpu 0"
    assert tree["0000:8c:00.0"] == "0000:8a:00.0"
    devices = {device.address: device.kind for device in made("two-socket-switches").pci}
    assert {devices[address] for address in tree} == {"gpu", "nic", "switch upstream"}


@pytest.mark.parametrize("name", demo.names())
def test_every_demo_gives_a_whole_topology(name: str) -> None:
    machine = DemoFeed(name).at(0).machine
    detected = found(machine)
    check_topology(detected.element)
    assert read_topology(write_topology(detected.element).encode(), name) == detected.element
    links = gpu_links(detected.element)
    assert sorted(links) == [gpu.address for gpu in ranked(machine)]
    ranks = {
        element.get("busid"): gpu.get("rank")
        for element in detected.element.walk()
        for gpu in element.each("gpu")
    }
    assert [ranks[address] for address in sorted(links)] == [str(i) for i in range(len(links))]
    assert len(list(detected.element.each("cpu"))) >= 2
    speeds = {
        element.get("link_speed") for element in detected.element.walk() if element.tag == "pci"
    }
    assert all(speed is not None and speed.endswith(" GT/s PCIe") for speed in speeds)


def test_an_hgx_board_has_switches_nics_and_nvswitches() -> None:
    element = found(DemoFeed("hgx-h100-8").at(0).machine).element
    tree = dict(pcis(element))
    assert len(nets(element)) == 8
    assert {net["speed"] for net in nets(element)} == {"400000"}
    assert {net["gdr"] for net in nets(element)} == {"1"}
    for address, links in gpu_links(element).items():
        assert [count for _, count, _ in links] == [5, 5, 4, 4]
        assert {tclass for _, _, tclass in links} == {"0x068000"}
        beside = [one for one, above in tree.items() if above == tree[address]]
        assert len(beside) == 2


def test_links_that_are_down_do_not_count() -> None:
    well = gpu_links(found(DemoFeed("hgx-h100-8").at(0).machine).element)
    sick = gpu_links(found(DemoFeed("sick-h100-8").at(0).machine).element)
    missing = {
        address: sum(count for _, count, _ in well[address]) - sum(count for _, count, _ in links)
        for address, links in sick.items()
    }
    assert sum(1 for count in missing.values() if count) == 1


def test_links_between_gpus() -> None:
    links = gpu_links(found(DemoFeed("dgx-1v").at(0).machine).element)
    first = links[min(links)]
    assert sorted(count for _, count, _ in first) == [1, 1, 2, 2]
    assert {tclass for _, _, tclass in first} == {"0x030200"}


def test_amd_gpus_get_what_rccl_writes() -> None:
    element = found(DemoFeed("mi300x-8").at(0).machine).element
    assert element.get("version") == "2"
    gpu = next(one for one in element.walk() if one.tag == "gpu")
    assert gpu.attributes == (
        ("dev", "0"), ("sm", "304"), ("gcn", "gfx942"), ("arch", "38911"), ("rank", "0"),
        ("gdr", "1"),
    )  # fmt: skip
    assert [(child.tag, child.get("count"), child.get("tclass")) for child in gpu.children] == [
        ("xgmi", "1", "0x120000")
    ] * 7
    cpu = next(element.each("cpu"))
    assert (cpu.get("vendor"), cpu.get("familyid")) == ("AuthenticAMD", "175")


def test_the_slower_end_of_a_link_counts() -> None:
    one = pci_of(found(machine()), "0000:01:00.0")
    assert (one.get("link_speed"), one.get("link_width")) == ("16.0 GT/s PCIe", "16")


def test_a_device_on_the_root_complex_has_no_width() -> None:
    alone = machine(
        pci=(PciDevice(address="0000:01:00.0", parent="pci0000:01", link_width_max=16),)
    )
    assert pci_of(found(alone), "0000:01:00.0").get("link_width") == "0"
    assert pci_of(found(alone), "0000:01:00.0").get("link_speed") == ""
    amd = with_gpu(alone, vendor="amd", compute_capability="gfx942", core_count=304)
    assert pci_of(found(amd), "0000:01:00.0").get("link_width") == "16"
    assert next(found(amd).element.each("cpu")).get("numaid") == "0"
    assert next(found(alone).element.each("cpu")).get("numaid") == "-1"


def test_which_nvlinks_count() -> None:
    links = (
        *(link(i) for i in range(12)),
        link(13),  # beyond the twelve that NCCL asks compute capability 8 for
        link(3, active=False),
        link(4, p2p_capable=False),
        link(5, remote_kind=None, remote_address=None),
        link(6, remote_kind="nvswitch", remote_address=None),
    )
    detected = found(with_gpu(machine(), nvlinks=links, compute_capability="8.0"))
    assert gpu_links(detected.element)["0000:01:00.0"] == [
        ("0000:09:00.0", 12, "0x068000"),
        ("fffffff:ff:ff.0", 1, "0x068000"),
    ]
    assert any("0000:09:00.0" in text for text in detected.assumptions)
    old = found(with_gpu(machine(), nvlinks=links, compute_capability="7.5"))
    assert gpu_links(old.element)["0000:01:00.0"][0][1] == 6


def test_xgmi_of_one_hop_counts() -> None:
    links = (
        XgmiLink(remote_address="0000:09:00.0", links=4, hops=1),
        XgmiLink(remote_address="0000:0a:00.0", links=1, hops=2),
        XgmiLink(remote_address="0000:0b:00.0", active=False),
    )
    amd = with_gpu(machine(), vendor="amd", compute_capability="gfx90a:sramecc+", xgmi=links)
    element = found(amd).element
    assert gpu_links(element)["0000:01:00.0"] == [("0000:09:00.0", 4, "0x068000")]
    assert next(one for one in element.walk() if one.tag == "gpu").get("gcn") == "gfx90a"


def test_coherent_gpus_and_arm() -> None:
    grace = Host(architecture="aarch64")
    one = with_gpu(machine(host=grace), c2c_enabled=True, compute_capability="9.0")
    detected = found(one)
    assert [child.tag for child in detected.element.walk()].count("c2c") == 1
    assert next(detected.element.each("cpu")).attributes == (("numaid", "0"), ("arch", "arm64"))
    assert any("C2C" in sentence for sentence in detected.assumptions)


@pytest.mark.timeout(60)
def test_a_large_domain_is_detected_soon() -> None:
    many = range(72)
    large = machine(
        gpus=tuple(gpu(f"{i:04x}:01:00.0", index=i) for i in many),
        pci=tuple(
            PciDevice(address=f"{i:04x}:0{k}:00.0", parent=f"pci{i:04x}:00", numa_node=i % 2)
            for i in many
            for k in (1, 2)
        ),
        rdma=tuple(adapter(f"mlx5_{i}", f"{i:04x}:02:00.0") for i in many),
    )
    element = found(large).element
    assert (len(gpu_links(element)), len(nets(element))) == (72, 72)


def test_no_gpu_gives_an_empty_system() -> None:
    assert text(Machine()) == '<system version="1"/>\n'


# A PCI tree from NVML's common ancestors, where /sys shows none.
@pytest.mark.parametrize("profile", ["l40s-8", "v100-8", "h100-8"])
def test_paths_are_those_of_the_tree_that_sysfs_would_show(profile: str) -> None:
    seen, unseen = (Node(read(profile, bare=bare)).decide().prediction for bare in (False, True))
    assert seen is not None
    assert unseen is not None
    assert {(pair.src, pair.dst): pair.path for pair in unseen.pairs} == {
        (pair.src, pair.dst): pair.path for pair in seen.pairs
    }


def test_what_the_driver_states_is_an_assumption() -> None:
    prediction = Node(read("l40s-8", bare=True)).decide().prediction
    assert prediction is not None
    assert NOTE.rstrip(".") in prediction.assumptions
    assert "PIX" in {pair.path for pair in prediction.pairs}


def test_a_tree_that_was_read_stays() -> None:
    notes: list[str] = []
    machine = read("l40s-8").machine
    assert stated(machine, notes) is machine
    assert notes == []
