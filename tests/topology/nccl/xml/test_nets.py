"""The network devices of a detected topology XML: which ones, where, and their figures."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.model.machine import PciDevice
from gputop.topology.model.surroundings import Host, Module, RdmaPort
from gputop.topology.nccl.xml.names import listed
from tests.topology.nccl.xml.made import adapter, found, gpu, interface, machine, made, nets, pcis


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
