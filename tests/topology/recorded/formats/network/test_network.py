"""What people paste about RDMA devices, with the facts that a person reads off it."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.network.rdma import PORT_DOWN
from gputop.topology.model.machine import Machine
from gputop.topology.model.surroundings import RdmaDevice
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "pasted"


def machine(name: str | Path) -> Machine:
    return load([str(FOLDER / name)]).snapshot.machine


def ports(found: Machine) -> list[tuple[str, str | None, float | None, str | None]]:
    return [
        (device.name, port.state, port.rate_gbit, port.link_layer)
        for device in found.rdma
        for port in device.ports
    ]


def named(found: Machine, name: str) -> RdmaDevice:
    return next(device for device in found.rdma if device.name == name)


def test_ibstat() -> None:
    found = machine("a100-ibstat.txt")
    assert ports(found) == [
        ("mlx5_0", "ACTIVE", 200.0, "InfiniBand"),
        ("mlx5_1", "DOWN", 10.0, "InfiniBand"),
        ("mlx5_2", "ACTIVE", 25.0, "Ethernet"),
    ]
    first = found.rdma[0]
    assert (first.firmware, first.guid, first.kind) == (
        "20.33.1048",
        "0x1070fd0300aaaa80",
        "infiniband",
    )
    assert found.rdma[1].ports[0].physical_state == "Disabled"
    assert (found.rdma[2].kind, first.why("address")) == ("roce", "not in ibstat")


def test_ibstatus() -> None:
    found = machine("roce-ibstatus.txt")
    assert ports(found) == [
        ("mlx5_0", "ACTIVE", 100.0, "Ethernet"),
        ("mlx5_11", "DOWN", 10.0, "InfiniBand"),
    ]
    assert [d.ports[0].physical_state for d in found.rdma] == ["LinkUp", "Disabled"]


def test_ibdev2netdev() -> None:
    found = machine("h100-ibdev2netdev.txt")
    assert [(d.name, d.interfaces) for d in found.rdma] == [
        ("mlx5_0", ("ibp26s0",)),
        ("mlx5_1", ("enp27s0f0np0",)),
        ("mlx5_10", ("ibp204s0",)),
    ]
    # Down is the IPoIB interface, which says nothing of the port.
    assert {p.state for d in found.rdma for p in d.ports} == {None}
    assert [(i.name, i.up) for i in found.interfaces] == [
        ("ibp26s0", False), ("enp27s0f0np0", True), ("ibp204s0", False),
    ]  # fmt: skip


def test_ibdev2netdev_with_addresses() -> None:
    found = machine("cx-ibdev2netdev-v.txt")
    assert [(d.name, d.address, d.firmware, d.ports[0].state) for d in found.rdma] == [
        ("mlx5_0", "0000:31:00.0", "14.27.1016", "DOWN"),
        ("mlx5_2", "0000:4b:00.0", "16.27.1016", "ACTIVE"),
    ]


def test_rdma_link() -> None:
    found = machine("gb10-rdma-link.txt")
    assert [(d.name, d.ports[0].state, d.interfaces) for d in found.rdma] == [
        ("rocep1s0f0", "ACTIVE", ("enp1s0f0np0",)),
        ("rocep1s0f1", "DOWN", ("enp1s0f1np1",)),
        ("mlx5_0", "ACTIVE", ()),
        ("mlx5_9", "DOWN", ("ens803f0",)),
    ]
    assert named(found, "mlx5_0").kind == "infiniband"


def test_show_gids() -> None:
    found = machine("roce-show-gids.txt")
    assert [(d.name, d.kind, d.interfaces) for d in found.rdma] == [
        ("mlx5_0", "roce", ("ens11f0np0",)),
        ("mlx5_bond_0", "roce", ("bond0",)),
    ]
    assert [(i.name, i.ips) for i in found.interfaces] == [
        ("ens11f0np0", ("10.61.13.41",)),
        ("bond0", ("10.61.10.41",)),
    ]
    gids = [(gid.index, gid.version, gid.gid[-4:]) for gid in found.rdma[0].ports[0].gids]
    assert gids == [(0, "v1", "0001"), (3, "v2", "0d29")]


def test_texts_about_one_device_are_joined_with_a_matrix(tmp_path: Path) -> None:
    topo = (
        "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nNIC0\tPIX\t X\n\n"
        "NIC Legend:\n\n  NIC0: mlx5_0\n\n"
    )
    link = "0000:4b:00.0 mlx5_0 (MT4119 - X) CX515A - Y fw 16.27 port 1 (ACTIVE) ==> ib0 (Up)\n"
    path = tmp_path / "paste.txt"
    state = "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ib0\n"
    path.write_text(state + topo + (FOLDER / "a100-ibstat.txt").read_text() + link)
    found = machine(path)
    nic = named(found, "mlx5_0")
    assert (nic.address, nic.ports[0].rate_gbit, nic.interfaces) == (
        "0000:4b:00.0",
        200.0,
        ("ib0",),
    )
    first = found.relations[0]
    assert (first.a, first.b, first.code) == ("topo:GPU0", "mlx5_0", "PIX")


def test_a_port_that_is_down_beside_others_of_its_chip(tmp_path: Path) -> None:
    lspci = "18:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB]\n"
    path = tmp_path / "paste.txt"
    text = (FOLDER / "a100-ibstat.txt").read_text()
    third = "CA 'mlx5_3'" + text.split("CA 'mlx5_0'")[1].split("CA 'mlx5_1'")[0]
    path.write_text(lspci + text + third)
    (finding,) = PORT_DOWN.answer(Case(Node(load([str(path)]).snapshot))) or ()
    assert finding.title == "port of mlx5_1 is down, and 2 like it are up"
    assert finding.evidence[0].value == "DOWN, Disabled"
    path.write_text(lspci + text + third.replace("4123", "1"))
    (finding,) = PORT_DOWN.answer(Case(Node(load([str(path)]).snapshot))) or ()
    assert finding.severity == "notice"  # one of two: nobody knows that it should be up
