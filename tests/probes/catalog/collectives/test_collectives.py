"""The probe collectives: what counts, what has to arrive, what a slow transport leaves out."""

from __future__ import annotations

import os
import re
import statistics
import sys
import threading
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest

from gputop.probes.catalog.collectives.operations import BY_NAME, FLOAT_BYTES, OPERATIONS
from gputop.probes.catalog.collectives.plan import (
    MEASURING_SECONDS,
    Clock,
    repeats,
    shown,
    sizes,
    steps,
)
from gputop.probes.catalog.collectives.probe import LIBRARY_BYTES
from gputop.probes.crew.steps import Step
from gputop.probes.protocol.messages import MeasuredValue, Message, Progress, WorkerRequest
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.spec import ProbeStopped
from gputop.probes.runner.client import Session
from tests.probes.catalog.collectives.made import made
from tests.support.nccl.rank_runs import made_up, rank_processes, taken_apart
from tests.support.places import SHARED
from tests.support.probe_runs import run_probe

MIB, GIB = 1 << 20, 1 << 30
CAPTURES = SHARED / "captures/hgx-h200-4gpu-vm"
REFERENCE = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
    "all_to_all": "alltoall", "send_receive": "sendrecv",
}  # fmt: skip
ROW = re.compile(
    r"^ +(\d+) +(\d+) +float +\w+ +-1 +([\d.]+) +([\d.]+) +([\d.]+) +\S+"
    r" +([\d.]+) +([\d.]+) +([\d.]+)",
    re.MULTILINE,
)


def rows(name: str) -> list[tuple[float, ...]]:
    """Size, count, then time in us, algbw and busbw out of place and in place, of nccl-tests."""
    path = CAPTURES / f"nccl-tests-{REFERENCE[name]}.txt"
    if not path.exists():
        pytest.skip("the captures are not here")
    return [tuple(map(float, row)) for row in ROW.findall(path.read_text())]


@pytest.mark.parametrize("name", REFERENCE)
def test_bandwidths_count_as_in_nccl_tests(name: str) -> None:
    """From the times that nccl-tests measured come the bandwidths that it printed."""
    operation, found = BY_NAME[name], rows(name)
    assert len(found) > 5
    for size, count, *figures in found:
        numbers = operation.numbers(int(size), 4)
        assert numbers * FLOAT_BYTES == size
        # What nccl-tests prints as count is one rank's part.
        assert numbers // (4 if operation.in_parts else 1) == count
        for micros, algbw, busbw in (figures[:3], figures[3:]):
            speed = numbers * FLOAT_BYTES / micros / 1e3
            assert speed == pytest.approx(algbw, rel=1e-3)
            assert operation.factor(4) * speed == pytest.approx(busbw, rel=1e-3)


def test_parts_are_whole_and_aligned() -> None:
    for name in ("all_gather", "reduce_scatter", "all_to_all"):
        numbers = BY_NAME[name].numbers(MIB, 3)
        assert numbers % 3 == 0
        assert numbers // 3 * FLOAT_BYTES % 16 == 0
        assert MIB - 3 * 16 < numbers * FLOAT_BYTES <= MIB
    assert BY_NAME["all_reduce"].numbers(MIB, 3) * FLOAT_BYTES == MIB
    assert [op.factor(2) for op in OPERATIONS] == [1, 0.5, 0.5, 0.5, 1, 1]
    assert BY_NAME["all_reduce"].factor(8) == 1.75


def test_what_is_compared_with_the_data_sheet_is_measured() -> None:
    compared = {op.name: op.main_variant for op in OPERATIONS if op.main_variant is not None}
    assert compared == {"all_reduce": "in place"}
    assert all(variant in BY_NAME[name].forms for name, variant in compared.items())


