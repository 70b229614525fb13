"""Filters of devices against the devices of a node."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.topology.flags.account.overview import overview
from gputop.topology.flags.values.fits import fit, matching
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.machine import Machine
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Interface, RdmaDevice

NAMES = ["eth0", "eth1", "ib0", "docker0", "eth10"]
NODE = NodeSnapshot(
    taken_at=0.0,
    machine=Machine(
        interfaces=(*(Interface(name=name) for name in NAMES), Interface(name="off0", up=False)),
        rdma=(RdmaDevice(name="mlx5_1"), RdmaDevice(name="mlx5_10"), RdmaDevice(name="mlx5_2")),
    ),
)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("eth", ["eth0", "eth1", "eth10"]),
        ("=eth1", ["eth1"]),
        ("eth1", ["eth1", "eth10"]),
        ("^docker,ib", ["eth0", "eth1", "eth10"]),
        ("^=eth1", ["eth0", "ib0", "docker0", "eth10"]),
        ("=eth0:1,ib0", ["eth0", "ib0"]),
        ("bond", []),
    ],
)
def test_a_filter_leaves_what_nccl_would_take(value: str, left: list[str]) -> None:
    assert matching(value, NAMES) == left


def test_an_interface_that_is_not_there_ends_the_start() -> None:
    found = fit("NCCL_SOCKET_IFNAME", "bond0", NODE)
    assert found is not None
    assert found.fatal
    assert "matches no interface of this node (eth0, eth1" in found.sentence
    assert "off0" not in found.sentence


def test_a_prefix_shows_what_else_it_takes() -> None:
    found = fit("NCCL_IB_HCA", "mlx5_1", NODE)
    assert found is not None
    assert found.sentence == "On this node it leaves mlx5_1, mlx5_10 of 3 RDMA devices."
    missing = fit("NCCL_IB_HCA", "bnxt", NODE)
    assert missing is not None
    assert not missing.fatal


def test_without_a_list_nothing_is_said() -> None:
    assert fit("NCCL_SOCKET_IFNAME", "eth0", NodeSnapshot(taken_at=0.0)) is None
    assert fit("NCCL_ALGO", "Ring", NODE) is None


def test_the_overview_says_it() -> None:
    study = Study(NODE, values={"NCCL_SOCKET_IFNAME": "bond0"})
    (entry,) = overview(study, {})
    assert entry.status == "fatal"
    assert overview(Study(replace(NODE), values={"NCCL_SOCKET_IFNAME": ""}), {})[0].status == (
        "ignored"
    )
