from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.milestones import Milestone
from gputop.topology.logs.report.outcome import RunOutcome, outcome_of
from gputop.topology.model.severity import RunState

READY = tuple(
    f"n1:{7 + rank}:9 [{rank}] NCCL INFO ncclCommInitRank comm 0x{rank}a rank {rank} nranks 2 "
    f"cudaDev {rank} nvmlDev {rank} busId {rank + 6}0 commId 0xc - Init COMPLETE"
    for rank in (0, 1)
)
START = tuple(line.replace("COMPLETE", "START") for line in READY)
ROW = "     1048576        262144     float     sum      -1    50.1   20.93   36.63      0"
OSU = "1                       0.23"
"""A row of the OSU micro-benchmarks: a size and a figure."""
STEP = "iteration 40 | loss 2.1 | grad_norm 0.3"
DONE = "# Avg bus bandwidth    : 33.3227"
OVER = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-02T10:00:00 DUE TO TIME LIMIT ***"
TRACE = "Traceback (most recent call last):"


def outcome(*lines: str) -> RunOutcome:
    return outcome_of(read_log([line.encode() for line in lines]))


@pytest.mark.parametrize(
    ("lines", "state", "words"),
    [
        ((*START,), RunState.STARTING, "0 of 2 ranks"),
        ((*START, READY[0]), RunState.STARTING, "1 of 2 ranks"),
        ((*READY,), RunState.SILENT, "all 2 ranks were ready"),
        ((*READY, ROW), RunState.RUNS, "rows of figures, 2 ranks"),
        ((*READY, STEP), RunState.RUNS, "makes steps"),
        ((*READY, ROW, DONE), RunState.FINISHED, "came to its end, 2 ranks"),
        ((*START, TRACE), RunState.FAILED, "set up: 0 of 2 ranks"),
        ((*READY, TRACE), RunState.FAILED, "after all 2 ranks were ready"),
        ((*READY, STEP, TRACE), RunState.FAILED, "after it had made steps"),
        ((*READY, ROW, DONE, "exit code: 1"), RunState.FAILED, "after it had come to its end"),
        ((TRACE, *READY, STEP), RunState.RUNS, "makes steps"),
        (("exits with return code = -9",), RunState.FAILED, "ended badly"),
        (("# nThread 1 step: 2(factor)", "plain text"), RunState.UNKNOWN, ""),
    ],
)
def test_the_last_lines_tell_what_became_of_a_run(
    lines: tuple[str, ...], state: RunState, words: str
) -> None:
    found = outcome(*lines)
    assert found.state is state
    assert words in found.sentence


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (ROW, Milestone.ROWS),
        (ROW.replace("float", "bfloat16"), Milestone.ROWS),
        (OSU, Milestone.ROWS),
        (f"[1,0]<stdout>:{OSU}", Milestone.ROWS),
        (STEP, Milestone.MOVING),
        ("{'loss': 1.4, 'learning_rate': 1e-5}", Milestone.MOVING),
        (" 33%|###  | 1/3 [00:01<00:02,  1.0it/s]", Milestone.MOVING),
        ('INFO: 10.0.0.1:7 - "POST /v1/completions HTTP/1.1" 200 OK', Milestone.MOVING),
        ("INFO:     Application startup complete.", Milestone.SERVING),
        (DONE, Milestone.FINISHED),
        ("Segmentation fault (core dumped)", Milestone.ENDED),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED", Milestone.ENDED),
        ("exitcode  : -6 (pid: 12)", Milestone.ENDED),
    ],
)
def test_a_line_shows_a_milestone(line: str, what: Milestone) -> None:
    (found,) = read_log([b"first", line.encode()]).milestones
    assert (found.what, found.lines) == (what, (2,))


@pytest.mark.parametrize(
    "line",
    ["no loss of data", "exit code 0 is success: exitcode : 0", "a step further", "", f"{OSU} us"],
)
def test_other_lines_show_no_bad_end_and_no_step(line: str) -> None:
    shown = {one.what for one in read_log([line.encode()]).milestones}
    assert not shown & {Milestone.ENDED, Milestone.MOVING, Milestone.ROWS}


def test_of_many_lines_the_first_ones_and_the_last_are_kept() -> None:
    lines = [f"iteration {number} loss 1.0".encode() for number in range(200_000)]
    (found,) = read_log(lines).milestones
    assert found.lines[0] == 1
    assert found.lines[-1] == len(lines)
    assert len(found.lines) < 1000


@pytest.mark.parametrize(
    "line",
    [
        "Global Step: 141000",
        "Resuming training from checkpoint at step 3000",
        "Total optimization steps = 500",
        "warmup steps: 100",
    ],
)
def test_a_number_of_steps_that_is_loaded_or_planned_is_no_step_made(line: str) -> None:
    ended = (TRACE, "RuntimeError: HIP error: invalid device function")
    assert "steps" not in outcome(line, *ended).sentence
    assert "steps" in outcome("step 12/500 loss 2.1", *ended).sentence
    assert "steps" in outcome("[step 12] global step: 12 lr 1e-4", *ended).sentence


@pytest.mark.parametrize(
    ("lines", "state", "words"),
    [
        ((*READY, STEP, OVER), RunState.FAILED, "time was over after it had made steps"),
        ((*START, OVER), RunState.FAILED, "the scheduler ended the job"),
        ((*READY, OVER, ROW, DONE), RunState.FINISHED, "came to its end, 2 ranks"),
    ],
)
def test_a_scheduler_may_end_a_run(lines: tuple[str, ...], state: RunState, words: str) -> None:
    found = outcome_of(read_log([line.encode() for line in lines], signs=known_signs()))
    assert found.state is state
    assert words in found.sentence


BAR = "Epoch 0:   6%|##   | 32040/500150 [6:28:43<94:39:17,  1.37it/s, loss=2.6]"
LATE = (
    "[E ProcessGroupNCCL.cpp:458] [Rank 7] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=64088, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25625251 milliseconds "
    "before timing out."
)


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ([f"{BAR}{LATE}"], RunState.UNKNOWN),  # a bar ends in no newline
        ([BAR, LATE], RunState.UNKNOWN),
        ([LATE, BAR], RunState.RUNS),  # somebody told the watchdog to end nothing
        ([BAR], RunState.RUNS),
    ],
)
def test_no_run_goes_on_whose_collective_timed_out(lines: list[str], state: RunState) -> None:
    assert outcome(*lines).state is state
