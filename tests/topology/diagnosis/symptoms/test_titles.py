"""Titles that name the collective, the ranks and the time, by what the lines say."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import explain, known_signs
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.finding import Finding

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
