"""Machines that nobody here has: what only looks sick there stays silent, what is sick is reported.

Each is a demo or a recording with what was read of such a machine put in its place.
"""

from __future__ import annotations

import pytest

from gputop.topology.model.severity import NOTICE, SLOW
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

from ...support.rule_cases import diagnosed, severities
from .device_rules import at

LIVE, BOARD, CARDS = "hgx-h200-4gpu-live", "demo hgx-h100-8", "demo pcie-l40s-8"


@pytest.mark.parametrize(("name", "expected"), [("NVIDIA GB200", []), ("NVIDIA H200", [NOTICE])])
def test_grace_boards_have_no_switch_that_a_guest_could_hide(
    name: str, expected: list[str]
) -> None:
    guest = at(
        LIVE,
        ("machine.gpus[*].name", name),
        ("machine.gpus[*].pci_id", None),
        ("machine.host.topology_files", []),
        ("environment", []),
    )
    assert severities("vm-flat-tree", guest) == expected


QUARTERS = [
    {"node": node, "socket": node // 4, "cpus": f"{28 * node}-{28 * node + 27}"}
    for node in range(8)
]
"""Two sockets of four NUMA nodes each (NPS4)."""


@pytest.mark.parametrize(
    ("cpus", "nodes", "severity"),
    [
        ("28-55", "0-7", NOTICE),
        ("112-139", "0-7", SLOW),
        ("0-27", "2", NOTICE),
        ("0-27", "6", SLOW),
        ("0-27", "0-7", ""),
    ],
)
def test_another_quarter_of_the_socket_is_near_enough(cpus: str, nodes: str, severity: str) -> None:
    bound = at(
        BOARD,
        ("machine.host.numa", QUARTERS),
        ("machine.gpus[*].numa_node", 0),
        ("readings.processes[*].cpu_affinity", "0-27"),
        ("readings.processes[*].memory_nodes", "0-7"),
        ("readings.processes[0].cpu_affinity", cpus),
        ("readings.processes[0].memory_nodes", nodes),
    )
    assert severities("numa-binding", bound) == ([severity] if severity else [])
    for finding in diagnosed(bound).findings:
        if finding.id == "numa-binding":
            assert ("between sockets" in finding.impact) == (severity == SLOW)


@pytest.mark.parametrize(("cpus", "severity"), [("28-55", NOTICE), ("112-139", SLOW)])
def test_a_cpuset_in_another_quarter_of_the_socket(cpus: str, severity: str) -> None:
    inside = at(
        BOARD,
        ("machine.host.numa", QUARTERS),
        ("machine.gpus[*].numa_node", 0),
        ("readings.processes", []),
        ("machine.host.container", {"kind": "docker", "cpuset": cpus}),
    )
    assert severities("cpuset-far", inside) == [severity]


def test_packets_with_translated_addresses_turn_although_acs_redirects() -> None:
    acs = ["SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"]
    for name in (BOARD, CARDS):
        ports = "machine.pci[kind=switch downstream].acs"
        assert severities("acs-redirect", at(name, (ports, acs))) == [SLOW]
        assert severities("acs-redirect", at(name, (ports, [*acs, "DirectTrans"]))) == []


def test_where_bytes_are_lost_a_bridge_that_may_redirect_is_named_all_the_same() -> None:
    ends = {"src": "0000:19:00.0", "dst": "0000:1a:00.0"}
    figure = {"quantity": "bytes_arrive", "verdict": "wrong-bytes", "probe": "p2p", **ends}
    lost = at(
        CARDS,
        ("machine.pci[kind=switch downstream].acs", ["ReqRedir", "DirectTrans"]),
        ("measurements", [figure | {"device_kind": "gpu", "method": "p2p/2"}]),
    )
    (found,) = (finding for finding in diagnosed(lost).findings if finding.id == "p2p-data-wrong")
    assert "bridges above these GPUs whose ACS redirects" in [item.what for item in found.evidence]


REFUSED = (
    ("machine.pairs[*].p2p_read", "chipset not supported"),
    ("machine.pairs[*].p2p_write", "chipset not supported"),
)


def test_a_switch_that_a_hypervisor_draws_could_carry_nothing() -> None:
    assert SLOW in severities("p2p-refused", at(CARDS, *REFUSED))
    guest = at(CARDS, *REFUSED, ("machine.host.hypervisor", "KVM"))
    assert set(severities("p2p-refused", guest)) == {NOTICE}


def test_amds_refusal_is_no_matter_of_nvidias_list_of_chipsets() -> None:
    snapshot = load([str(RECORDINGS / "amd-public/rx7900xtx-2-topology.txt")]).snapshot
    (finding,) = (
        finding for finding in diagnosed(snapshot).findings if finding.id == "p2p-refused"
    )
    fixes = " ".join(fix.text for fix in finding.fix)
    assert "CONFIG_HSA_AMD_P2P" in fixes
    assert "chipset" not in fixes
