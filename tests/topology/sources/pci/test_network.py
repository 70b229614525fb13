"""Interfaces and RDMA devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.part import PartialNode
from gputop.topology.model.surroundings import Interface, RdmaDevice
from gputop.topology.sources.files.tree import FolderTree, live_tree
from gputop.topology.sources.pci import network
from tests.support.places import RECORDINGS

parse = network.SOURCE.parse
PORT = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "InfiniBand",
    "lid": "0x11",
}


def interface(name: str = "eth0", **raw: Any) -> Interface:
    (found,) = parse({"absent": "not there", "interfaces": {name: raw}}).interfaces
    return found


def rdma(**raw: Any) -> RdmaDevice:
    (found,) = parse({"absent": "not there", "rdma": {"dev0": raw}}).rdma
    return found


def recorded() -> PartialNode:
    return parse(json.loads((RECORDINGS / "two-socket-switches/network.json").read_text()))


def test_the_recorded_machine() -> None:
    part = recorded()
    by_name = {device.name: device for device in part.rdma}
    assert len(by_name) == 9
    first = by_name["mlx5_0"]
    assert (first.address, first.kind, first.numa_node) == ("0000:1a:00.0", "infiniband", 0)
    assert (first.driver, first.interfaces) == ("mlx5_core", ("ib0",))
    (port,) = first.ports
    assert (port.state, port.physical_state, port.rate_gbit) == ("ACTIVE", "LinkUp", 400.0)
    assert by_name["mlx5_2"].kind == "roce"
    interfaces = {interface.name: interface for interface in part.interfaces}
    assert (interfaces["ib0"].kind, interfaces["ib0"].speed_mbps) == ("infiniband", 400000)
    assert interfaces["eth0"].ips == ("192.0.2.10/24",)
    assert (interfaces["lo"].kind, interfaces["lo"].up) == ("loopback", True)
    assert interfaces["lo"].address is None


@pytest.mark.parametrize(
    ("name", "raw", "kind"),
    [
        ("eth0", {"type": "1", "path": "pci0000:00/0000:00:03.0/net/eth0"}, "ethernet"),
        ("ib0", {"type": "32"}, "infiniband"),
        ("lo", {"type": "772", "path": "virtual/net/lo"}, "loopback"),
        ("br0", {"type": "1", "path": "virtual/net/br0", "uevent": "DEVTYPE=bridge"}, "bridge"),
        ("bond0", {"type": "1", "uevent": "INTERFACE=bond0\nDEVTYPE=bond"}, "bond"),
        ("veth1", {"type": "1", "path": "virtual/net/veth1"}, "veth"),
        ("dummy0", {"type": "1", "path": "virtual/net/dummy0"}, "virtual"),
        ("odd", {"type": "9999"}, None),
    ],
)
def test_kinds_of_interfaces(name: str, raw: dict[str, str], kind: str | None) -> None:
    assert interface(name, **raw).kind == kind


@pytest.mark.parametrize(
    ("state", "link_flags", "up"),
    [
        ("up", "0x0", True),
        ("down", "0x1003", False),
        ("lowerlayerdown", "0x1003", False),
        ("unknown", "0x9", True),
        ("unknown", "0x8", False),
    ],
)
def test_up_or_down(state: str, link_flags: str, up: bool) -> None:
    assert interface(operstate=state, flags=link_flags).up is up


@pytest.mark.parametrize("speed", ["-1", "4294967295", "0"])
def test_an_unknown_speed_is_a_gap(speed: str) -> None:
    found = interface(speed=speed)
    assert found.speed_mbps is None
    assert speed in (found.why("speed_mbps") or "")


def test_a_virtio_interface_knows_its_pci_device() -> None:
    found = interface(path="pci0000:00/0000:00:03.0/virtio2/net/eth0", driver="virtio_net")
    assert found.address == "0000:00:03.0"


def test_kinds_of_rdma_devices() -> None:
    ethernet = {"1": {**PORT, "link_layer": "Ethernet"}}
    assert rdma(ports={"1": PORT}, driver="mlx5_core").kind == "infiniband"
    assert rdma(ports=ethernet, driver="bnxt_en").kind == "roce"
    unspecified = {"1": {**PORT, "link_layer": "Unspecified"}}
    assert rdma(ports=unspecified, driver="efa").kind == "efa"
    assert rdma(ports=unspecified, vendor="0x1d0f").kind == "efa"
    assert rdma(ports=unspecified).kind == "rdma"
    assert rdma().ports == ()


def test_a_port_without_rate_or_right() -> None:
    (port,) = rdma(ports={"1": {"rate": "strange", "state": {"error": "no permission"}}}).ports
    assert (port.rate_gbit, port.state) == (None, None)
    assert port.why("state") == "no permission"
    assert port.why("rate_gbit") == "no rate in 'strange'"
    assert port.why("link_layer") == "not there"


def test_reading_a_tree_with_an_adapter(tmp_path: Path) -> None:
    device = tmp_path / "sys/devices/pci0000:15/0000:15:01.0/0000:1a:00.0"
    port = device / "infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    for name, text in PORT.items():
        (port / name).write_text(text + "\n")
    (device / "net/ib0").mkdir(parents=True)
    (device / "net/ib0/type").write_text("32\n")
    (device / "net/ib0/operstate").write_text("up\n")
    (device / "numa_node").write_text("0\n")
    (device / "vendor").write_text("0x15b3\n")
    (device / "driver").symlink_to("../../../../bus/pci/drivers/mlx5_core")
    (device / "infiniband/mlx5_0/device").symlink_to("../..")
    (device / "net/ib0/device").symlink_to("../..")
    for kind, name in (("infiniband", "mlx5_0"), ("net", "ib0")):
        folder = tmp_path / "sys/class" / kind
        folder.mkdir(parents=True)
        place = f"pci0000:15/0000:15:01.0/0000:1a:00.0/{kind}/{name}"
        (folder / name).symlink_to(f"../../devices/{place}")
    (tmp_path / "sys/class/net/bonding_masters").write_text("")
    reader = network.NetworkReader(FolderTree(tmp_path))
    part = parse(reader())
    (adapter,) = part.rdma
    assert (adapter.address, adapter.driver, adapter.numa_node) == ("0000:1a:00.0", "mlx5_core", 0)
    assert adapter.interfaces == ("ib0",)
    assert adapter.ports[0].rate_gbit == 400.0
    (net,) = part.interfaces
    assert (net.name, net.address, net.driver) == ("ib0", "0000:1a:00.0", "mlx5_core")
    (port / "state").write_text("1: DOWN\n")
    (device / "net/ib0/operstate").write_text("down\n")
    part = parse(reader())
    assert part.rdma[0].ports[0].state == "DOWN"
    assert part.interfaces[0].up is False


@pytest.mark.parametrize(
    ("address", "netmask", "expected"),
    [
        ("10.0.0.1", "255.255.240.0", "10.0.0.1/20"),
        ("fe80::1", "ffff:ffff:ffff:ffff::", "fe80::1/64"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("fe80::1", "ffff:rubbish", "fe80::1"),
    ],
)
def test_addresses_with_their_prefix(address: str, netmask: str | None, expected: str) -> None:
    assert network._with_prefix(address, netmask) == expected


def test_the_live_machine_has_addresses() -> None:
    raw = network.read(live_tree())
    json.dumps(raw)
    part = parse(raw)
    loopback = next((interface for interface in part.interfaces if interface.name == "lo"), None)
    if loopback is None:
        pytest.skip("no loopback here")
    assert all("%" not in ip for interface in part.interfaces for ip in interface.ips)
