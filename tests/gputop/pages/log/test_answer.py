"""The first two lines of a log's text."""

from __future__ import annotations

import pytest

from gputop.pages.log.sections import plain_text
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.logs.reading.read import read_log

LATE = (
    "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600020 milliseconds before timing out."
)


def first(*lines: str) -> list[str]:
    """What stands above the section Log."""
    read = examine(read_log(line.encode() + b"\n" for line in lines), None)
    text = plain_text(read, 160)
    return [line.strip() for line in text.partition("Log\n")[0].splitlines() if line.strip()]


def test_the_worst_finding_and_its_first_step_come_first() -> None:
    title, step = first(LATE)
    assert title == (
        "✗  A collective did not end in time: all-reduce 808 on rank 1, given up after 10 min"
    )
    assert step.startswith("Fix: find the missing rank · Look: which rank has no such message")


def test_further_findings_are_counted() -> None:
    title, step = first(LATE, "h:1:1 [0] NCCL WARN no algorithm/protocol available for function x")
    assert title == "✗  The variables leave no algorithm to use"
    assert step.endswith("· 1 more finding below")


@pytest.mark.parametrize("text", ["nothing known", "h:1:1 [0] NCCL INFO comm 0x1 rank 0"])
def test_without_a_finding_the_version_comes_first(text: str) -> None:
    assert first(text) == []
