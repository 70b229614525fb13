"""Workstations, laptops and WSL2: a screen, other makers and Windows are no faults."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.model.severity import BROKEN, NOTICE, SLOW
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.sources.collect import ONLY_PCI

from ...support.rule_cases import base, diagnosed, edited, ids, severities
from .device_rules import at

CARDS, MI300X = "demo pcie-l40s-8", "demo mi300x-8"
VGA, CONTROLLER = 0x030000, 0x030200
"""Classes of PCI: a display controller, and what data centres' boards are."""


HELD: tuple[tuple[str, Any], ...] = (
    ("readings.gpus[0].processes", []),
    ("readings.gpus[0].utilization_percent", 0),
    ("readings.gpus[0].memory_used_bytes", 9_000_000_000),
    ("readings.gpus[0].memory_free_bytes", 39_000_000_000),
)


def test_memory_that_windows_holds_is_nobodys_fault() -> None:
    wsl = ("machine.host.kernel", "5.15.153.1-microsoft-standard-WSL2")
    assert severities("gpu-memory-unlisted", at(CARDS, *HELD)) == [SLOW]
    assert severities("gpu-memory-unlisted", at(CARDS, *HELD, wsl)) == []


def test_memory_of_guests_is_no_leftover_on_their_host() -> None:
    lends = ("machine.gpus[0].virtualization", "host vgpu")
    assert severities("gpu-memory-unlisted", at(CARDS, *HELD, lends)) == []
    inside = ("machine.gpus[0].virtualization", "passthrough")
    assert severities("gpu-memory-unlisted", at(CARDS, *HELD, inside)) == [SLOW]


def test_amdsmi_names_no_other_users_processes() -> None:
    (one,) = (
        finding
        for finding in diagnosed(at(MI300X, *HELD)).findings
        if finding.id == "gpu-memory-unlisted"
    )
    assert one.severity == NOTICE
    assert "Another user's process may hold it" in one.impact


@pytest.mark.parametrize(("free", "severity"), [(39_000_000_000, SLOW), (9_000_000_000, BROKEN)])
def test_root_sees_every_process_on_amds_gpus(free: int, severity: str) -> None:
    root = ("machine.host.asked_as_root", True)
    held = at(
        MI300X,
        *HELD,
        root,
        ("machine.gpus[0].memory_bytes", 48_000_000_000),
        ("readings.gpus[0].memory_used_bytes", 48_000_000_000 - free),
        ("readings.gpus[0].memory_free_bytes", free),
    )
    (finding,) = (
        finding for finding in diagnosed(held).findings if finding.id == "gpu-memory-unlisted"
    )
    assert finding.severity == severity
    assert finding.title == "memory that no process owns on GPU0"
    assert "Another user" not in finding.impact


def card(name: str, driver: str | None, pci_id: str, kind: int) -> NodeSnapshot:
    """A node of cards whose first is one that only PCI shows."""
    whole = base(name)
    first = whole.machine.gpus[0].address
    bound = {"path": f"machine.pci[address={first}].driver"}
    alone = {
        "address": first,
        "vendor": "nvidia",
        "pci_id": pci_id,
        "gaps": [{"field": "uuid", "why": ONLY_PCI}, {"field": "index", "why": ONLY_PCI}],
    }
    return edited(
        whole,
        [
            {"path": "machine.gpus[0]", "value": alone},
            {"path": "readings.gpus[0]", "remove": True},
            {"path": f"machine.pci[address={first}].class_code", "value": kind},
            bound | {"remove": True, "why": "no driver is bound"}
            if driver is None
            else bound | {"value": driver},
        ],
    )


SAME = base(CARDS).machine.gpus[1].pci_id or ""


@pytest.mark.parametrize(
    ("driver", "pci_id", "kind", "severity"),
    [
        ("nouveau", "10de:128b", VGA, NOTICE),
        (None, "10de:128b", VGA, NOTICE),
        (None, "10de:128b", CONTROLLER, BROKEN),
        (None, SAME, VGA, BROKEN),
        ("nouveau", SAME, VGA, BROKEN),
        ("nvidia", "10de:128b", VGA, BROKEN),
    ],
)
def test_a_card_for_the_screen_may_be_left_to_another_driver(
    driver: str | None, pci_id: str, kind: int, severity: str
) -> None:
    assert severities("gpu-without-driver", card(CARDS, driver, pci_id, kind)) == [severity]


def test_without_any_gpu_that_the_driver_serves_a_card_is_no_second_one() -> None:
    whole = base(CARDS)
    gpus = [
        {
            "address": gpu.address,
            "vendor": "nvidia",
            "pci_id": "10de:2684",
            "gaps": [{"field": "uuid", "why": ONLY_PCI}],
        }
        for gpu in whole.machine.gpus
    ]
    bare = edited(
        whole,
        [
            {"path": "machine.gpus", "value": gpus},
            {"path": "readings.gpus", "value": []},
            {"path": "machine.pci[kind=gpu].driver", "value": "nouveau"},
            {"path": "machine.pci[kind=gpu].class_code", "value": VGA},
        ],
    )
    assert severities("gpu-without-driver", bare) == [BROKEN]


