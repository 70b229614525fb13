"""Symptoms in logs as other versions, RCCL and frameworks write them."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import explain
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import LogReport


def read(*lines: str) -> LogReport:
    return read_log([line.encode() for line in lines])


def symptoms(*lines: str) -> dict[str, str]:
    """Symptom -> severity of some lines of one rank."""
    report = read(*(f"n1:7:8 [0] {line}" for line in lines))
    return {finding.id: finding.severity for finding in explain(report)}


def test_the_echo_of_another_rank_comes_after_the_cause() -> None:
    report = read(
        "n1:7:8 [0] NCCL WARN socketProgress: Connection closed by remote peer n2<4>",
        "n1:7:8 [0] NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out",
    )
    assert [finding.id for finding in explain(report)] == ["ib-no-route", "peer-gone"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("NCCL INFO TUNER/Plugin: Using tuner plugin none", {}),
        ("NCCL INFO TUNER/Plugin: Using internal tuner plugin.", {}),
        (
            "NCCL INFO TUNER/Plugin: Using tuner plugin nccl_ofi_tuner",
            {"tuner-plugin": "notice"},
        ),
        (
            "NCCL WARN NET/IB : mlx5_0:1 Got async event : client reregistration",
            {"ib-async-notice": "notice"},
        ),
        ("NCCL WARN NET/IB : mlx5_0:1 GID table changed", {"ib-async-notice": "notice"}),
        (
            "NCCL WARN NET/IB : mlx5_0:1 Got async event : port error",
            {"ib-async-error": "broken"},
        ),
        (
            "NCCL WARN NET/IB : mlx5_1:1 async fatal event: local catastrophic error",
            {"ib-async-error": "broken"},
        ),
        (
            "NCCL WARN NET/IB : Got completion from peer 192.0.2.12<5> with status=12 opcode=1 "
            "len=0 vendor err 129 (Send)",
            {"ib-completion-error": "broken"},
        ),
        (
            "NCCL WARN NET/IB: Got completion from peer 192.0.2.4<5> with "
            "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129",
            {"ib-completion-error": "broken"},
        ),
        (
            "NCCL WARN NET/IB : Got completion from peer 192.0.2.12<12> with error 5, opcode 0, "
            "len 0, vendor err 249",
            {"ib-flushed": "notice"},
        ),
        (
            "NCCL WARN NET/IB : Got completion from peer 192.0.2.1<12> with error 4, opcode 1, "
            "len 32611, vendor err 81 (Send)",
            {"ib-memory-refused": "broken"},
        ),
        (
            "NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev "
            "mlx5_0:1, curr state INIT, next state RTR, local GID index 3",
            {"ib-no-route": "broken"},
        ),
        (
            "NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 16",
            {"bootstrap-mismatch": "broken"},
        ),
        ("NCCL WARN Cuda failure 101 'invalid device ordinal'", {"gpu-unavailable": "broken"}),
        ("NCCL INFO [Service thread] Connection closed by localRank 1", {}),
        ("NCCL INFO NET/IB : No device found.", {}),
        ("NCCL INFO Check P2P Type intraNodeP2pSupport 0 directMode 0", {}),
    ],
)
def test_lines_of_other_versions_mean_what_they_say(line: str, found: dict[str, str]) -> None:
    assert symptoms(line) == found


START = (
    "n1:7:8 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 "
    "busId 18000 commId 0xa - Init START"
)


SHAPE = "n1:7:8 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes {} localRanks 1 localRank 0 MNNVL 0"


TYPE = "n1:7:8 [0] NCCL INFO Check P2P Type isAllDirectP2p 0 directMode 0 isAllCudaP2p 0"


def test_a_host_that_flags_split_says_nothing_about_cuda() -> None:
    whole = explain(read(START, SHAPE.format(1), TYPE))
    split = explain(read(START, SHAPE.format(2), TYPE))
    assert "p2p-impossible" in {finding.id for finding in whole}
    assert "p2p-impossible" not in {finding.id for finding in split}


def test_a_watchdog_that_is_stuck_is_heard() -> None:
    report = read(
        "[rank1]:[F801 ProcessGroupNCCL.cpp:1557] [PG ID 0 Rank 1] ProcessGroupNCCL's watchdog got "
        "stuck for 480 seconds without making progress in monitoring enqueued collectives."
    )
    assert [finding.id for finding in explain(report)] == ["watchdog-timeout"]
