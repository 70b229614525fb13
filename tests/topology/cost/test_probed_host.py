"""Steps of two H200 with what `gputop probe launch` had measured on their host just before.

The code that predicts was committed before each run, the factor came from the host. What the first
run measured is `two_gpus_probed.json`. `two_gpus_told.json` has the second one with what was told
before it: 32 steps, half of them within 8.3 %, the worst, of DDP with small batches, 34 % too
short. There the host and the GPU take about as long, and the step is longer than either. That was
mended, and `two_gpus_again.json` has a third one, told by the model as it is now: 18 steps, half of
them within 7.1 %, the worst, of a pipeline with small batches, 25 % too short.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest

from gputop.topology.cost.layer import launches_here
from gputop.topology.cost.memory import KernelStyle
from gputop.topology.cost.peak import memory_peak
from gputop.topology.cost.step import StepTime, step_time
from gputop.topology.model.snapshot import Measurement
from tests.harness.training import predict
from tests.harness.training.plans import TrainingRun, shape_of

HERE = Path(__file__).parent
RECORDED: dict[str, dict[str, Any]] = {
    name: json.loads((HERE / f"two_gpus_{name}.json").read_text(encoding="utf-8"))
    for name in ("probed", "told", "again")
}
FACTORS = {"probed": 3.99, "told": 3.78, "again": 2.97}
COUNTS = {"probed": 10, "told": 32, "again": 18}
NAMES = TrainingRun.__dataclass_fields__


@cache
def factor(name: str) -> float | None:
    return launches_here(msgspec.convert(RECORDED[name]["probed"], tuple[Measurement, ...]))


@cache
def predicted(name: str, run: TrainingRun) -> tuple[float, float]:
    shape, way = predict.model(shape_of(run.shape)), predict.WAYS[run.layout]
    plan = predict.plan(run, factor(name) or 1.0)
    assert plan.style is KernelStyle.EAGER
    time = step_time(shape, way, plan, predict.rates("H200-SXM"), predict.wires(run.p2p))
    assert isinstance(time, StepTime)
    return time.step_s, memory_peak(shape, way, plan).allocated


def rows(name: str) -> Iterator[tuple[TrainingRun, dict[str, Any]]]:
    for row in RECORDED[name]["runs"]:
        yield TrainingRun(**{field: row[field] for field in NAMES}), row


def differing(name: str) -> Iterator[tuple[TrainingRun, TrainingRun]]:
    """Runs of one model, batch and host whose layouts differ by over a tenth, the slower first.

    Ten steps of each were measured: where their spreads overlap, neither is the slower one.
    """
    for one, first in rows(name):
        for other, second in rows(name):
            alike = (one.shape, one.batch) == (other.shape, other.batch)
            slower = first["step_s"] > 1.1 * second["step_s"]
            apart = first["fastest_s"] > second["slowest_s"]
            if alike and one.layout != other.layout and slower and apart:
                yield one, other


@pytest.mark.parametrize("name", RECORDED)
def test_the_host_launches_three_to_four_times_as_slowly_as_a_usual_one(name: str) -> None:
    assert factor(name) == pytest.approx(FACTORS[name], abs=0.01)


@pytest.mark.parametrize("name", RECORDED)
def test_the_median_is_within_twelve_percent_and_memory_within_four(name: str) -> None:
    found = [(predicted(name, run), row) for run, row in rows(name)]
    errors = [abs(told[0] / row["step_s"] - 1) for told, row in found]
    assert len(errors) == COUNTS[name]
    assert median(errors) < 0.12
    assert max(errors) < 0.35
    assert max(abs(told[1] / row["peak_bytes"] - 1) for told, row in found) < 0.04


@pytest.mark.parametrize(
    ("name", "middle", "worst", "memory"), [("told", 8.25, 34.1, 3), ("again", 7.08, 24.5, 3)]
)
def test_what_was_told_before_the_run_was_within_twelve_percent(
    name: str, middle: float, worst: float, memory: float
) -> None:
    runs = [row for _, row in rows(name)]
    errors = [abs(row["told_step_ms"] / 1e3 / row["step_s"] - 1) for row in runs]
    assert 100 * median(errors) == pytest.approx(middle, abs=0.05)
    assert 100 * max(errors) == pytest.approx(worst, abs=0.1)
    peaks = [abs(row["told_peak_gb"] * 1e9 / row["peak_bytes"] - 1) for row in runs]
    assert 100 * max(peaks) < memory


def test_half_of_the_steps_are_within_eight_percent_now() -> None:
    errors = [abs(predicted("told", run)[0] / row["step_s"] - 1) for run, row in rows("told")]
    assert median(errors) < 0.08
    assert max(errors) < 0.31


@pytest.mark.parametrize("name", RECORDED)
def test_layouts_that_differ_stand_in_their_order(name: str) -> None:
    wrong = [
        (one.key, other.key)
        for one, other in differing(name)
        if predicted(name, one)[0] <= predicted(name, other)[0]
    ]
    assert len(list(differing(name))) >= COUNTS[name] // 2
    assert wrong == []
