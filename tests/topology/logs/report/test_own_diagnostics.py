"""Reports of NCCL's own diagnostics: forms from the libraries' texts and NCCL's user guide."""

from __future__ import annotations

import pytest

from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.own_diagnostics import (
    MOST_CHECKS,
    MOST_REPORTS,
    OwnDiagnostics,
)

COMM = "in comm 0x5fa31c27a9e0d1b4"
PATHS = (
    "=== NCCL Diagnostics ===",
    "[OK]   p2p: verified P2P access in both directions between every GPU pair (56 peer accesses)",
    "NCCL diagnostics completed in 245.3 ms across 8 ranks",
)
RANKS = (
    "=== RAS Diagnostics ===",
    f"[OK]   GPU inventory: 8x NVIDIA H100 per node consistent across 8 ranks {COMM}",
    f"[INFO] NCCL environment: mismatch across 8 ranks {COMM} for NCCL_DEBUG",
    "[INFO] NCCL environment: NCCL_DEBUG=INFO on rank(s) {0,1,2,3}",
    "RAS diagnostics completed in 12.3 ms across 8 RAS peers",
)


def reports(*texts: str, who: str = "node01:4242") -> tuple[OwnDiagnostics, ...]:
    lines = [f"{who} NCCL DIAG {text}".encode() for text in texts]
    return read_log([b"step 1, loss 2.5", *lines]).diagnostics


def test_two_reports_of_one_process_are_told_apart() -> None:
    mixed = (RANKS[0], *PATHS[:2], *RANKS[1:], PATHS[2])
    ranks, paths = reports(*mixed)
    assert (paths.report, paths.host, paths.pid, paths.line) == ("paths", "node01", 4242, 3)
    assert (paths.passed, paths.milliseconds, paths.across) == (True, 245.3, "8 ranks")
    assert paths.sentence == "paths between GPUs: 1 [OK]"
    assert [check.text for check in paths.checks] == [PATHS[1][12:]]
    assert (ranks.passed, ranks.across) == (False, "8 RAS peers")
    assert ranks.sentence == "ranks compared: 1 [OK], 2 [INFO]"
    assert ranks.checks[0].text.endswith("consistent across 8 ranks")


def test_the_form_of_2_31_reads_as_well() -> None:
    (found,) = reports(PATHS[0], "[INFO] p2p: 54/56 directed GPU P2P edges verified", PATHS[2])
    assert found.passed is False
    assert found.checks[0].about == "p2p"


def test_what_was_not_tested_has_not_passed() -> None:
    (found,) = reports(PATHS[0], PATHS[2])
    assert found.passed is None
    assert found.sentence == "paths between GPUs: no pair of GPUs was tested"
    (cut,) = reports(*PATHS[:2])
    assert cut.passed is None
    assert cut.sentence == "paths between GPUs: 1 [OK], and the end of the report is missing"


def test_reports_of_2_32_3_on_an_h200() -> None:
    """As printed by the library with one rank, and with two ranks that share the GPU."""
    alone = (
        "=== RAS Diagnostics ===",
        "=== NCCL Diagnostics ===",
        "[OK] net bw: skipped (single host or no network transport)",
        "NCCL diagnostics completed in 0.1 ms across 1 ranks",
        f"[INFO] rdma_topo check: not usable on 1/1 ranks {COMM} (unavailable)",
        "[OK]   Xid/SXid: no events requiring immediate attention across 1 host",
        "RAS diagnostics completed in 7.8 ms across 1 ranks",
    )
    ranks, paths = reports(*alone)
    assert (paths.passed, paths.sentence) == (
        None,
        "paths between GPUs: no pair of GPUs was tested",
    )
    assert [check.about for check in ranks.checks] == ["rdma_topo check", "Xid/SXid"]
    (skipped,) = reports("INFO RAS diagnostics skipped: NCCL_RAS_ENABLE=0")
    assert skipped.sentence.startswith("ranks compared: no result")
    both = PATHS[1].replace("56", "2")
    (two,) = reports(*alone[1:3], both, alone[3])
    assert (two.passed, two.sentence) == (True, "paths between GPUs: 2 [OK]")


def test_a_remark_is_no_question() -> None:
    remark = (
        "[INFO] p2p: temporarily enabled context-wide CUDA peer access rank=3 cudaDev=3; avoid "
        "concurrent CUDA use on this context until diagnostics completes"
    )
    (found,) = reports(PATHS[0], remark, *PATHS[1:])
    assert found.passed is True


def test_communicators_alike_are_counted() -> None:
    again = tuple(text.replace("0x5fa3", "0x6fa3") for text in RANKS)
    (found,) = reports(*RANKS, *again)
    assert (found.begun, found.ended) == (2, 2)
    assert {check.count for check in found.checks} == {2}


@pytest.mark.parametrize(
    "text", ["INFO RAS diagnostics skipped: NCCL_RAS_ENABLE=0", "\x1b]0;x\x07", "[OK]"]
)
def test_other_words_are_quoted_as_they_stand(text: str) -> None:
    (found,) = reports(text, who="0:1:2")
    assert found.passed is None
    assert all(check.text.isprintable() for check in found.checks)


def test_settings_in_a_report_are_no_settings_of_the_job() -> None:
    log = read_log([f"n:1 NCCL DIAG {text}".encode() for text in RANKS])
    assert log.environment == ()
    assert not log.empty


def test_a_flood_is_bounded() -> None:
    lines = [f"n:{pid} NCCL DIAG [OK] x: {pid}".encode() for pid in range(MOST_REPORTS + 5)]
    lines += [f"n:1 NCCL DIAG [INFO] y: {number}".encode() for number in range(MOST_CHECKS + 5)]
    log = read_log(lines)
    assert len(log.diagnostics) == MOST_REPORTS
    assert max(len(found.checks) for found in log.diagnostics) == MOST_CHECKS
    assert log.more["lines of NCCL's diagnostics"] == 5 + 6


def test_a_notice_of_2_32_is_kept_like_a_remark() -> None:
    line = b"n1:7:7 [0] init.cc:99 (ncclCommInit) NCCL ATTN Could not clean up"
    (note,) = read_log([line]).notes
    assert (note.level, note.where, note.text) == ("INFO", "init.cc:99", "Could not clean up")
