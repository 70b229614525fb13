"""Answers of a driver without sense, and answers that contradict each other: never healthy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.evidence import FREE
from gputop.topology.model.machine import GpuPair
from gputop.topology.model.record import Gap, Record
from gputop.topology.model.severity import Verdict
from gputop.topology.model.snapshot import NodeSnapshot
from tests.support.rule_cases import base, base_verdict, diagnosed, edited

BOARD, CARDS, TRAY = "demo hgx-h100-8", "demo pcie-l40s-8", "demo gb200-nvl72-tray"
OAM, CUBE = "demo mi300x-8", "demo dgx-1v"
DARK = "machine.gpus[*].nvlinks[*].active"
GRANTED = "machine.pairs[*].p2p_nvlink"
COUNTED = {"uncorrected_volatile": 0, "uncorrected_aggregate": 0, "remap_failed": False}
ECC_OFF = {"machine.gpus[1].ecc_enabled": False, "machine.gpus[1].ecc_pending": False}
STATE = "machine.gpus[1].fabric.state"

WELL: list[tuple[str, str, dict[str, Any]]] = [
    ("ECC that is off counts nothing", BOARD,
     ECC_OFF | {"readings.gpus[1].ecc": {"gaps": [{"field": "uncorrected_volatile",
                                                   "why": "Not Supported"}]}}),
    ("some links of AMD have ECC, the memory has not", OAM,
     {"machine.gpus[1].ecc_enabled": False, "readings.gpus[1].ecc_blocks": []}),
    ("C2C that is off has no rate", BOARD, {"machine.gpus[1].c2c_enabled": False}),
    ("a GPU of before Hopper registers nowhere", "demo hgx-a100-8",
     {STATE: "not supported"} | {"machine.gpus[1].architecture": "Ampere"}),
    ("names of other times and makers", CARDS, {"machine.gpus[*].name": "NVS 510"}),
    ("a sample that nobody sells", BOARD, {"machine.gpus[*].name": "NVIDIA Graphics Device"}),
    ("a board of one more number", BOARD, {"machine.gpus[*].pci_id": "10de:23ff",
                                           "machine.pci[kind=gpu].device_id": 0x23FF}),
    ("an id for a name", OAM, {"machine.gpus[*].name": "0x74a1"}),
    ("a code name", CARDS, {"machine.gpus[*].name": "Phoenix3"}),
    ("two GPUs of one board", CARDS, {"machine.pairs[0].ancestor": "internal",
                                      "machine.pairs[0].src": "0000:01:00.0",
                                      "machine.gpus[*].board_id": 7}),
    ("GPUs of one board share a bridge", CARDS, {"machine.pairs[*].ancestor": "hostbridge"}),
    ("as warm as it may get", BOARD, {"readings.gpus[1].temperature_c": 87}),
    ("a NUMA node that nobody knows", BOARD, {"machine.gpus[1].numa_node": None}),
    ("a link that rests", BOARD, {"readings.gpus[1].pcie_gen": 1}),
    ("a board with a lower highest clock", BOARD, {"machine.gpus[*].clock_sm_max_mhz": 1755}),
    ("memory as it was sold", BOARD, {"machine.gpus[*].memory_bytes": 84 * 10**9}),
    ("boards of two limits", BOARD, {"machine.gpus[1].power_limit_default_watts": 500}),
    ("a power limit at its end", BOARD, {"machine.gpus[*].power_limit_max_watts": 700}),
]  # fmt: skip
NONSENSE: list[tuple[str, str, dict[str, Any]]] = [
    ("ECC", BOARD, ECC_OFF),
    ("ECC", OAM, {"machine.gpus[1].ecc_enabled": False}),
    ("NVLink-C2C", TRAY, {"machine.gpus[1].c2c_enabled": False}),
    ("NVLinks", TRAY, {DARK: False}),
    ("NVLinks", TRAY, {"machine.gpus[1].nvlinks[*].remote_kind": "gpu"}),
    ("fabric", TRAY, {STATE: "not supported"}),
    ("xGMI", OAM, {"machine.pairs[*].p2p_read": "not supported"}),
    ("NUMA node", BOARD, {"machine.gpus[1].numa_node": 77}),
    ("model", BOARD, {"machine.gpus[*].name": "Zq9 Zq9 Zq9"}),
    ("model", OAM, {"machine.gpus[1].name": "M"}),
    ("model", BOARD, {"machine.gpus[1].name": "NVIDIA A100-SXM4-80GB"}),
    ("model", BOARD, {"machine.gpus[*].name": "NVIDIA A100-SXM4-80GB"}),
    ("model", BOARD, {"machine.gpus[*].pci_id": "10de:20b2"}),
    ("model", OAM, {"machine.gpus[*].pci_id": "1002:74a5"}),
    ("NVLinks", BOARD, {"machine.gpus[2].nvlinks[3].active": None}),
    ("NVLinks", BOARD, {DARK: None}),
    ("place", CARDS, {"machine.pairs[*].ancestor": "internal"}),
    (
        "place",
        CARDS,
        {
            "machine.pairs[0].ancestor": "internal",
            "machine.gpus[0].board_id": 1,
            "machine.gpus[1].board_id": 2,
        },
    ),
    ("PCI id", BOARD, {"machine.gpus[2].pci_id": "10de:20b2"}),
    ("NVLinks", CARDS, {GRANTED: "ok"}),
    ("compute mode", CARDS, {"machine.gpus[*].compute_mode": "unknown (77)"}),
    ("throttle reasons", BOARD, {"readings.gpus[2].throttle_reasons": ["unknown (0x200)"]}),
    ("p2p read", BOARD, {"machine.pairs[3].p2p_read": "unknown (77)"}),
    ("temperature", BOARD, {"readings.gpus[1].temperature_c": 96}),
    ("temperature", CARDS, {"readings.gpus[1].temperature_c": 0}),
    ("temperature", OAM, {"readings.gpus[1].temperature_c": 124}),
    (
        "memory",
        BOARD,
        {
            "machine.gpus[1].memory_bytes": 40 * 2**30,
            "readings.gpus[1].memory_used_bytes": 2**30,
            "readings.gpus[1].memory_free_bytes": 39 * 2**30,
        },
    ),
    ("memory", BOARD, {"readings.gpus[1].memory_free_bytes": 30 * 2**30}),
    ("memory", BOARD, {"readings.gpus[1].memory_free_bytes": 150 * 2**30}),
    ("memory", OAM, {"machine.gpus[1].memory_bytes": 64 * 2**30}),
    (
        "memory",
        BOARD,
        {
            "machine.gpus[*].memory_bytes": 40 * 2**30,
            "readings.gpus[*].memory_used_bytes": 2**30,
            "readings.gpus[*].memory_free_bytes": 39 * 2**30,
        },
    ),
    ("highest clock", BOARD, {"machine.gpus[*].clock_sm_max_mhz": 990}),
    ("highest clock", OAM, {"machine.gpus[*].clock_sm_max_mhz": 4200}),
    ("NVLinks", TRAY, {"machine.gpus[1].nvlinks[*].remote_kind": "ibmnpu"}),
    ("NVLinks", BOARD, {"machine.gpus[1].nvlinks[2].version": "3.0"}),
    ("PCIe link", BOARD, {"readings.gpus[1].pcie_gen": 6}),
    ("PCIe link", BOARD, {"readings.gpus[1].pcie_width": 32}),
    ("PCIe link", CARDS, {"machine.gpus[1].pcie_width_max": 8}),
    ("PCIe link", OAM, {"machine.gpus[*].pcie_width_max": 32}),
    ("PCIe link", BOARD, {"machine.gpus[*].pcie_gen_max": 7}),
    ("PCIe link", BOARD, {"readings.gpus[1].pcie_width": 8}),
    ("PCIe link", OAM, {"readings.gpus[*].pcie_width": 8}),
    ("PCIe link", BOARD, {"machine.gpus[1].pcie_width_max": 8, "readings.gpus[1].pcie_width": 8}),
    ("PCIe link", CARDS, {"machine.gpus[*].pcie_gen_max": 3, "readings.gpus[*].pcie_gen": 3}),
    (
        "PCIe link",
        BOARD,
        {"machine.gpus[*].pcie_gen_max_device": 4, "machine.gpus[*].pcie_gen_max": 4},
    ),
    (
        "PCIe link",
        BOARD,
        {
            "machine.pci[kind=gpu].link_width_max": 8,
            "machine.pci[kind=gpu].link_width_now": 8,
            "readings.gpus[*].pcie_width": 8,
        },
    ),
    ("NUMA node", BOARD, {"machine.gpus[1].numa_node": 1}),
    ("NUMA node", BOARD, {"machine.gpus[1].memory_affinity": [1]}),
    ("memory that the bus reaches", BOARD, {"machine.gpus[1].bar1_bytes": 2**38}),
    ("power limit", BOARD, {"machine.gpus[1].power_limit_watts": 90}),
    ("power limit", BOARD, {"machine.gpus[*].power_limit_default_watts": 7000}),
    ("power limit", BOARD, {"machine.gpus[1].power_limit_default_watts": 350}),
    (
        "power limit",
        OAM,
        {
            "machine.gpus[*].power_limit_default_watts": 3735,
            "machine.gpus[*].power_limit_watts": 3735,
            "machine.gpus[*].power_limit_max_watts": 3735,
        },
    ),
]
"""What is not known then, a demo, and the edits."""


def changed(name: str, edits: dict[str, Any]) -> NodeSnapshot:
    return edited(base(name), [{"path": path, "value": value} for path, value in edits.items()])


@pytest.mark.parametrize(("what", "name", "edits"), WELL, ids=[what for what, *_ in WELL])
def test_answers_that_agree_are_believed(what: str, name: str, edits: dict[str, Any]) -> None:
    assert diagnosed(changed(name, edits)).verdict == Verdict.HEALTHY


@pytest.mark.parametrize(("what", "name", "edits"), NONSENSE)
def test_nonsense_and_contradictions_are_no_health(
    what: str, name: str, edits: dict[str, Any]
) -> None:
    assert base_verdict(name) == Verdict.HEALTHY
    found = diagnosed(changed(name, edits))
    assert found.verdict != Verdict.HEALTHY
    assert what in [lack.what for lack in found.lacking]


@pytest.mark.parametrize(
    ("why", "believed"), [("the driver hides it", True), ("not understood: dict", False)]
)
def test_links_between_gpus_have_two_ends(why: str, believed: bool) -> None:
    end = {"path": "machine.gpus[3].nvlinks[2].remote_address", "remove": True, "why": why}
    lacking = diagnosed(edited(base(CUBE), [end])).lacking
    assert ("NVLinks" in [lack.what for lack in lacking]) != believed


def with_gap(snapshot: NodeSnapshot, field: str, why: str) -> NodeSnapshot:
    """The node whose second GPU has no such field, and why."""
    first, second, *rest = snapshot.machine.gpus
    lacking: Any = {field: None, "gaps": (*second.gaps, Gap(field, why))}
    gpus = (first, msgspec.structs.replace(second, **lacking), *rest)
    machine = msgspec.structs.replace(snapshot.machine, gpus=gpus)
    return msgspec.structs.replace(snapshot, machine=machine)


@pytest.mark.parametrize(
    ("why", "believed"),
    [
        ("Not Supported", True),
        ("no permission", True),
        ("the installed driver does not know this function", True),
        ("the driver says unknown", False),
        ("the driver says 77", False),
        ("the driver says 0", False),
        ("the driver does not say", True),  # amdsmi's "N/A"
        ("not understood: bytes that are no text", False),
        ("unknown (77)", False),
        ("an answer that no GPU can give", False),
    ],
)
def test_a_refusal_is_an_answer_and_nonsense_is_none(why: str, believed: bool) -> None:
    for name in (BOARD, OAM):
        found = diagnosed(with_gap(base(name), "power_limit_default_watts", why))
        assert (found.verdict == Verdict.HEALTHY) == believed, name
    # What no verdict rests on may be nonsense.
    assert diagnosed(with_gap(base(BOARD), "serial", why)).verdict == Verdict.HEALTHY


def test_the_second_die_of_a_package_leaves_zeros_to_the_first() -> None:
    packages = base("demo mi250x-8")
    for why, verdict in (("the driver says 0", Verdict.HEALTHY),
                         ("the driver says 77", Verdict.CANNOT_TELL)):  # fmt: skip
        assert diagnosed(with_gap(packages, "power_limit_default_watts", why)).verdict == verdict


@pytest.mark.parametrize("record", FREE)
def test_what_is_free_exists(record: type[Record]) -> None:
    assert FREE[record] <= set(record.__struct_fields__)
    assert record is not GpuPair or "p2p_nvlink" not in FREE[record]
