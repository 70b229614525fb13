"""Filters of devices against the devices of a node."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.topology.flags.account.overview import overview
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.values.fits import Fit, fit, matching
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.machine import Machine
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Interface, RdmaDevice

NAMES = ["eth0", "eth1", "ib0", "docker0", "eth10"]
ADDRESSES = {"eth0": ("10.1.0.7/16", "fe80::1/64"), "ib0": ("fd00::7/64",)}
NODE = NodeSnapshot(
    taken_at=0.0,
    machine=Machine(
        interfaces=(
            *(Interface(name=name, ips=ADDRESSES.get(name, ())) for name in NAMES),
            Interface(name="off0", up=False),
        ),
        rdma=(RdmaDevice(name="mlx5_1"), RdmaDevice(name="mlx5_10"), RdmaDevice(name="mlx5_2")),
    ),
)


def fitting(name: str, value: str, node: NodeSnapshot = NODE) -> Fit | None:
    flag = catalogue().flag(name)
    assert flag is not None
    return fit(flag, value, node)


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
    found = fitting("NCCL_SOCKET_IFNAME", "bond0")
    assert found is not None
    assert found.fatal
    assert "matches no interface of this node (eth0, eth1" in found.sentence
    assert "off0" not in found.sentence


def test_a_prefix_shows_what_else_it_takes() -> None:
    found = fitting("NCCL_IB_HCA", "mlx5_1")
    assert found is not None
    assert found.sentence == "On this node it leaves mlx5_1, mlx5_10 of 3 RDMA devices."
    missing = fitting("NCCL_IB_HCA", "bnxt")
    assert missing is not None
    assert not missing.fatal


def test_without_a_list_nothing_is_said() -> None:
    assert fitting("NCCL_SOCKET_IFNAME", "eth0", NodeSnapshot(taken_at=0.0)) is None
    assert fitting("NCCL_ALGO", "Ring") is None


def test_the_overview_says_it() -> None:
    study = Study(NODE, values={"NCCL_SOCKET_IFNAME": "bond0"})
    (entry,) = overview(study, {})
    assert entry.status == "fatal"
    assert overview(Study(replace(NODE), values={"NCCL_SOCKET_IFNAME": ""}), {})[0].status == (
        "ignored"
    )


@pytest.mark.parametrize(
    ("name", "value", "said", "fatal"),
    [
        ("GLOO_SOCKET_IFNAME", "eth0", "On this node it leaves eth0 of 5 interfaces.", False),
        ("GLOO_SOCKET_IFNAME", "eth", "It names no interface of this node (eth0, eth1", True),
        ("GLOO_SOCKET_IFNAME", "eth0,en7", "It names en7, which is no interface of", True),
        ("UCX_NET_DEVICES", "mlx5_1:1", "leaves mlx5_1:1 of 8 network devices.", False),
        ("UCX_NET_DEVICES", "mlx5_1", "; before UCX 1.21 it must be written mlx5_1:1.", False),
        ("UCX_NET_DEVICES", "eth0,ib0", "leaves eth0, ib0 of 8", False),
        ("UCX_NET_DEVICES", "mlx4_0:1", "names no network device of this node (mlx5_1:1", False),
        ("NVSHMEM_HCA_LIST", "mlx5_2:1", "leaves mlx5_2 of 3 RDMA devices.", False),
        ("NVSHMEM_HCA_PE_MAPPING", "mlx5_2:1:4", "leaves mlx5_2 of 3 RDMA devices.", False),
        ("NVSHMEM_HCA_LIST", "^mlx5_2", "leaves mlx5_1, mlx5_10 of 3", False),
        ("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "eth", "leaves eth0, eth1, eth10 of 5", False),
        ("OMPI_MCA_btl_tcp_if_include", "bond0", "no interface for TCP left", False),
        ("VLLM_HOST_IP", "10.1.0.7", "This node has that address.", False),
        ("VLLM_HOST_IP", "10.9.9.9", "names no address of this node (10.1.0.7, fd00::7)", False),
        ("SGLANG_LOCAL_IP_NIC", "en0", "names no interface of this node", True),
    ],
)
def test_names_of_other_programs_are_looked_up_here(
    name: str, value: str, said: str, fatal: bool
) -> None:
    found = fitting(name, value)
    assert found is not None
    assert said in found.sentence
    assert found.fatal == fatal


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UCX_NET_DEVICES", "all"),
        ("UCX_NET_DEVICES", "mlx5_[0-3]:1"),
        ("OMPI_MCA_btl_tcp_if_include", "10.0.0.0/8"),
        ("VLLM_HOST_IP", "node-7"),
        ("VLLM_NIXL_SIDE_CHANNEL_HOST", "0.0.0.0"),
        ("VLLM_PORT", "80"),
    ],
)
def test_what_cannot_be_compared_is_not_judged(name: str, value: str) -> None:
    assert fitting(name, value) is None
