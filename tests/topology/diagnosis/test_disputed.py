"""What the driver says and the kernel says otherwise, and what only looks like that."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.disputed import disputed
from gputop.topology.model.severity import Verdict
from gputop.topology.node import Node
from tests.support.rule_cases import base, diagnosed, edited

BOARD, CARDS, OAM = "demo hgx-h100-8", "demo pcie-l40s-8", "demo mi300x-8"
SWITCH = {"machine.pci[kind=switch downstream].vendor_id": 0x1002}

AGREE: list[tuple[str, str, dict[str, Any]]] = [
    ("a link that gives up lanes at rest", BOARD, {"machine.pci[kind=gpu].link_speed_max_gts": 64.0,
                                                   "machine.gpus[*].pcie_gen_max_device": 6,
                                                   "readings.gpus[*].pcie_width": 4}),
    ("the link inside of AMD's package", OAM, SWITCH | {"readings.gpus[*].pcie_width": 8}),
    ("a link that rests", BOARD, {"readings.gpus[*].pcie_gen": 1}),
    ("a kernel that knows no lanes", BOARD, {"machine.pci[kind=gpu].link_width_now": None,
                                            "readings.gpus[*].pcie_width": 8}),
    ("a GPU asleep states a lower speed", CARDS, {"machine.pci[kind=gpu].link_speed_max_gts": 2.5}),
    ("a bridge with fewer lanes", CARDS, {"machine.pci[kind=root port].link_width_max": 8,
                                          "machine.gpus[*].pcie_width_max": 8}),
    ("a node that the kernel does not say", BOARD, {"machine.pci[kind=gpu].numa_node": None,
                                                   "machine.gpus[1].memory_affinity": [1]}),
    ("several nodes are near", BOARD, {"machine.gpus[*].memory_affinity": [0, 1]}),
    ("a BAR1 smaller than the region", BOARD, {"machine.gpus[*].bar1_bytes": 2**28}),
    ("memory that the CPU reaches by itself", BOARD, {"machine.gpus[*].bar1_bytes": 2**40,
                                                      "machine.gpus[*].c2c_enabled": True}),
    ("a vGPU", BOARD, {"machine.gpus[*].numa_node": 1,
                       "machine.gpus[*].virtualization": "vgpu"}),
    ("a word of another library", BOARD, {"problems": [
        {"source": "nvml", "kind": "denied", "text": "no", "devices": ["0000:1b:00.0"]}]}),
]  # fmt: skip


def said(name: str, edits: dict[str, Any]) -> list[tuple[str, str, str]]:
    changes = [{"path": path, "value": value} for path, value in edits.items()]
    return list(disputed(Case(Node(edited(base(name), changes)))))


@pytest.mark.parametrize(("what", "name", "edits"), AGREE, ids=[what for what, *_ in AGREE])
def test_no_dispute(what: str, name: str, edits: dict[str, Any]) -> None:
    assert said(name, edits) == []


def test_what_merging_found_of_two_libraries_is_not_known() -> None:
    snapshot = base(OAM)
    address = snapshot.machine.gpus[1].address
    problem = {"source": "kfd", "kind": "mismatch", "text": "KFD says 3", "devices": [address]}
    edits = {"problems": [problem, problem | {"devices": ["0000:ff:00.0"]}]}
    what = "what KFD and the driver's library say differently"
    assert said(OAM, edits) == [(address, what, "KFD says 3")]
    changes = [{"path": path, "value": value} for path, value in edits.items()]
    assert diagnosed(edited(snapshot, changes)).verdict == Verdict.CANNOT_TELL


@pytest.mark.parametrize(("gbs", "disputes"), [(50.0, 0), (20.0, 1)])
def test_a_copy_that_few_lanes_cannot_carry_decides(gbs: float, disputes: int) -> None:
    end = base(BOARD).machine.gpus[1].address
    figure = {
        "quantity": "h2d_bandwidth",
        "variant": "pinned",
        "value": gbs,
        "unit": "GB/s",
        "src": end,
        "probe": "host",
    }
    edits = {"readings.gpus[1].pcie_width": 8, "measurements": [figure]}
    assert len(said(BOARD, edits)) == disputes


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"readings.gpus[1].pcie_width": 8}, "the driver says x8, the kernel x16"),
        (
            {"machine.gpus[1].pcie_width_max": 8},
            "the driver says up to x8, the kernel x16 on the whole way up",
        ),
        ({"machine.gpus[1].pcie_width_max": 32}, "the driver says up to x32, the kernel x16"),
        (
            {"machine.gpus[1].pcie_gen_max_device": 4},
            "the driver says that the GPU can gen4, the kernel gen5",
        ),
        (
            {"machine.gpus[1].pcie_gen_max": 3},
            "the driver says up to gen3, the kernel gen5 on the whole way up",
        ),
        ({"machine.gpus[1].numa_node": 1}, "the driver says 1, the kernel 0"),
        (
            {"machine.gpus[1].memory_affinity": [1, 2]},
            "the driver says that the memory of 1, 2 is near, the kernel 0",
        ),
        (
            {"machine.gpus[1].bar1_bytes": 2**38},
            "the driver says 262144 MiB, the largest region of it is 131072 MiB",
        ),
    ],
)
def test_each_dispute_says_both(edits: dict[str, Any], why: str) -> None:
    ((address, _, text),) = said(BOARD, edits)
    assert (address, text) == (base(BOARD).machine.gpus[1].address, why)
