"""A topology XML as a machine: what it says, what stays unknown, and what becomes of the file."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from gputop.topology.explain.absence import why_no_gpu
from gputop.topology.exports import tree as tree_file
from gputop.topology.exports.nccl_xml import as_nccl_xml
from gputop.topology.model.element import NOT_IN_XML, Element
from gputop.topology.model.machine import Machine, PciDevice
from gputop.topology.model.part import PartialNode
from gputop.topology.model.redact import redacted
from gputop.topology.model.snapshot import decode, encode
from gputop.topology.model.surroundings import Host, Module, RdmaPort
from gputop.topology.nccl.xml.machine import cpus_of, kernel_family, nccl_family, part_of_topology
from gputop.topology.nccl.xml.names import listed
from gputop.topology.nccl.xml.read import read_topology
from gputop.topology.node import Node
from gputop.topology.recorded.load import LoadError, load
from tests.support.places import CAPTURES, RECORDINGS
from tests.topology.nccl.xml.made import adapter, found, gpu, interface, machine, made, nets, pcis

TOPOLOGIES = RECORDINGS / "nccl-topologies"
RECORDED = sorted(TOPOLOGIES.glob("*.xml"))
CAPTURED = sorted(CAPTURES.glob("*-graph/topologies/*.xml"))

# Two sockets; a switch in a switch, a NIC of two ports, a GPU of RCCL's, odd links.
MADE = """<system version="2" name="node17.lab.example">
  <cpu numaid="0" affinity="00000001,0000ffff" arch="x86_64" vendor="AuthenticAMD"
       familyid="175" modelid="17">
    <pci busid="0000:01:00.0" class="0x060400" vendor="0x1000" device="0xc030"
         link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x060400" link_speed="16 GT/s" link_width="8">
        <pci busid="00000000:0C:00.0" class="0x120000" vendor="0x1002" device="0x74a1"
             link_speed="32.0 GT/s PCIe" link_width="16">
          <gpu dev="0" sm="304" gcn="gfx942" arch="38911" rank="0" gdr="1">
            <xgmi target="0000:1c:00.0" count="2" tclass="0x120000"/>
            <xgmi target="0000:ff:00.0" count="1" tclass="0x120000"/>
          </gpu>
        </pci>
      </pci>
      <pci busid="0000:03:00.0" class="0x020700" vendor="0x15b3" link_width="0" link_speed="">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0xf01cbc0103dd6838" gdr="1"/>
          <net name="mlx5_1" dev="1" speed="-1" port="2" guid="0x1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1">
    <pci busid="0000:1c:00.0" class="0x120000" vendor="0x1002" link_speed="Unknown">
      <gpu dev="1" sm="304" gcn="910" rank="1" gdr="1"/>
    </pci>
    <nic><net name="eth0" dev="2" speed="25000" port="0"/></nic>
  </cpu>