def test_boards_of_other_makers_come_with_other_limits() -> None:
    default, now = "machine.gpus[3].power_limit_default_watts", "machine.gpus[3].power_limit_watts"
    built = at(CARDS, (default, 300.0), (now, 300.0))
    assert severities("gpu-settings-differ", built) == [NOTICE]
    assert severities("power-limit-low", built) == []
    (finding,) = (
        finding for finding in diagnosed(built).findings if finding.id == "gpu-settings-differ"
    )
    assert "300 W" in finding.impact
    assert [fix.text for fix in finding.fix] == [
        "Each has the limit that its board came with: none was changed."
    ]
    # One that somebody lowered stays what it was.
    lowered = at(CARDS, (now, 200.0))
    assert severities("power-limit-low", lowered) == [SLOW]


@pytest.mark.parametrize("watts", [340.0, 420.0])
def test_a_limit_that_somebody_set_is_not_the_boards_own(watts: float) -> None:
    changed = at(CARDS, ("machine.gpus[3].power_limit_watts", watts))
    (finding,) = (
        finding for finding in diagnosed(changed).findings if finding.id == "gpu-settings-differ"
    )
    assert finding.severity == NOTICE
    assert [fix.text for fix in finding.fix] == ["Give all GPUs of one model the same setting."]


CLOSED = ("machine.host.device_nodes", ["/dev/kfd (no permission)", "/dev/nvidia0"])


def test_the_node_of_a_processors_graphics_closes_no_gpu_of_nvidias() -> None:
    assert severities("device-node-denied", at(CARDS, CLOSED)) == []


def beside_amds(kind: int, nodes: list[str]) -> NodeSnapshot:
    """Cards of NVIDIA's, and one GPU of AMD's of a PCI class, with these device nodes."""
    whole = at(CARDS, ("machine.host.device_nodes", nodes))
    other = {"address": "0000:fe:00.0", "vendor": "amd", "uuid": "x", "name": "AMD Radeon Graphics"}
    device = {"address": "0000:fe:00.0", "parent": "pci0000:fe", "class_code": kind, "kind": "gpu"}
    return edited(
        whole,
        [
            {"path": "machine.gpus", "append": other},
            {"path": "machine.pci", "append": device},
        ],
    )


@pytest.mark.parametrize(("kind", "severity"), [(VGA, NOTICE), (0x038000, BROKEN)])
def test_amds_graphics_beside_nvidias_gpus_may_stay_closed(kind: int, severity: str) -> None:
    both = beside_amds(kind, ["/dev/kfd (no permission)", "/dev/nvidia0"])
    assert severities("device-node-denied", both) == [severity]


@pytest.mark.parametrize(
    ("node", "count"), [("/dev/nvidia-uvm", 8), ("/dev/nvidiactl", 8), ("/dev/nvidia0", 1)]
)
def test_a_closed_screen_hides_no_closed_gpu_of_nvidias(node: str, count: int) -> None:
    both = beside_amds(VGA, ["/dev/kfd (no permission)", f"{node} (no permission)"])
    denied = [finding for finding in diagnosed(both).findings if finding.id == "device-node-denied"]
    assert [finding.severity for finding in denied] == [BROKEN, NOTICE]
    loud, screen = denied
    assert len(loud.devices) == count
    assert [item.what for item in loud.evidence] == [node]
    assert loud.fix[0].command == "ls -l /dev/nvidia*"
    assert screen.devices == ("0000:fe:00.0",)


def test_a_processors_graphics_is_no_second_gpu_of_a_job() -> None:
    whole = base("kfd vega10")
    one = whole.machine.gpus[0]
    assert "amd-iommu" not in ids(diagnosed(whole))
    other = {"address": "0000:fe:00.0", "vendor": "amd", "name": "AMD Radeon Graphics"}
    host = {"path": "machine.host", "value": {"hypervisor": None}}
    found = {}
    for name in ("AMD Radeon Graphics", one.name):
        second = other | {"name": name, "pci_id": one.pci_id if name == one.name else "1002:164e"}
        pci = [
            {
                "address": address,
                "parent": "pci0000:00",
                "kind": "gpu",
                "class_code": VGA,
                "iommu_type": "DMA-FQ",
            }
            for address in (one.address, "0000:fe:00.0")
        ]
        both = edited(
            whole,
            [
                host,
                {"path": "machine.gpus", "append": second},
                {"path": "machine.pci", "value": pci},
                {"path": "machine.gpus[*].memory_bytes", "value": 16 << 30},
                {"path": "machine.gpus[*].bar1_bytes", "value": 256 << 20},
            ],
        )
        found[name] = [severities(rule, both) for rule in ("amd-iommu", "amd-small-bar")]
    assert found["AMD Radeon Graphics"] == [[], [NOTICE]]
    assert found[one.name] == [[SLOW], [SLOW]]


def test_the_limit_of_a_laptop_is_its_firmwares() -> None:
    low = ("machine.gpus[0].power_limit_watts", 60.0)
    assert severities("power-limit-low", at(CARDS, low)) == [SLOW]
    laptop = ("machine.gpus[*].name", "NVIDIA GeForce RTX 4090 Laptop GPU")
    assert severities("power-limit-low", at(CARDS, low, laptop)) == []


@pytest.mark.parametrize(("capability", "fixes"), [("7.5", 0), ("8.9", 1)])
def test_no_setting_gives_an_older_board_a_larger_window(capability: str, fixes: int) -> None:
    small = at(
        CARDS,
        ("machine.gpus[*].bar1_bytes", 256 << 20),
        ("machine.gpus[*].compute_capability", capability),
    )
    (finding,) = (finding for finding in diagnosed(small).findings if finding.id == "bar1-small")
    assert len(finding.fix) == fixes
