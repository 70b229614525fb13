from __future__ import annotations

import gzip

import pytest

from gputop.topology.diagnosis.symptoms.checks import CHECKS
from gputop.topology.diagnosis.symptoms.explain import (
    explain,
    known_signs,
    table,
    unexplained,
)
from gputop.topology.diagnosis.symptoms.titles import TITLES
from gputop.topology.logs.reading.read import read_log
from tests.support.nccl.logs import lines_of, recorded
from tests.tables import hold
from tests.topology.diagnosis.symptoms.shown import SHOWN

A = "node1:11:11 [0] NCCL INFO "
WARN = "node1:11:11 [0] file.cc:12 NCCL WARN "


def init(head: str, rank: int, bus: str = "", stage: str = "COMPLETE", nranks: int = 2) -> str:
    return (
        f"{head}ncclCommInitRank comm 0x{rank}a rank {rank} nranks {nranks} cudaDev {rank} "
        f"nvmlDev {rank} busId {bus or str(rank + 6) + '0'} commId 0xc - Init {stage}"
    )


IB = "NET/IB : GPU Direct RDMA {} for HCA 0 'mlx5_0'"


def test_a_symptom_is_found_and_proven() -> None:
    def proven(ident: str) -> None:
        lines = [line.encode() for line in SHOWN[ident]]
        log = read_log(lines, signs=known_signs(), outputs=True)
        found = {finding.id: finding for finding in explain(log)}
        assert ident in found
        assert found[ident].evidence
        for proof in found[ident].evidence:
            assert proof.line is not None
            assert 1 <= proof.line <= len(lines)
            assert proof.what == f"line {proof.line}"
        if len(lines) == 1:
            assert not unexplained(log)

    hold(proven, SHOWN)


def test_work_that_ended_before_a_timeout_is_not_blamed() -> None:
    loading, late = SHOWN["long-work"]
    for between in ("step 40 loss 2.1", loading.replace("61%", "100%")):
        log = read_log([line.encode() for line in (loading, between, late)], signs=known_signs())
        assert [finding.id for finding in explain(log)] == ["watchdog-timeout"]


def test_every_row_has_an_example_and_its_parts() -> None:
    for row in table():
        assert row.any or row.check, row.id
        assert row.cause
        assert row.look
        assert row.fix
        assert row.sources, row.id
        assert row.shown, row.id


def test_every_check_and_title_has_a_row() -> None:
    assert set(CHECKS) == {row.check for row in table()} - {None}
    assert set(TITLES) == {row.titled for row in table()} - {None}


def test_nothing_is_alarming_about_a_healthy_log() -> None:
    for path in recorded():
        lines = gzip.decompress(path.read_bytes()).splitlines()
        log = read_log(lines, signs=known_signs())
        alarms = {finding.id for finding in explain(log) if finding.severity != "notice"}
        flagged = "P2P_DISABLE" in path.name or path.name in ("h200-p2pdis", "h200-net")
        if not (flagged or "p2pdis" in path.name or "net" in path.name):
            assert not alarms, path.name
        assert not unexplained(log)


@pytest.mark.parametrize(("gbs", "found"), [("0.2", True), ("24.0", False)])
def test_a_slow_link_above_a_bridge_is_found_and_one_without_gpus_is_not(
    gbs: str, found: bool
) -> None:
    lines = [
        init(A, 0),
        A + "=== System : maxBw 48.0 totalBw 48.0 ===",
        A + "CPU/0-0 (1/1/3)",
        A + f"+ PCI[{gbs}] - PCI/0-65000 (104c823200000000)",
        A + "             + PCI[48.0] - GPU/0-68000 (0)",
        A + "+ PCI[0.2] - NIC/0-6c000",
    ]
    (*said,) = explain(read_log([line.encode() for line in lines]))
    proofs = [proof.line for each in said if each.id == "pci-crippled" for proof in each.evidence]
    assert proofs == ([4] if found else [])


def test_worst_first_and_unknown_warnings_stay() -> None:
    log = read_log(
        [
            (A + "Loading topology file x").encode(),
            (WARN + "No transport found for rank 0 -> rank 1").encode(),
            (WARN + "Something that nobody knows").encode(),
        ]
    )
    assert [finding.severity for finding in explain(log)] == ["broken", "notice"]
    assert [note.text for note in unexplained(log)] == ["Something that nobody knows"]


def test_nvlink_without_use_is_not_put_down_to_distance() -> None:
    lines = [line for line in lines_of("h200-p2pdis") if b"NCCL_P2P_DISABLE" not in line]
    assert "shm-by-policy" not in {finding.id for finding in explain(read_log(lines))}
