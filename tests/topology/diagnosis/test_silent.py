"""Thirteen things that people take for faults and that are none.

Each must leave the verdict and the findings as they are on the same node without it, although the
rule that could be misled had its evidence.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.model.snapshot import NodeSnapshot

from ...support import measured
from ...support.rule_cases import HOUR_SECONDS, base, diagnosed, edited, ids, with_figures

LIVE, BOARD, CARDS = "hgx-h200-4gpu-live", "demo hgx-h100-8", "demo pcie-l40s-8"
A100 = "demo hgx-a100-8"
ZERO = "00000000-0000-0000-0000-000000000000"
OFF = [{"link": number, "active": False} for number in range(4)]


def sets(**edits: Any) -> list[dict[str, Any]]:
    return [{"path": path, "value": value} for path, value in edits.items()]


def busbw(quantity: str, value: float) -> dict[str, Any]:
    figure = measured.one(
        "collectives", quantity, value, "GB/s", bytes_per_copy=1 << 30, details={"ranks": 8}
    )
    return {"path": "measurements", "append": msgspec.to_builtins(figure)}


SILENT: list[tuple[int, str, str, list[dict[str, Any]], tuple[str, ...], str]] = [
    (
        1,
        "low PCIe speed at idle",
        LIVE,
        sets(**{"readings.gpus[*].pcie_gen": 1, "readings.gpus[*].performance_state": 8}),
        (),
        "pcie-width",
    ),
    (
        2,
        "a NUMA node that is not known",
        BOARD,
        sets(**{"machine.gpus[*].numa_node": None, "machine.pci[*].numa_node": None}),
        (),
        "pcie-width",
    ),
    (
        3,
        "SrcValid alone",
        CARDS,
        sets(**{"machine.pci[kind=switch downstream].acs": ["SrcValid"]}),
        (),
        "acs-redirect",
    ),
    (
        4,
        "cluster and clique zero on one board",
        BOARD,
        sets(
            **{"machine.gpus[*].fabric.cluster_uuid": ZERO, "machine.gpus[*].fabric.clique_id": 0}
        ),
        (),
        "fabric-state",
    ),
    (
        5,
        "a power cap under load",
        LIVE,
        sets(
            **{
                "readings.gpus[*].throttle_reasons": ["sw power cap"],
                "readings.gpus[*].performance_state": 0,
            }
        ),
        (),
        "throttle-hardware",
    ),
    (
        6,
        "12 of 18 links on H100 NVL",
        BOARD,
        [
            *sets(**{"machine.gpus[*].name": "NVIDIA H100 NVL", "machine.gpus[*].pci_id": None}),
            *(
                edit
                for number in range(12, 18)
                for edit in sets(**{f"machine.gpus[*].nvlinks[{number}].active": False})
            ),
        ],
        (),
        "nvlink-down",
    ),
    (
        6,
        "cards without a bridge",
        CARDS,
        sets(
            **{
                "machine.gpus[*].name": "NVIDIA A40",
                "machine.gpus[*].pci_id": None,
                "machine.gpus[*].nvlinks": OFF,
            }
        ),
        (),
        "nvlink-down",
    ),
    (
        7,
        "no fabric manager where nothing needs one",
        CARDS,
        sets(**{"machine.host.fabric_manager": "installed"}),
        (),
        "pcie-only",
    ),
    (
        8,
        "no NVLS on four GPUs",
        LIVE,
        sets(**{"environment[name=NCCL_NVLS_ENABLE].value": "0"}),
        (),
        "flag-costs",
    ),
    (
        10,
        "totals of errors that do not grow",
        LIVE,
        sets(**{f"readings.gpus[*].nvlinks[*].{c}_errors": 9000 for c in ("replay", "crc")}),
        (),
        "nvlink-errors",
    ),
    (
        11,
        "a daemon that a container does not show",
        LIVE,
        sets(**{"machine.host.fabric_manager": "absent"}),
        (),
        "fabric-state",
    ),
    (
        12,
        "5 % between siblings",
        LIVE,
        [{"path": "measurements[probe=gemm,src=0000:00:08.0].value", "times": 0.95}],
        ("on_device",),
        "compute-low",
    ),
    (
        13,
        "all-gather below all-reduce on NVSwitch",
        BOARD,
        [busbw("all_reduce_busbw", 470.0), busbw("all_gather_busbw", 340.0)],
        (),
        "collective-low",
    ),
]


@pytest.mark.parametrize(
    ("number", "what", "name", "edits", "figures", "misled"),
    SILENT,
    ids=[f"{number} {what}" for number, what, *_ in SILENT],
)
def test_what_is_no_fault_stays_silent(
    number: int,
    what: str,
    name: str,
    edits: list[dict[str, Any]],
    figures: tuple[str, ...],
    misled: str,
) -> None:
    whole = base(name)
    odd = edited(with_figures(whole, figures), edits)
    found = diagnosed(odd, earlier=before(odd))
    assert set(ids(found)) <= set(ids(diagnosed(whole)))
    assert found.verdict == "healthy"
    assert misled in found.examined


def before(snapshot: NodeSnapshot) -> NodeSnapshot:
    """The same an hour ago."""
    return msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at - HOUR_SECONDS)


def test_links_that_mig_took_away_stay_silent() -> None:
    """The sixth again: MIG itself is reported, by design, and nothing of NVLink."""
    edits = sets(
        **{"machine.gpus[*].mig_enabled": True, "machine.gpus[*].nvlinks[*].active": False}
    )
    found = diagnosed(edited(base(LIVE), edits))
    assert not [rule for rule in ids(found) if rule.startswith(("nvlink", "p2p"))]


def test_gdr_across_the_host_bridge_stays_silent() -> None:
    """The ninth: off is the library's choice where GPU and NIC share no switch."""
    edits: list[dict[str, Any]] = [
        {"path": "machine.pci[kind=switch upstream]", "remove": True},
        {"path": "machine.pci[kind=switch downstream]", "remove": True},
        {"path": "machine.pci[kind=gpu].parent", "value": "pci0000:00"},
        {"path": "machine.pci[kind=nic].parent", "value": "pci0000:80"},
        *sets(**{"machine.host.memory_peers": [], "machine.host.modules": []}),
    ]
    found = diagnosed(edited(base(BOARD), edits))
    assert "rdma-without-peermem" not in ids(found)
    assert found.verdict == "healthy"


def test_all_thirteen_are_here() -> None:
    assert {number for number, *_ in SILENT} | {9} == set(range(1, 14))
