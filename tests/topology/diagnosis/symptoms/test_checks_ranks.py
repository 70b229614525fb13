"""Ranks and hosts that differ are told from those that only look so."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import explain, known_signs, table
from gputop.topology.logs.reading.read import read_log
from tests.topology.diagnosis.symptoms.ranks_examples import INNOCENT
from tests.topology.diagnosis.symptoms.shown import SHOWN


@pytest.mark.parametrize("what", INNOCENT)
def test_what_looks_alike_is_innocent(what: str) -> None:
    row, lines = INNOCENT[what]
    assert row in SHOWN
    log = read_log([line.encode() for line in lines], signs=known_signs())
    assert row not in {finding.id for finding in explain(log)}


def test_variables_that_split_the_ranks_stand_before_what_follows_from_them() -> None:
    log = read_log([line.encode() for line in SHOWN["ranks-disagree"]], signs=known_signs())
    assert [finding.id for finding in explain(log)] == ["ranks-disagree"]


def test_the_variable_that_leads_to_a_failure_is_named_with_it() -> None:
    lines = [*SHOWN["shm-read-only"], "export NCCL_P2P_DISABLE=1"]
    (finding,) = explain(read_log([line.encode() for line in lines], signs=known_signs()))
    assert "NCCL_P2P_DISABLE=1 leads there" in finding.title
    assert finding.cause.startswith("This text sets NCCL_P2P_DISABLE=1.")
    assert [proof.line for proof in finding.evidence] == [1, 2]
    other = [*SHOWN["shm-read-only"], "export NCCL_P2P_DISABLE=0"]
    (finding,) = explain(read_log([line.encode() for line in other], signs=known_signs()))
    assert "NCCL_P2P_DISABLE" not in finding.title


def test_work_before_a_timeout_is_told_with_collective_time_and_ranks() -> None:
    loading, late = SHOWN["long-work"]
    ran = f"{late}, Timeout(ms)=600000) ran for 600024 milliseconds before timing out."
    other = ran.replace("rank9", "rank11").replace("Rank 9", "Rank 11")

    def title(*lines: str) -> str:
        log = read_log([line.encode() for line in lines], signs=known_signs())
        return next(finding.title for finding in explain(log) if finding.id == "long-work")

    end = ", while a rank was still at work of its own"
    assert title(loading, late) == "ALLREDUCE ran out of time on rank 9" + end
    assert (
        title(loading, ran, other) == "ALLREDUCE ran out of time on ranks 9, 11 after 10 min" + end
    )
    last = "[rank4]: ProcessGroupNCCL.cpp:1] [Rank 4] Last enqueued NCCL work: 5, last completed"
    assert title(loading, f"{last} NCCL work: 4", late) == title(loading, late)
    (row,) = (row for row in table() if row.id == "long-work")
    assert title(loading, "[rank9]: ProcessGroupNCCL.cpp: Watchdog caught collective") == row.title


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("", ""), True),
        (("nvmlDev 1", "nvmlDev 0"), False),
        (("busId 101d0", "busId 101c0"), False),
        (("pod-b", "pod-a"), False),
        (("via NET/Socket/0", "via P2P/IPC"), False),
    ],
)
def test_pods_of_one_machine_are_told_from_hosts(change: tuple[str, str], said: bool) -> None:
    lines = [line.replace(*change) if change[0] else line for line in SHOWN["pods-of-one-host"]]
    log = read_log([line.encode() for line in lines], signs=known_signs())
    assert ("pods-of-one-host" in {finding.id for finding in explain(log)}) is said


def _late(*ranks: int) -> str:
    said = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLGATHER, "
    lines = [
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] {said}NumelIn=8, NumelOut=8, "
        "Timeout(ms)=600000) ran for 600024 milliseconds before timing out."
        for rank in ranks
    ]
    log = read_log([line.encode() for line in lines], signs=known_signs())
    return next(one.title for one in explain(log) if one.id == "watchdog-timeout")


def test_a_rank_that_others_wait_for_is_named_where_few_are_silent() -> None:
    assert _late(0, 1, 3).endswith("; rank 2 says nothing")
    assert "nothing" not in _late(8, 9, 10, 11)  # the output of another host
    assert "nothing" not in _late(1)
    assert "nothing" not in _late(0, 1, 2)


def test_a_faulting_client_of_the_gpu_itself_puts_its_firmware_first() -> None:
    fault = "Memory access fault by GPU node-2 (Agent handle: 0x5) on address 0x7. Reason: Unknown."
    head = "[ 5.1] amdgpu 0000:c4:00.0: amdgpu:      Faulty UTCL2 client ID: "

    def first(client: str) -> str:
        log = read_log([fault.encode(), f"{head}{client}".encode()], signs=known_signs())
        found = next(one for one in explain(log) if one.id == "hip-crashed")
        return found.candidates[0].cause

    assert "firmware" in first("CPC (0x5)")
    assert "firmware" not in first("TCP (0x8)")
    assert "firmware" not in first("SQC (data) (0xa)")