def test_sizes_of_the_levels() -> None:
    assert sizes("all_reduce", {"level": "quick"}, False) == (MIB, 16 * MIB, 256 * MIB, GIB)
    assert len(sizes("broadcast", {"level": "quick"}, False)) == 2
    normal = sizes("all_gather", {}, False)
    assert (normal[0], normal[-1]) == (1024, GIB)
    assert {b // a for a, b in pairwise(normal)} == {4}
    full = sizes("all_gather", {"level": "full", "large": True}, False)
    assert full[-2:] == (4 * GIB, 8 * GIB)
    assert {b // a for a, b in pairwise(full[:21])} == {2}
    assert [shown(size) for size in (1024, 16 * MIB, GIB)] == ["1 KiB", "16 MiB", "1 GiB"]


def test_the_plan_holds_each_step_once() -> None:
    plan = steps(4, {}, False)
    assert len(set(plan)) == len(plan) == 2 + 11 * sum(len(op.forms) for op in OPERATIONS)
    quick = steps(4, {"level": "quick"}, False)
    assert len(quick) == 2 + 4 + 5 * 2
    only = steps(4, {"operations": ["broadcast"]}, False)
    assert {step.name for step in only[2:]} == {"broadcast"}
    wrong: tuple[dict[str, Any], ...] = (
        {"operations": ["reduce"]}, {"operations": []}, {"level": "slow"}
    )  # fmt: skip
    for params in wrong:
        with pytest.raises(ProbeStopped):
            steps(4, params, False)


def simulated(level: str, gbs: float) -> tuple[float, set[str], list[Step]]:
    """Seconds of measuring, figures that were cut, steps left out: at this speed of a call."""
    plan = steps(4, {"level": level}, False)
    clock, now, cut, skipped = Clock(plan, MEASURING_SECONDS[level]), 0.0, set(), []
    for place, step in enumerate(plan[2:], 2):
        if not clock.begin(place, step.size_bytes):
            skipped.append(step)
            continue
        once = 20e-6 + step.size_bytes / gbs / 1e9
        now_tried = 2 * once + 0.02
        often = repeats(level, once, clock.allowed(place))
        assert often.samples >= 3
        assert often.calls >= 1
        now += now_tried + often.samples * (often.calls + 1) * once * (2 if often.held else 1)
        clock.end(now, step.size_bytes, once)
        if often.cut:
            cut.add(step.what)
    return now, cut, skipped


@pytest.mark.parametrize("level", ["quick", "normal", "full"])
def test_a_slow_transport_does_not_take_longer(level: str) -> None:
    """NVLink is measured in full; host memory less often; a network socket not at every size."""
    limit = MEASURING_SECONDS[level]
    seconds, cut, skipped = simulated(level, 240.0)
    assert seconds < 0.7 * limit
    assert (cut, skipped) == (set(), [])
    seconds, cut, skipped = simulated(level, 17.0)
    assert seconds < 1.1 * limit
    assert skipped == []
    seconds, cut, skipped = simulated(level, 0.3)
    assert seconds < 1.3 * limit
    assert cut
    if level == "quick":
        assert {step.size_bytes for step in skipped} <= {256 * MIB, GIB}
        assert GIB in {step.size_bytes for step in skipped}


def test_sizes_that_do_not_fit_are_left_out() -> None:
    here: Any = None
    one = made(here, None, 0, 2)
    # A fifth of 80 GiB is left free, and the library takes its part.
    assert one._room_bytes() == (60 * GIB - 80 * GIB // 5 - LIBRARY_BYTES) // 2
    forced = made(here, None, 0, 2, force=True)
    assert forced._room_bytes() == (60 * GIB - 256 * MIB - LIBRARY_BYTES) // 2


class Sender:
    """Takes what a member emits."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def __call__(self, message: Message) -> None:
        self.heard.append(message)


class OnGpu:
    """What a member asks of its device to report a figure."""

    kind, library = "gpu", "NCCL"


@pytest.mark.parametrize(
    ("queued", "held", "used"),
    [
        (30e-6, [20e-6, 20e-6, 21e-6], 20.0),
        (10e-6, [20e-6, 20e-6, 21e-6], 20.0),
        (10e-6, [40e-6, 90e-6, 41e-6], 32.0),
        (10e-6, [20e-6, 20e-6], 32.0),
        (30e-6, [], 32.0),
    ],
)
def test_a_figure_of_the_host_is_not_reported(
    queued: float, held: list[float], used: float
) -> None:
    """A late host can only lengthen a time: the shorter median is the figure."""
    emit = Sender()
    one = made(OnGpu(), None, 0, 4, emit, variables={"NCCL_X": "1"})
    step = Step("all_gather", "x", MIB, variant="out of place")
    often = repeats("normal", 30e-6, 1.0)

    def of_two(means: list[float]) -> list[tuple[float, ...]]:
        """Of each sample what two ranks took: the mean counts, as in nccl-tests."""
        return [(0.9 * mean, 1.1 * mean) for mean in means]

    row = of_two([32e-6, 33e-6, 31e-6])
    one._report(BY_NAME["all_gather"], step, MIB // 4, often, row, of_two(held), queued, {})
    (figure,) = emit.heard
    assert figure.details["time_us"] == used
    assert figure.details["slowest_rank_us"] == pytest.approx(1.1 * used)
    assert figure.details["in_a_row_us"] == 32.0
    assert figure.details["held_us"] == (round(1e6 * statistics.median(held), 3) if held else None)
    assert figure.details["variables"] == {"NCCL_X": "1"}
    assert figure.value == pytest.approx(MIB / used / 1e3 * 3 / 4, rel=1e-3)
    assert ("held" in figure.details["timing"]) == (used == 20.0)
    assert bool(figure.why) == (queued == 30e-6 and not held), "the host may be the limit"


def run(count: int, on_event: Any = lambda message: None, **params: Any) -> Outcome:
    params = {"device": "cpu", "count": count, **params}
    asked, worker = taken_apart(WorkerRequest("collectives", params={"set": {}, **params}))
    with mock.patch.dict(os.environ, worker):
        outcome = run_probe(asked, sys.executable, on_event, 90.0, threading.Event(), torch=True)
    assert not rank_processes()
    return outcome


def test_the_selftest_gives_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    outcome = run(count, level="normal")
    assert outcome.status == "finished", outcome
    assert outcome.hello is not None
    assert outcome.hello.device_kind == "cpu"
    found = [m for m in outcome.measurements if m.value is not None]
    lacking = {m.name for m in outcome.measurements if m.value is None}
    assert {m.name for m in found} | lacking == {f"{op.name}_busbw" for op in OPERATIONS}
    assert {"all_reduce_busbw", "broadcast_busbw", "send_receive_busbw"}.isdisjoint(lacking)
    assert {m.verdict for m in found} == {"verified"}
    for figure in found:
        operation = BY_NAME[figure.name.removesuffix("_busbw")]
        assert (figure.src, figure.dst, figure.unit) == ("", "", "GB/s")
        assert figure.variant in operation.forms
        assert figure.bytes_per_copy is not None
        assert figure.value is not None
        assert figure.minimum is not None
        assert figure.minimum <= figure.value <= (figure.maximum or 0)
        assert figure.details["ranks"] == count
        assert figure.details["variables"] == {"NCCL_P2P_DISABLE": "1"}
        assert figure.bytes_per_copy - 16 * count < figure.details["size_bytes"]
        algbw = figure.details["size_bytes"] / figure.details["time_us"] / 1e3
        assert figure.value == pytest.approx(algbw * operation.factor(count), rel=0.02, abs=2e-3)
    for gone in (m for m in outcome.measurements if m.value is None):
        assert gone.why


def test_a_rank_that_is_killed_is_named_and_nothing_stays() -> None:
    killed: list[int] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Progress) and "broadcast" in message.what and not killed:
            process = next(p for p in rank_processes() if p.name().endswith("rank1"))
            killed.append(process.pid)
            process.kill()

    changes = made_up(holds="broadcast of 16384")
    params = {"level": "quick", "operations": ["all_reduce", "broadcast"], "set": changes}
    outcome = run(2, on_event, **params)
    assert killed
    assert outcome.status == "failed"
    assert "rank 1" in outcome.message
    assert "SIGKILL" in outcome.message
    first = outcome.measurements[0]
    assert isinstance(first, MeasuredValue)
    assert (first.name, first.verdict) == ("all_reduce_busbw", "verified"), "it stands"
    last = outcome.measurements[-1]
    assert isinstance(last, MeasuredValue)
    assert (last.verdict, last.value, last.why) == ("failed", None, outcome.message)


def test_two_runs_in_one_worker_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is that of the worker: neither ranks nor logs of the first run are in the next."""
    params = {
        "device": "cpu", "count": 2, "level": "quick", "operations": ["broadcast"], "set": {},
    }  # fmt: skip
    for name, value in made_up().items():
        monkeypatch.setenv(name, value)
    heard: list[Message] = []
    with Session(sys.executable, threading.Event(), torch=True) as session:
        first = session.run(WorkerRequest("nccl", params=params), heard.append, 60)
        again = session.run(WorkerRequest("collectives", params=params), heard.append, 60)
        assert session.alive
    assert (first.status, again.status) == ("finished", "finished"), (first, again)
    assert [m.name for m in again.measurements] == ["broadcast_busbw"]
    assert again.logs == ()


def test_one_device_is_too_few() -> None:
    outcome = run(1)
    assert outcome.status == "refused"
    assert "2 GPUs" in outcome.message
