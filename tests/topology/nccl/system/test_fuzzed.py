"""What random topologies showed to differ from NCCL 2.28.9's own graph code, one test each."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.nodes import (
    CPU,
    GPU,
    PCI,
    PCIE,
    PathType,
    SystemLink,
    SystemNode,
    SystemPath,
)
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.system.build import connect, parents_last
from gputop.topology.nccl.system.paths import local_cpu
from gputop.topology.nccl.versions import version_for
from tests.topology.nccl.made import ARM, SWITCH, cpu, decide, gpu, nic, switch, system


def plain_nic(dev: int) -> str:
    """A NIC without a PCI device of its own."""
    return (
        f'<nic><net name="mlx5_{dev}" dev="{dev}" speed="100000" port="1" guid="0x{dev + 1:x}" '
        'gdr="0"/></nic>'
    )


def to_nic(found: Prediction, rank: int, net: int) -> tuple[int, float, str]:
    return next(
        decision.to
        for decision in found.views[0].nets
        if (decision.rank, decision.net) == (rank, net)
    )


def test_nics_without_pci_are_one_node_beside_the_first_cpu_that_has_one() -> None:
    found = decide(system(cpu(0, gpu(1, 0), plain_nic(0)), cpu(1, gpu(2, 1), plain_nic(1))))
    assert to_nic(found, 0, 0) == to_nic(found, 0, 1) == (3, 12.5, "PHB")
    assert [to_nic(found, 1, net)[2] for net in (0, 1)] == ["SYS", "SYS"]


@pytest.mark.parametrize(("value", "transport"), [("1", "SHM"), ("2", "SHM"), ("0", "P2P")])
def test_copy_engines_rule_out_relays_for_any_number_but_zero(value: str, transport: str) -> None:
    """A chain of three GPUs: the ends reach each other through the middle one."""
    near, far = ("0000:01:00.0", 1, "0x030200"), ("0000:03:00.0", 1, "0x030200")
    middle = ("0000:02:00.0", 1, "0x030200")
    xml = system(
        cpu(0, gpu(1, 0, [middle], sm=70)),
        cpu(1, gpu(2, 1, [near, far], sm=70), gpu(3, 2, [middle], sm=70)),
    )
    pair = decide(xml, {"NCCL_P2P_USE_CUDA_MEMCPY": value}).pair(0, 2)
    assert pair is not None
    assert (pair.path, pair.transport) == ("NVB", transport)


def test_a_link_without_its_way_back_is_refused() -> None:
    failure = decide(
        system(cpu(0, gpu(1, 0, [("0000:02:00.0", 1, "0x030200")]), gpu(2, 1)))
    ).failure
    assert failure is not None
    assert "none back" in failure


def test_a_one_way_link_is_refused_also_where_the_host_is_split() -> None:
    xml = system(cpu(0, gpu(1, 0, [("0000:02:00.0", 1, "0x030200")]), gpu(2, 1), nic(9, 0)))
    failure = decide(xml, {"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}).failure
    assert failure is not None
    assert "none back" in failure


def test_relays_behind_nvlink_to_the_cpu_are_refused() -> None:
    """NVLink goes to the CPU only, so that the relay's path has no GPU as its first stop."""
    up = ("0004:04:00.0", 3, "0x068001")
    slow = '<pci busid="0000:0a:00.0" class="0x060400" link_speed="8.0 GT/s PCIe" link_width="16">'
    xml = system(
        cpu(0, f"{slow}{gpu(1, 0, [up], sm=70)}{nic(9, 0)}</pci>", gpu(2, 1, [up], sm=70), kind=ARM)
    )
    failure = decide(xml, nodes=2).failure
    assert failure is not None
    assert "NCCL_PXN_DISABLE" in failure
    assert decide(xml, {"NCCL_PXN_DISABLE": "1"}, nodes=2).failure is None


@pytest.mark.parametrize(("text", "width"), [("MAX:+2", 2), ("MAX: 2x", 2), ("MAX:-2", 1)])
def test_the_limit_of_nics_is_read_like_atoi(text: str, width: int) -> None:
    inside = (gpu(1, 0), gpu(2, 1), gpu(3, 2), nic(9, 0), nic(10, 1), nic(11, 2))
    found = decide(system(cpu(0, *inside)), {"NCCL_NETDEVS_POLICY": text}, nodes=2)
    assert len(found.views[0].local_nets["1"]) == width


def test_switches_in_a_circle_are_noticed_and_not_followed() -> None:
    cpu_node, near, far = SystemNode(CPU, 0, 0), SystemNode(PCI, 1, 0), SystemNode(PCI, 2, 1)
    for one, other in ((cpu_node, near), (cpu_node, far), (near, far)):
        connect(one, other, PCIE, 24.0)
        connect(other, one, PCIE, 24.0)
    assert not parents_last(cpu_node, None)


@pytest.mark.parametrize(("library", "index"), [("nccl-2.28.9", 0), ("nccl-2.30.7", 1)])
def test_the_cpu_of_a_gpu_is_the_nearest_or_since_2_30_7_the_widest(
    library: str, index: int
) -> None:
    target = SystemNode(GPU, 1, 0)
    link = SystemLink(PCIE, 12.0, target)
    target.paths[CPU] = [
        SystemPath(PathType.PHB, 6.0, (link,)),
        SystemPath(PathType.SYS, 12.0, (link, link)),
    ]
    assert local_cpu(target, version_for(library)[0]) == index


@pytest.mark.parametrize(("library", "hops"), [("nccl-2.28.9", 4), ("nccl-2.30.7", 7)])
def test_a_relay_adds_two_device_nodes_where_gpus_hang_off_them(library: str, hops: int) -> None:
    """GPU - GPU - switch - NIC - port; NCCL 2.30.7 prints the hops with its device nodes."""
    there, back = ("0000:02:00.0", 4, "0x030200"), ("0000:01:00.0", 4, "0x030200")
    near = switch(8, gpu(1, 0, [there]), nic(9, 0))
    xml = system(cpu(0, near), cpu(1, gpu(2, 1, [back])))
    found = decide(xml, nodes=2, library=library)
    assert to_nic(found, 1, 0)[::2] == (hops, "PXN")


def test_gpus_of_two_hosts_without_nvlink_still_have_the_network() -> None:
    """NCCL_NET_DISABLE_INTRA keeps it out of one host only."""
    switched = [("0000:ff:00.0", 18, SWITCH)]
    xml = system(
        cpu(0, gpu(1, 0, switched), nic(8, 0)),
        cpu(0, gpu(1, 1), nic(8, 0), host="0x2"),
    )
    pair = decide(xml, {"NCCL_NET_DISABLE_INTRA": "1"}).pair(0, 1)
    assert pair is not None
    assert pair.transport == "NET"
    assert pair.steps[0].answer == "no"


@pytest.mark.parametrize(("nics", "mirrored"), [(2, True), (3, False), (4, True)])
def test_bits_are_mirrored_only_for_a_power_of_two(nics: int, mirrored: bool) -> None:
    inside = (gpu(1, 0), gpu(2, 1), *(nic(8 + place, place) for place in range(nics)))
    found = decide(system(cpu(0, *inside)), nodes=2)
    assert ("mirrored" in found.views[0].steps["local_nets"][0].because) == mirrored


def test_an_ignored_level_is_named_where_it_would_have_counted() -> None:
    xml = system(cpu(0, gpu(1, 0), gpu(2, 1), nic(8, 0)))
    found = decide(xml, {"NCCL_NET_GDR_LEVEL": "sys"}, nodes=2)
    assert any("sys is ignored" in step.because for step in found.views[0].nets[0].steps)
