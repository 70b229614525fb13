"""Ports, distances, RDMA to GPU memory and the interface of the sockets, with odd inputs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.network import rdma, sockets
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW
from gputop.topology.model.surroundings import Interface, RdmaDevice, RdmaPort
from gputop.topology.node import Node
from tests.support.rule_cases import base

H100, H200 = "demo hgx-h100-8", "hgx-h200-4gpu-live"


def case(name: str = H100, **machine: Any) -> Case:
    whole = base(name)
    host = {key[5:]: machine.pop(key) for key in list(machine) if key.startswith("host_")}
    changed = msgspec.structs.replace(whole.machine, **machine)
    if host:
        assert changed.host is not None
        changed = msgspec.structs.replace(
            changed, host=msgspec.structs.replace(changed.host, **host)
        )
    return Case(Node(msgspec.structs.replace(whole, machine=changed)))


def port(state: str | None, rate: float | None = 400.0, number: int = 1) -> RdmaPort:
    return RdmaPort(port=number, state=state, rate_gbit=rate, link_layer="InfiniBand")


def nic(name: str, *ports: RdmaPort, **rest: Any) -> RdmaDevice:
    given = {"kind": "infiniband", "board_id": "B", "driver": "mlx5_core", "address": None, **rest}
    return RdmaDevice(name=name, ports=ports, **given)


def findings(rule: Any, case: Case) -> list[tuple[str, str]]:
    return [(finding.severity, finding.title) for finding in rule.answer(case) or ()]


@pytest.mark.parametrize("rule", [rdma.PORT_DOWN, rdma.PORT_SLOW, rdma.NIC_FAR])
def test_without_rdma_there_is_nothing_to_find_and_unread_is_not_examined(rule: Any) -> None:
    assert rule.answer(case(rdma=())) == ()
    assert rule.answer(case(rdma=(), interfaces=())) is None


def test_unknown_states_and_rates_count_as_nothing() -> None:
    unknown = (nic("a", port(None, None)), nic("b", port(None, None)))
    assert rdma.PORT_DOWN.answer(case(rdma=unknown)) is None
    assert rdma.PORT_SLOW.answer(case(rdma=unknown)) is None
    some = (nic("a", port("ACTIVE", None)), nic("b", port("ACTIVE")), nic("c", port(None)))
    assert findings(rdma.PORT_DOWN, case(rdma=some)) == []
    assert findings(rdma.PORT_SLOW, case(rdma=some)) == []


def test_ports_are_compared_with_their_like_alone() -> None:
    devices = (
        nic("a", port("ACTIVE"), port("DOWN", 10.0, 2)),
        nic("b", port("ACTIVE"), port("DOWN", 10.0, 2)),
        nic("storage", port("DOWN"), board_id="S"),
        nic("unknown", port("DOWN"), board_id=None, driver=None),
    )
    assert findings(rdma.PORT_DOWN, case(rdma=devices)) == []
    more = (*devices, nic("c", port("DOWN")))
    assert findings(rdma.PORT_DOWN, case(rdma=more)) == [
        (SLOW, "port of c is down, and 2 like it are up")
    ]
    most = (nic("a", port("ACTIVE")), nic("b", port("DOWN")), nic("c", port("DOWN")))
    assert [s for s, _ in findings(rdma.PORT_DOWN, case(rdma=most))] == [NOTICE]


def test_a_vm_s_tree_says_nothing_of_distances() -> None:
    kept = base(H100).machine.rdma[1:]
    assert [s for s, _ in findings(rdma.NIC_FAR, case(rdma=kept))] == [SLOW]
    assert rdma.NIC_FAR.answer(case(rdma=kept, host_hypervisor="KVM")) is None
    assert findings(rdma.NIC_FAR, case(rdma=base(H100).machine.rdma)) == []


@pytest.mark.parametrize(
    ("peers", "kernel", "module", "said"),
    [
        (("nv_mem",), None, None, []),
        (("nv_mem_nc",), "4.18.0", "closed", []),
        ((), "6.8.0", "open", []),
        ((), "5.12.0-rc1", "open", []),
        ((), "5.11.22", "open", [SLOW]),
        ((), "6.8.0", "closed", [SLOW]),
        (("amdkfd",), "6.8.0", "closed", [SLOW]),
        ((), "6.8.0", None, None),
        ((), None, "closed", None),
        ((), "nonsense", "open", None),
        (None, "6.8.0", "closed", None),
    ],
)
def test_rdma_reaches_gpu_memory_by_peer_memory_or_dmabuf(
    peers: tuple[str, ...] | None, kernel: str | None, module: str | None, said: list[str] | None
) -> None:
    seen = case(host_memory_peers=peers, host_kernel=kernel, host_nvidia_module=module)
    found = rdma.PEERMEM.answer(seen)
    assert (None if found is None else [finding.severity for finding in found]) == said


def test_a_nic_beyond_the_host_bridge_needs_no_peer_memory() -> None:
    far = tuple(
        msgspec.structs.replace(nic, address="0000:01:00.0") for nic in base(H100).machine.rdma
    )
    seen = case(rdma=far, host_memory_peers=(), host_nvidia_module="closed")
    assert rdma.PEERMEM.answer(seen) == ()
    down = tuple(
        msgspec.structs.replace(nic, ports=(port("DOWN"),)) for nic in base(H100).machine.rdma
    )
    assert rdma.PEERMEM.answer(case(rdma=down, host_memory_peers=(), host_kernel="5.4")) == ()


def running(name: str, index: int, *ips: str, **rest: Any) -> Interface:
    given = {"up": True, "kind": "ethernet", "default_route": False, **rest}
    return Interface(name=name, index=index, ips=ips, **given)


ETH = running("eth0", 3, "192.0.2.10/24", default_route=True)


@pytest.mark.parametrize(
    ("others", "wanted", "name"),
    [
        ((), "", "eth0"),
        ((running("ib0", 9, "10.0.0.1/24", kind="infiniband"),), "", "ib0"),
        ((running("docker0", 1, "172.17.0.1/16"), running("lo", 2, "127.0.0.1/8")), "", "eth0"),
        ((running("br-1", 1, "172.18.0.1/16"),), "", "br-1"),
        ((running("br-1", 1, "172.18.0.1/16"),), "=eth0", "eth0"),
        ((running("br-1", 1, "fe80::1/64"),), "", "eth0"),
        ((running("eth1", 1, "10.0.0.1/8"),), "^eth1", "eth0"),
        ((), "bond", None),
    ],
)
def test_the_interface_that_nccl_takes(
    others: tuple[Interface, ...], wanted: str, name: str | None
) -> None:
    found = sockets.chosen([ETH, *others], wanted)
    assert (found.name if found is not None else None) == name


def test_a_wrong_interface_is_reported_only_where_the_order_is_known() -> None:
    bridge = running("br-1", 1, "172.18.0.1/16", kind="bridge")
    severity = [s for s, _ in findings(sockets.INTERFACE, case(interfaces=(ETH, bridge)))]
    assert severity == [BROKEN]
    alone = case(interfaces=(ETH, bridge), rdma=())
    assert [s for s, _ in findings(sockets.INTERFACE, alone)] == [NOTICE]
    for field in ("index", "default_route"):
        unknown = msgspec.structs.replace(bridge, **{field: None})
        assert sockets.INTERFACE.answer(case(interfaces=(ETH, unknown))) is None


@pytest.mark.parametrize(
    "other",
    [
        running("eno2", 1, "10.1.0.1/16"),
        running("bond0", 1, "10.1.0.1/16", kind="bond"),
        running("odd", 1, "not an address"),
        running("br-2", 1, "172.19.0.1/16", kind="bridge", default_route=True),
        running("br-3", 1, "172.19.0.1/16", kind="bridge", up=False),
        running("br-4", 1, kind="bridge"),
    ],
)
def test_interfaces_that_may_well_be_right_are_not_reported(other: Interface) -> None:
    assert findings(sockets.INTERFACE, case(interfaces=(ETH, other))) == []


def test_a_container_has_its_own_virtual_interface_and_that_is_right() -> None:
    own = running("eth0", 2, "172.17.0.2/16", kind="veth", default_route=True)
    assert findings(sockets.INTERFACE, case(interfaces=(own,))) == []


def test_virtual_functions_and_nics_for_storage_raise_no_alarm() -> None:
    whole = base(H100)
    first, second, *rest = whole.machine.rdma
    down = msgspec.structs.replace(first, ports=(port("DOWN"),))
    slow = msgspec.structs.replace(second, ports=(port("ACTIVE", 100.0),))
    pci = tuple(
        msgspec.structs.replace(device, physical_function="0000:ca:00.0")
        if device.address in (first.address, second.address)
        else device
        for device in whole.machine.pci
    )
    virtual = case(rdma=(down, slow, *rest), pci=pci)
    assert findings(rdma.PORT_DOWN, virtual) == findings(rdma.PORT_SLOW, virtual) == []
    real = case(rdma=(down, slow, *rest))
    assert [s for s, _ in findings(rdma.PORT_DOWN, real)] == [SLOW]
    assert [s for s, _ in findings(rdma.PORT_SLOW, real)] == [SLOW]
    alone = "0000:01:00.0"  # a root port without a GPU
    storage = case(
        rdma=(
            msgspec.structs.replace(down, address=alone),
            msgspec.structs.replace(slow, address=alone),
            *rest,
        )
    )
    assert [s for s, _ in findings(rdma.PORT_DOWN, storage)] == [NOTICE]
    assert [s for s, _ in findings(rdma.PORT_SLOW, storage)] == [NOTICE]


def test_two_ports_say_nothing_of_which_is_right() -> None:
    two = (nic("a", port("ACTIVE")), nic("b", port("DOWN")))
    assert [s for s, _ in findings(rdma.PORT_DOWN, case(rdma=two))] == [NOTICE]
    rates = (nic("a", port("ACTIVE")), nic("b", port("ACTIVE", 200.0)))
    assert [s for s, _ in findings(rdma.PORT_SLOW, case(rdma=rates))] == [NOTICE]
