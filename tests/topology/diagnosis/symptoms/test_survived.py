"""Warnings that a run survived are no causes, whatever row of the table they are of."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gputop.topology.diagnosis.symptoms.explain import explain, known_signs, table, unexplained
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.severity import BROKEN, NOTICE
from tests.harness.injection.__main__ import accused
from tests.harness.injection.runs import READY, ROW, START, runs
from tests.harness.injection.warnings import of_source, of_table
from tests.topology.logs.report.test_outcome import DONE, STEP, TRACE

UNHEARD = ("*",)
UNKNOWN = "n1:7:9 [0] misc/flux.cc:12 NCCL WARN The flux capacitor is low"
RUNS = {
    "nccl-tests": ((*START,), (*READY, ROW, ROW, DONE)),
    "training": ((*START,), (*READY, STEP, STEP, "Training completed")),
    "serving": (
        (*START,),
        (*READY, "INFO: Application startup complete.", 'INFO: "POST /v1/x HTTP/1.1" 200 OK'),
    ),
}
FULL = next(
    line for row in table() if row.id == "shm-full" for line in row.shown if " WARN " in line
)
SHARE = 4
"""So many warnings of the table are put into each run; the harness puts in all, one by one."""


def read(*lines: str) -> ReadLog:
    return examine(read_log([line.encode() for line in lines], signs=known_signs()), None)


def test_no_warning_of_the_table_accuses_a_run_that_came_to_its_end() -> None:
    warnings, wrong = of_table(), {}
    for name, run in runs().items():
        rolls = Random(name)
        shown = rolls.sample(sorted(warnings), SHARE)
        at = rolls.choice(run.places)
        if found := accused(run.with_warnings(*(warnings[one] for one in shown), at=at)):
            wrong[name, at] = (found, shown)
    assert (len(runs()), wrong) == (20, {})


def test_every_warning_of_a_source_is_found(tmp_path: Path) -> None:
    source = 'WARN("a %s of %zu%%: \\"%" PRIu64 "\\"\\n", x, y);\n  WARN(\n "b "\n "%5.2f");'
    (tmp_path / "net.cc").write_text(source)
    assert set(of_source(tmp_path)) == {'a mlx5_0 of 3%: "3"', "b 2.50"}


@pytest.mark.parametrize("run", RUNS)
def test_a_warning_in_unknown_words_is_kept_and_accuses_nobody(run: str) -> None:
    before, behind = RUNS[run]
    said = read(*before, UNKNOWN, *behind)
    (finding,) = said.findings
    assert finding.severity is NOTICE
    assert finding.evidence[0].line == len(before) + 1
    assert not said.unexplained


def test_the_same_warning_counts_where_the_run_ends_behind_it() -> None:
    full = FULL
    for lines in ((*START, full), (*START, full, TRACE), (*READY, ROW, full, TRACE)):
        assert "shm-full" in [one.id for one in read(*lines).findings if one.severity.counts]


def test_a_check_that_reads_warnings_alone_is_survived_like_them() -> None:
    line = "n1:7:9 [0] graph/xml.h:12 NCCL WARN Attribute busid of node nic not found"
    before, behind = RUNS["nccl-tests"]
    assert not [one for one in read(*before, line, *behind).findings if one.severity.counts]
    assert [one for one in read(*before, line).findings if one.severity.counts]


def test_a_start_that_is_tried_again_disproves_nothing() -> None:
    full = FULL
    again = read(*START, full, TRACE, *READY, ROW, DONE)
    assert "shm-full" in [one.id for one in again.findings if one.severity.counts]


def test_a_rank_that_is_ready_elsewhere_says_nothing_of_this_host() -> None:
    full = FULL.replace("node1", "n2")
    assert "n2" in full
    other = read(*START, full, *READY)
    assert "shm-full" in [one.id for one in other.findings if one.severity.counts]


def test_lines_of_ras_are_never_a_cause() -> None:
    line = "n1:7:9 [0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address in use"
    log = read_log([line.encode()], signs=known_signs())
    assert not [one for one in explain(log) if one.severity.counts]
    assert not unexplained(log)


TIME_OVER = (
    "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-21T10:00:00 DUE TO TIME LIMIT ***"
)


def test_steps_that_are_printed_behind_the_end_of_the_time_are_older() -> None:
    found = read(*READY, STEP, TIME_OVER, STEP, "srun: Job step aborted: Waiting up to 32 seconds")
    assert [(one.id, one.severity) for one in found.findings] == [
        ("job-ended-by-scheduler", BROKEN)
    ]
    assert "whose time was over after it had made steps" in found.outcome.sentence


def test_a_step_whose_time_was_over_ends_no_job_that_came_to_its_end() -> None:
    found = read(*READY, STEP, TIME_OVER, STEP, "Training completed")
    assert [one.severity for one in found.findings] == [NOTICE]
    assert "came to its end" in found.outcome.sentence