</system>
"""


def part(text: str) -> PartialNode:
    return part_of_topology(read_topology(text.encode(), "made.xml"))


def machine_of(path: Path) -> Machine:
    return load([str(path)]).snapshot.machine


def report(tmp_path: Path, text: str) -> Node:
    (tmp_path / "made.xml").write_text(text)
    return Node(load([str(tmp_path / "made.xml")]).snapshot)


def test_gpus_and_their_links() -> None:
    found = part(MADE)
    one, other = found.gpus
    assert (one.address, one.vendor, one.index, one.numa_node) == ("0000:0c:00.0", "amd", 0, 0)
    assert (one.compute_capability, other.compute_capability) == ("gfx942", "gfx90a")
    assert (one.core_count, one.pci_id) == (304, "1002:74a1")
    assert (one.pcie_gen_max, one.pcie_width_max) == (5, 16)
    # The second bundle ends at a device that is not in the file.
    (link,) = one.xgmi
    assert (link.remote_address, link.links, link.hops) == ("0000:1c:00.0", 2, 1)
    assert other.pcie_gen_max is None
    assert other.why("pcie_gen_max") == "the XML says 'Unknown'"
    assert one.why("memory_bytes") == one.why("uuid") == NOT_IN_XML


def test_nvlinks_to_switches_peers_and_nowhere() -> None:
    (four,) = {len(gpu.nvlinks) for gpu in machine_of(TOPOLOGIES / "real.xml").gpus}
    assert four == 18
    gpu = machine_of(TOPOLOGIES / "real.xml").gpus[0]
    assert {(x.remote_kind, x.remote_address, x.active) for x in gpu.nvlinks} == {
        ("nvswitch", None, True)
    }
    gpu = machine_of(TOPOLOGIES / "ring_nvb_intel.xml").gpus[0]
    assert {x.remote_kind for x in gpu.nvlinks} == {"gpu"}
    gpu = machine_of(TOPOLOGIES / "pcie_2s_2sw_intel.xml").gpus[0]
    assert gpu.nvlinks == ()
    assert "not in it" in (gpu.why("nvlinks") or "")


def test_pci_devices_hang_as_the_file_has_them() -> None:
    devices = {device.address: device for device in part(MADE).pci}
    assert [(device.address, device.parent, device.kind) for device in devices.values()] == [
        ("0000:01:00.0", "cpu 0", "switch"),
        ("0000:02:00.0", "0000:01:00.0", "switch"),
        ("0000:0c:00.0", "0000:02:00.0", "gpu"),
        ("0000:03:00.0", "0000:01:00.0", "nic"),
        ("0000:1c:00.0", "cpu 1", "gpu"),
    ]
    inner, nic = devices["0000:02:00.0"], devices["0000:03:00.0"]
    assert (inner.link_speed_max_gts, inner.link_width_max) == (16.0, 8)
    assert (nic.link_speed_max_gts, nic.link_width_max) == (None, None)
    assert nic.why("link_width_max") == "the XML says '0'"
    assert (inner.numa_node, inner.local_cpus) == (0, "0-15,32")


def test_network_devices() -> None:
    found = part(MADE)
    one, other = found.rdma
    assert (one.name, one.address, one.kind, one.numa_node) == (
        "mlx5_0", "0000:03:00.0", "infiniband", 0,
    )  # fmt: skip
    assert one.guid == "3868:dd03:01bc:1cf0"
    assert (one.ports[0].port, one.ports[0].rate_gbit) == (1, 400.0)
    assert (other.guid, other.ports[0].port, other.ports[0].rate_gbit) == (None, 2, None)
    (eth,) = found.interfaces
    assert (eth.name, eth.address, eth.speed_mbps, eth.numa_node) == ("eth0", None, 25000, 1)


def test_the_host() -> None:
    host = part(MADE).host
    assert host is not None
    assert (host.cpu_vendor, host.cpu_family, host.cpu_model) == ("AuthenticAMD", 25, 17)
    assert host.architecture == "x86_64"
    assert [(node.node, node.cpus) for node in host.numa] == [(0, "0-15,32"), (1, None)]
    assert host.why("hostname") == NOT_IN_XML


@pytest.mark.parametrize(("nccl", "kernel"), [(6, 6), (143, 23), (175, 25), (31, 16), (7, 7)])
def test_cpu_families(nccl: int, kernel: int) -> None:
    assert kernel_family(nccl) == kernel
    assert nccl_family(kernel) == nccl


def test_masks_of_cpus() -> None:
    assert cpus_of("00000000,ffffffff") == "0-31"
    assert cpus_of("ff") == "0-7"
    assert cpus_of("1,00000000") == "32"
    assert cpus_of("") is cpus_of(None) is cpus_of("00000000") is cpus_of(",,x") is None


def test_relations_and_the_tree(tmp_path: Path) -> None:
    examined = report(tmp_path, MADE)
    matrix = examined.matrix
    assert [[cell.code for cell in row.cells] for row in matrix.rows] == [
        ["X", "XGMI", "PXB", "PXB"],
        ["XGMI", "X", "SYS", "SYS"],
        # NCCL names both ports of a card by its first function.
        ["PXB", "SYS", "X", "X"],
        ["PXB", "SYS", "X", "X"],
    ]
    tree = tree_file.write(examined).text
    assert "switch 01:00.0 · PCIe gen5 x16, 63.0 GB/s" in tree
    assert tree.index("switch 01:00.0") < tree.index("switch 02:00.0") < tree.index("0000:0c:00.0")
    assert "2 xGMI links" in tree
    assert why_no_gpu(examined.snapshot) == ()


def test_two_devices_of_one_cpu_are_no_further_known(tmp_path: Path) -> None:
    cell = Node(load([str(TOPOLOGIES / "pcie_2s_nosw_intel.xml")]).snapshot).matrix.rows[0].cells
    assert [relation.code for relation in cell] == ["X", "NODE", "SYS", "SYS"]
    assert (cell[1].basis, cell[2].basis) == ("assumed", "read")
    assert "topology XML" in cell[1].evidence[0]


def test_devices_on_bus_0_share_the_root_complex() -> None:
    assert {device.parent for device in machine_of(TOPOLOGIES / "real.xml").pci} == {"pci0000:00"}
    spread = machine_of(TOPOLOGIES / "pcie_2s_nosw_intel.xml")
    assert {device.parent for device in spread.pci} == {"cpu 0", "cpu 1"}


def test_a_file_without_a_gpu(tmp_path: Path) -> None:
    examined = report(tmp_path, '<system version="1"><cpu numaid="0"/></system>')
    (reason,) = why_no_gpu(examined.snapshot)
    assert reason.sentence == "The topology XML has no GPU in it."
    assert part('<system version="1"/>').host is None


def test_only_the_first_of_several_hosts_is_shown() -> None:
    cpu = '<cpu host_hash="{}" numaid="0"><pci busid="0000:0{}:00.0"><gpu dev="0"/></pci></cpu>'
    found = part(f'<system version="1">{cpu.format("0x1", 1)}{cpu.format("0x2", 2)}</system>')
    assert [gpu.address for gpu in found.gpus] == ["0000:01:00.0"]
    assert "other hosts" in found.problems[0].text


def test_what_has_no_address_or_comes_twice_is_left_out() -> None:
    found = part(
        '<system version="1"><cpu numaid="0"><pci class="0x03"><gpu dev="0"/></pci>'
        '<pci busid="0000:01:00.0"><gpu dev="1"/></pci>'
        '<pci busid="0000:01:00.0"><gpu dev="2"/></pci><nic><net/></nic></cpu></system>'
    )
    assert [(gpu.address, gpu.index) for gpu in found.gpus] == [("0000:01:00.0", 1)]
    assert (found.rdma, found.interfaces) == ((), ())


@pytest.mark.parametrize("path", [*RECORDED, *CAPTURED], ids=lambda path: path.stem)
def test_a_snapshot_keeps_the_file(path: Path) -> None:
    snapshot = load([str(path)]).snapshot
    again = decode(encode(snapshot))
    assert again == snapshot
    own = read_topology(path.read_bytes(), path.name)
    assert again.machine.nccl_topology == own
    written = as_nccl_xml(again)
    assert read_topology(written.text.encode(), "again") == own
    assert written.assumptions == ()
    ranked = sum(1 for element in own.walk() if element.tag == "gpu")
    assert len(snapshot.machine.gpus) == ranked
    examined = Node(snapshot)
    assert len(examined.matrix.rows) >= ranked
    assert tree_file.write(examined).text.count("GPU0") >= 1


def test_a_snapshot_file_keeps_it_too(tmp_path: Path) -> None:
    snapshot = load([str(TOPOLOGIES / "real.xml")]).snapshot
    (tmp_path / "node.json").write_bytes(encode(snapshot))
    assert machine_of(tmp_path / "node.json") == snapshot.machine


def test_a_snapshot_with_a_nonsense_topology_is_refused(tmp_path: Path) -> None:
    snapshot = load([str(TOPOLOGIES / "real.xml")]).snapshot
    bad = Element(tag="system", attributes=(("version", "9"),))
    machine = msgspec.structs.replace(snapshot.machine, nccl_topology=bad)
    (tmp_path / "node.json").write_bytes(encode(msgspec.structs.replace(snapshot, machine=machine)))
    with pytest.raises(LoadError, match="version '9'"):
        load([str(tmp_path / "node.json")])


def test_a_folder_merges_and_uses_one_topology(tmp_path: Path) -> None:
    for name in ("nvml.json", "sysfs.tar.gz"):
        shutil.copy(RECORDINGS / "hgx-h200-4gpu-vm" / name, tmp_path)
    shutil.copy(TOPOLOGIES / "real.xml", tmp_path / "b.xml")
    shutil.copy(TOPOLOGIES / "one_no_nvlink.xml", tmp_path / "c.xml")
    loaded = load([str(tmp_path)])
    assert loaded.snapshot.source == ("nvml.json", "sysfs.tar.gz", "b.xml")
    assert loaded.skipped == (("c.xml", "a second topology; b.xml has the one used"),)
    machine = loaded.snapshot.machine
    assert machine.nccl_topology == machine_of(TOPOLOGIES / "real.xml").nccl_topology
    assert len(machine.gpus) == 4
    # The driver and sysfs know better than the file what they say themselves.
    assert machine.gpus[0].nvlinks[0].raw_gbs == 26.562
    assert {device.driver for device in machine.pci if device.kind == "gpu"} == {"nvidia"}


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.xml").write_text('<system version="1">\n<cpu numaid="x"/></system>')
    with pytest.raises(LoadError, match=r"bad\.xml:2: broken NCCL topology XML: numaid='x'"):
        load([str(tmp_path / "bad.xml")])


def test_a_graph_xml_stays_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.xml").write_text('<graphs version="1"><graph id="0"/></graphs>')
    with pytest.raises(LoadError, match="an NCCL graph XML"):
        load([str(tmp_path / "graph.xml")])


def test_redaction(tmp_path: Path) -> None:
    snapshot = report(
        tmp_path, MADE.replace('numaid="0"', 'numaid="0" host_hash="0xdf41"')
    ).snapshot
    plain = redacted(snapshot).machine
    text = as_nccl_xml(redacted(snapshot)).text
    for secret in ("node17", "0xdf41", "0xf01cbc0103dd6838", "3868:dd03"):
        assert secret not in text
        assert secret not in encode(redacted(snapshot)).decode()
    assert 'name="mlx5_0"' in text
    assert 'busid="0000:01:00.0"' in text
    # It is still a topology that can be read.
    assert read_topology(text.encode(), "redacted") == plain.nccl_topology


def test_zero_is_no_identity() -> None:
    snapshot = load([str(TOPOLOGIES / "real.xml")]).snapshot
    assert 'guid="0x0"' in as_nccl_xml(redacted(snapshot)).text


# The network devices of a detected topology XML: which ones, where, and their figures.
def test_ports_of_one_card_become_one_device() -> None:
    detected = found(made("epyc-root-ports"))
    card = [net for net in nets(detected.element) if net["name"] in ("mlx5_0", "mlx5_1")]
    assert [net["port"] for net in card] == ["1", "2"]
    assert card[0]["guid"] == card[1]["guid"]
    assert sum(1 for one, _ in pcis(detected.element) if one.startswith("0000:21:")) == 1
    assert len(nets(found(made("epyc-root-ports"), NCCL_IB_MERGE_VFS="0").element)) == 5


def test_sockets_leave_out_docker_and_lo() -> None:
    element = found(machine()).element
    assert [(net["name"], net["dev"], net["guid"]) for net in nets(element)] == [
        ("eth0", "0", "0x0"),
        ("eth1", "1", "0x1"),
    ]
    tree = dict(pcis(element))
    assert tree["0000:02:00.1"] == "cpu 0"


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("eth1", ["eth1"]),
        ("^eth0", ["docker0", "eth1", "lo"]),
        ("=eth", []),
        ("lo", ["lo"]),
        ("e", ["eth0", "eth1"]),
    ],
)
def test_interfaces_that_are_asked_for(wanted: str, names: list[str]) -> None:
    detected = found(machine(), NCCL_SOCKET_IFNAME=wanted)
    # One letter is no list to NCCL, so "e" is as if nothing were set.
    assert [net["name"] for net in nets(detected.element)] == names
    assert any("matches no interface" in text for text in detected.assumptions) == (names == [])


def test_ib_interfaces_come_first_and_lo_last() -> None:
    both = machine(interfaces=(interface("ib0", None), interface("eth0", None)))
    assert [net["name"] for net in nets(found(both).element)] == ["ib0"]
    only = machine(interfaces=(interface("lo", None), interface("virbr0", None)))
    assert [net["name"] for net in nets(found(only).element)] == ["lo"]
    none = found(machine(interfaces=()))
    assert [net["name"] for net in nets(none.element)] == ["eth0"]
    assert any("No network interface" in text for text in none.assumptions)


def test_a_virtual_interface_hangs_on_the_cpu() -> None:
    one = interface("eth0", "0000:02:00.0")
    virtio = msgspec.structs.replace(one, driver="virtio_net")
    cpu = next(found(machine(interfaces=(virtio,))).element.each("cpu"))
    assert [child.tag for child in cpu.children] == ["pci", "nic"]


def test_rdma_ports_that_are_active_and_chosen() -> None:
    down = RdmaPort(port=1, state="DOWN", link_layer="InfiniBand")
    rdma = (
        adapter("mlx5_0", "0000:02:00.0", guid="3868:dd03:01bc:1cf0"),
        adapter("mlx5_1", "0000:02:00.1", guid="3868:dd03:01bc:1cf1"),
        adapter("mlx5_2", "0000:02:00.1", ports=(down,)),
    )
    element = found(machine(rdma=rdma)).element
    assert [(net["name"], net["speed"], net["port"], net["guid"]) for net in nets(element)] == [
        ("mlx5_0", "200000", "1", "0xf01cbc0103dd6838"),
        ("mlx5_1", "200000", "2", "0xf01cbc0103dd6838"),
    ]
    assert "0000:02:00.1" not in dict(pcis(element))
    for variables, names in (
        ({"NCCL_IB_DISABLE": "1"}, ["eth0", "eth1"]),
        ({"NCCL_NET": "Socket"}, ["eth0", "eth1"]),
        ({"NCCL_IB_HCA": "mlx5_1:1"}, ["mlx5_1"]),
        ({"NCCL_IB_HCA": "^=mlx5_1"}, ["mlx5_0"]),
        ({"NCCL_IB_HCA": "=mlx5"}, ["eth0", "eth1"]),
    ):
        assert [
            net["name"] for net in nets(found(machine(rdma=rdma), **variables).element)
        ] == names


def test_gdr_needs_peer_memory_or_dmabuf() -> None:
    rdma = (adapter("mlx5_0", "0000:02:00.0"),)

    def gdr(given: Host, **variables: str) -> tuple[str, bool]:
        detected = found(machine(rdma=rdma, host=given), **variables)
        (net,) = nets(detected.element)
        return net["gdr"], any("NICs is assumed" in text for text in detected.assumptions)

    assert gdr(Host(modules=(Module(name="nvidia_peermem"),))) == ("1", False)
    assert gdr(Host(modules=())) == ("0", False)
    open_ = Host(modules=(), nvidia_module="open", kernel="6.8.0-60-generic")
    assert gdr(open_)[0] == "1"
    assert gdr(open_, NCCL_DMABUF_ENABLE="0")[0] == "0"
    assert gdr(Host(modules=(), nvidia_module="open", kernel="5.4.0"))[0] == "0"
    assert gdr(Host(modules=(), nvidia_module="closed", kernel="6.8.0"))[0] == "0"


def test_an_efa_adapter_is_for_a_plugin() -> None:
    port = RdmaPort(port=1, state="ACTIVE", rate_gbit=100.0)
    rdma = (adapter("rdmap0s6", "0000:02:00.0", kind="efa", ports=(port,)),)
    detected = found(machine(rdma=rdma))
    assert [net["name"] for net in nets(detected.element)] == ["rdmap0s6"]
    assert any("aws-ofi-nccl" in text for text in detected.assumptions)
    without = found(machine(rdma=rdma), NCCL_NET_PLUGIN="none")
    assert [net["name"] for net in nets(without.element)] == ["eth0", "eth1"]


@pytest.mark.parametrize(
    ("wanted", "name", "port", "chosen"),
    [
        ("", "eth0", -1, True),
        ("eth", "eth0", -1, True),
        ("=eth", "eth0", -1, False),
        ("^eth", "eth0", -1, False),
        ("^docker,lo", "eth0", -1, True),
        ("^", "eth0", -1, False),
        ("mlx5_0:1", "mlx5_0", 1, True),
        ("mlx5_0:2", "mlx5_0", 1, False),
        ("^=mlx5_0:1,mlx5_1", "mlx5_1", 1, False),
        ("^=mlx5_0:1,mlx5_1", "mlx5_10", 1, True),
        ("a,,b", "b0", -1, True),
    ],
)
def test_lists_of_names(wanted: str, name: str, port: int, chosen: bool) -> None:
    assert listed(wanted, name, port) == chosen


def test_a_virtual_nic_is_seen_from_each_socket() -> None:
    two = machine(
        gpus=(gpu(), gpu("0000:81:00.0", index=1)),
        pci=(
            PciDevice(address="0000:01:00.0", parent="pci0000:00", numa_node=0),
            PciDevice(address="0000:81:00.0", parent="pci0000:80", numa_node=1),
        ),
        interfaces=(interface("bond0", None),),
    )
    element = found(two).element
    # Each rank puts it below the first CPU that it knows, its own (ncclTopoFillNet).
    assert [[child.tag for child in cpu.children] for cpu in element.each("cpu")] == [
        ["pci", "nic"],
        ["pci", "nic"],
    ]
