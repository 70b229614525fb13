from __future__ import annotations

import gzip

import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.topology.diagnosis.symptoms.checks import CHECKS
from gputop.topology.diagnosis.symptoms.explain import (
    ECHOES,
    explain,
    known_signs,
    table,
    unexplained,
)
from gputop.topology.diagnosis.symptoms.log import _OF_ROW, examine
from gputop.topology.diagnosis.symptoms.titles import TITLES
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.finding import Finding
from tests.support.nccl.logs import lines_of, recorded
from tests.support.whole import whole
from tests.tables import hold
from tests.topology.diagnosis.symptoms.shown import SHOWN

UNHEARD = ("explain", "examine")
A = "node1:11:11 [0] NCCL INFO "
WARN = "node1:11:11 [0] file.cc:12 NCCL WARN "

LATE = (
    "[E ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL"
    "(SeqNum={1}, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600020 "
    "milliseconds before timing out."
)
LAST = (
    "[rank{0}]:[E ProcessGroupNCCL.cpp:1664] [PG {2} Rank {0}] Exception (either an error or "
    "timeout) detected by watchdog at work: {1}, last enqueued NCCL work: {1}, last completed NCCL "
    "work: {3}."
)
ENTRY = """Not all ranks joining collective{0}
internal record id: 4
group info: {1}
collective: nccl:{2}
missing ranks: {{3, 4}}
input sizes: [[3, 4]]
expected ranks: {{0, 1, 2, 3, 4}}
collective state: {3}
collective stack trace:
 all_reduce at /srv/torch/distributed/distributed_c10d.py:2696"""
DIFFERS = """Collective sequence number: 12 has errors
group info: 1:mesh_tp
collective: nccl:_all_gather_base
error msg: Culprit rank 1; Error type: {0}, Expected collective type: 'a' does not match 'b'"""


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


def test_what_may_be_all_that_is_found_has_a_next_step() -> None:
    assert set(ECHOES) == set(_OF_ROW)


WARNINGS = (
    "WARNING utils.py:593 -- CPU detection of Ray in containers was incorrect. Please ensure that",
    "UserWarning: Ray's object store falls back to a slower place",
    "WARNING: Slurm: the step has only 2 CPUs for 8 tasks",
    "[docker] Warning: memory limit without swap: Not enough swap; you may increase it",
)
"""Of what something costs, or of what helps, from programs that no row knows."""


def test_a_warning_is_no_silence() -> None:
    def quoted(line: str) -> None:
        read = examine(read_log([b"job starts", line.encode()], signs=known_signs()), None)
        assert read.next.startswith(f"line 2 warns: {line[:40]}"), read.next
        assert "of no failure" not in read.next

    hold(quoted, WARNINGS)
    dull = [b"INFO worker.py:1673 -- Started a local Ray instance.", b"FutureWarning: deprecated"]
    assert "Ray, of no failure" in examine(read_log(dull, signs=known_signs()), None).next


def test_all_that_is_said_of_an_example(snapshot: SnapshotAssertion) -> None:
    for ident, lines in SHOWN.items():
        log = read_log([line.encode() for line in lines], signs=known_signs(), outputs=True)
        said = whole(examine(log, None), without=("log", "overlay", "sources"))
        assert said == snapshot(name=ident)


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


# Titles that name the collective, the ranks and the time, by what the lines say.
def told(*lines: str) -> tuple[Finding, ...]:
    text = "\n".join(lines).split("\n")
    return explain(read_log([line.encode() for line in text], signs=known_signs()))


def test_a_timeout_names_the_collective_its_ranks_and_the_time() -> None:
    (finding,) = told(LATE.format(0, 808), LATE.format(2, 808), LATE.format(1, 809))
    assert finding.title == (
        "A collective did not end in time: all-reduce 808 on ranks 0, 2; all-reduce 809 on rank 1, "
        "given up after 10 min"
    )


def test_work_of_different_groups_is_not_compared() -> None:
    apart = told(LAST.format(0, 9, 1, 8), LAST.format(4, 20, 3, 19))
    assert [finding.id for finding in apart] == ["watchdog-timeout"]
    same = told(LAST.format(0, 9, 1, 8), LAST.format(4, 20, 1, 19))
    assert [finding.id for finding in same] == ["rank-behind"]


def test_a_rank_that_called_less_ahead_of_one_collective_is_not_behind() -> None:
    """Both wait in 2847; how far the program runs ahead of the GPU says nothing."""
    (finding,) = told(LAST.format(0, 2855, 1, 2846), LAST.format(2, 2856, 1, 2846))
    assert finding.id == "watchdog-timeout"


@pytest.mark.parametrize("prefix", ["", "I1118 18:24:39.1 1234 builder.py:300]   "])
@pytest.mark.parametrize(
    ("head", "group", "called", "what"),
    [
        (
            ", sequence number: 31117",
            "0:default_pg",
            "all_reduce",
            "all-reduce 31117 of the default group",
        ),
        (" 5 at entry 4", "mesh_tp", "_all_gather_base", "all-gather 5 of group mesh_tp"),
    ],
)
def test_the_analysis_of_torchfrtrace_names_ranks_and_collective(
    prefix: str, head: str, group: str, called: str, what: str
) -> None:
    text = ENTRY.format(head, group, called, "scheduled")
    later = ENTRY.format(", sequence number: 99", "0:default_pg", "broadcast", "completed")
    (finding,) = told(*(f"{prefix}{line}" for line in f"{text}\n{later}".split("\n")))
    said = f"Ranks 3 and 4 did not enter {what}, by PyTorch's own analysis of dumps"
    assert (finding.id, finding.title) == ("analysis-not-joined", said)


def test_an_entry_that_ended_elsewhere_accuses_nobody() -> None:
    (finding,) = told(ENTRY.format(" 5 at entry 4", "0:default_pg", "all_reduce", "completed"))
    assert finding.title.startswith("Ranks 3 and 4 left no record of all-reduce 5")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("COLLECTIVE_TYPE_MISMATCH", "another collective"),
        ("SIZE_OR_SYNTAX_MISMATCH", "other sizes"),
        ("COLLECTIVE_STATE_MISMATCH", "another state"),
    ],
)
def test_what_the_analysis_calls_a_culprit_only_differs_from_the_first_rank(
    kind: str, said: str
) -> None:
    (finding,) = told(DIFFERS.format(kind))
    assert finding.id == "analysis-differs"
    assert finding.title == (
        f"Ranks differ in collective 12: {said} on rank 1, beside the first rank"
    )
    assert "the one that is called culprit may be right" in finding.cause


def test_a_module_that_is_loaded_leaves_the_container_as_the_first_cause() -> None:
    (found,) = [
        one
        for one in told(
            "root@101acc334128:/# rocminfo",
            "ROCk module is loaded",
            "Unable to open /dev/kfd read-write: No such file or directory",
        )
        if one.id == "hip-no-device"
    ]
    assert found.candidates[0].cause.startswith("The container or virtual machine was not given")
    assert found.candidates[-1].contradicted_by == ("ROCk module is loaded",)


def test_a_driver_that_the_runtime_does_not_find_is_missing_on_the_host() -> None:
    (found,) = told(
        "docker: Error response from daemon: nvidia-container-cli: initialization error: "
        "nvml error: driver not loaded: unknown."
    )
    assert found.id == "driver-not-running"
    assert "container" not in found.candidates[0].cause
    assert found.candidates[-1].contradicted_by
