"""What is decided while a suite runs and after it, at its borders."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from gputop.measuring import attended, running
from gputop.measuring.attended import Attended, _Line
from gputop.measuring.busy import BusyAnswer
from gputop.measuring.nccl_check import _ceiling, _finished, _predict, _speeds
from gputop.measuring.planning import plan
from gputop.measuring.running import Suite, Workers, _fair
from gputop.measuring.runs import to_measurement
from gputop.probes.protocol.messages import MeasuredValue
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import Status
from gputop.probes.runner.interpreters import Interpreter, InterpreterChoice
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.readings import GpuReading
from gputop.topology.model.snapshot import Measurement
from tests.support.rule_cases import base
from tests.support.runs import run_of, suite_of

A, B = "0000:01:00.0", "0000:02:00.0"
GIB = 1 << 30
FREE = BusyAnswer()
TWO = Machine(gpus=tuple(Gpu(address=address, vendor="nvidia") for address in (A, B)))


def reading(address: str = A, **facts: Any) -> GpuReading:
    return GpuReading(address=address, **{"processes": (), **facts})


@pytest.mark.parametrize(
    ("status", "given", "usual", "fair"),
    [
        ("timed-out", 5.0, 9.0, Status.FAILED),
        ("timed-out", 9.0, 9.0, Status.TIMED_OUT),
        ("timed-out", None, 9.0, Status.TIMED_OUT),
        ("died", 5.0, 9.0, Status.DIED),
    ],
)
def test_a_deadline_that_was_too_short_accuses_nobody(
    status: str, given: float | None, usual: float, fair: Status
) -> None:
    run = run_of("gemm")
    planned = replace(
        run,
        estimate_seconds=usual,
        request=msgspec.structs.replace(run.request, deadline_seconds=given),
    )
    kept: Any = SimpleNamespace(verdict="finished")
    late: Any = SimpleNamespace(verdict=Status.TIMED_OUT)
    outcome = Outcome(Status(status), "as it was", 1.0, measurements=(kept, late))
    found = _fair(outcome, planned)
    assert found.status == fair
    if fair is Status.FAILED:
        assert found.measurements == (kept,)
        assert found.message.startswith("No end after 5 s, as long as was allowed; about 9 s")
    else:
        assert found is outcome


class Looks:
    """A guard, and workers that note what a suite asks of them."""

    def __init__(self, verdict: BusyAnswer = FREE, later: BusyAnswer = FREE) -> None:
        self.verdict, self.later, self.again = verdict, later, 0
        self.patient: list[bool] = []

    def begin(self, *, patient: bool = True) -> Any:
        self.patient.append(patient)
        return lambda: self.verdict

    def recheck(self) -> BusyAnswer:
        self.again += 1
        return self.later


class Worker:
    """A worker that ends each probe as it is told to."""

    ends: tuple[Status, ...] = ()
    alive = False

    def __init__(self, *given: Any, **more: Any) -> None:
        self.asked = 0

    def begin(self) -> None:
        pass

    def close(self) -> None:
        pass

    def run(self, message: Any, listener: Any, seconds: float, *, last: bool) -> Outcome:
        listener(SimpleNamespace())
        status = self.ends[min(self.asked, len(self.ends) - 1)] if self.ends else Status.FINISHED
        self.asked += 1
        return Outcome(status, f"{status.value} here", 1.0)


PYTHON = Interpreter("/py", "PATH", "3.12", "2.11", "13.0")
FOUND = InterpreterChoice(PYTHON, (PYTHON,))


def ran(
    looks: Looks, *names: str, force: bool = False, ends: tuple[Status, ...] = ()
) -> tuple[Any, list[Any]]:
    events: list[Any] = []
    worker = type("Ends", (Worker,), {"ends": ends})
    suite = Suite(
        plan(names or ("host", "memory"), TWO, (A, B), force=force, python="/py"),
        events.append, threading.Event(), session=worker, guard=looks,
        find=lambda *asked: FOUND, own=lambda *asked: FOUND,
    )  # fmt: skip
    return suite.run(), events


def test_a_suite_looks_for_strangers_before_each_probe_but_the_first() -> None:
    looks = Looks(later=BusyAnswer(("one is in use",)))
    state, _ = ran(looks)
    first, second = state.steps
    assert (first.status, second.status, looks.again) == ("finished", "refused", 1)
    assert (first.forcible, second.forcible, state.forcible) == (False, True, True)
    assert (state.running, looks.patient) == (False, [True])
    assert second.text.startswith("one is in use. Nothing was measured")
    forced = Looks(later=BusyAnswer(("one is in use",)))
    state, _ = ran(forced, force=True)
    assert [step.status for step in state.steps] == ["finished", "finished"]
    assert (forced.again, forced.patient, state.forcible) == (0, [False], False)


def test_a_suite_does_not_begin_on_gpus_in_use() -> None:
    state, _ = ran(Looks(BusyAnswer(("one is in use",), ("two is silent",))))
    assert [(step.status, step.forcible, step.blind) for step in state.steps] == [
        ("refused", True, ("two is silent",))
    ] * 2
    state, _ = ran(Looks(BusyAnswer(("one is in use",), ("two is silent",))), force=True)
    assert [(step.status, step.blind) for step in state.steps] == [
        ("finished", ("two is silent",))
    ] * 2


def test_what_ends_a_suite_ends_its_later_probes() -> None:
    state, _ = ran(Looks(), ends=(Status.TIMED_OUT, Status.FINISHED))
    assert state.steps[0].status == "timed-out"
    assert state.steps[0].done == 0
    whole, _ = ran(Looks())
    assert [step.done == step.total for step in whole.steps] == [True, True]
    assert whole.text.startswith("2 of 2 probes finished in 0 s.")


def workers(choice: InterpreterChoice = FOUND, **more: Any) -> Workers:
    made = Workers(
        Worker, plan(("nccl", "host"), TWO, (A, B), **more), threading.Event(),
        lambda *asked: choice, lambda *asked: FOUND,
    )  # fmt: skip
    made.look()
    return made


@pytest.mark.parametrize(
    ("gpu_build", "named", "turns"),
    [("13.0", None, True), (None, None, False), ("13.0", "/own/libnccl.so", False)],
)
def test_torch_helps_only_where_it_is_for_gpus(
    monkeypatch: pytest.MonkeyPatch, gpu_build: str | None, named: str | None, turns: bool
) -> None:
    library = SimpleNamespace(path="/lib", how_found="found")
    monkeypatch.setattr(running, "library_for", lambda choice: library)
    python = Interpreter("/py", "PATH", "3.12", "2.11", gpu_build)
    made = workers(InterpreterChoice(python, (python,)), nccl_lib=named)
    nccl = next(step for step in made._plan.steps if step.name == "nccl")
    assert made.takes_torch(nccl) is False
    assert made.can_turn_to_torch(nccl) is turns
    assert made.takes_torch(nccl) is turns
    assert made.can_turn_to_torch(nccl) is False


def test_that_no_library_was_found_is_said_where_no_torch_is_for_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "library_for", lambda choice: None)
    for build, status, said in (
        (None, Status.NO_TORCH, True), (None, Status.REFUSED, True), (None, Status.DIED, False),
        ("13.0", Status.NO_TORCH, False),
    ):  # fmt: skip
        python = Interpreter("/py", "PATH", "3.12", "2.11", build)
        made = workers(InterpreterChoice(python, (python,)))
        nccl = next(step for step in made._plan.steps if step.name == "nccl")
        advised = made.advised(nccl, Outcome(status, "why", 1.0)).message
        assert advised == (f"why {running._NO_LIBRARY}" if said else "why")
        host = next(step for step in made._plan.steps if step.name == "host")
        assert made.advised(host, Outcome(status, "why", 1.0)).message == "why"
        assert (made.is_last(host), made.is_last(nccl)) == (True, True)


class FakeSuite:
    """A suite that puts these events."""

    events: Sequence[Any] = ()

    def __init__(self, planned: Any, put: Any, cancel: threading.Event) -> None:
        self.put, self.cancel = put, cancel

    def run(self) -> None:
        for event in self.events:
            if isinstance(event, BaseException):
                raise event
            self.put(event)


def test_who_attends_a_suite_hears_each_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of("host")
    state = suite_of(run)
    before = signal.getsignal(signal.SIGINT)
    for simulated in (False, True):
        monkeypatch.setattr(FakeSuite, "events", [FOUND, state, run])
        one = Attended(plan(("host",), TWO, (A,)), FakeSuite)  # type: ignore[arg-type]
        one._plan = SimpleNamespace(simulated=simulated)  # type: ignore[assignment]
        assert list(one.ends()) == [run]
        assert (one.state, one.interrupted, one.stopped) == (state, False, False)
        assert ("/py" in capsys.readouterr().err) is not simulated
        assert one._cancel.is_set()
        assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.setattr(FakeSuite, "events", [ZeroDivisionError("x")])
    with pytest.raises(ZeroDivisionError):
        list(Attended(one._plan, FakeSuite).ends())  # type: ignore[arg-type]


def test_ctrl_c_and_a_stop_leave_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Attended(SimpleNamespace(simulated=True), FakeSuite)  # type: ignore[arg-type]
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    before = signal.getsignal(signal.SIGINT)
    with one._interrupts():
        signal.raise_signal(signal.SIGINT)
        assert (one.interrupted, one._give_up, one._cancel.is_set()) == (True, 60.0, True)
        one.stop()
        assert (one.stopped, one._give_up) == (True, 51.0)
        signal.raise_signal(signal.SIGINT)
        assert one._give_up == 0.0
        assert signal.getsignal(signal.SIGINT) is before
    assert list(one._ends()) == []
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with one._interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_progress_is_one_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(attended, "overwrite", lines.append)
    monkeypatch.setattr(attended, "clean", lambda text, most: text[:most])
    for terminal in (True, False):
        monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: terminal))  # noqa: B023
        line = _Line()
        line.close()
        over = run_of("host")
        now = run_of("gemm", "running", what="fp8", done=2, total=5)
        line.show(suite_of(over, now))
        line.show(suite_of(run_of("gemm", "running", what="x")))
        line.show(suite_of(over))
        line.close()
        line.close()
    left = suite_of(over, now).left_seconds
    assert lines == [f"[2/2, {left:.0f} s left] gemm 2/5 fp8", "gemm x", ""]
    monkeypatch.setattr(sys, "stderr", None)
    assert _Line()._terminal is False


def test_what_a_check_of_nccl_takes_from_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(quantity: str, value: float = 1.0, **facts: Any) -> Measurement:
        return Measurement(probe="nccl", quantity=quantity, value=value, unit="GB/s", **facts)

    ends = [one("collective_finishes", verdict=word) for word in ("finished", "hangs", "finished")]
    assert _finished(run_of("nccl", measurements=tuple(ends))) == "hangs"
    assert _finished(run_of("nccl", measurements=tuple(ends[:1]))) == "finished"
    assert _finished(run_of("nccl")) is None
    speeds = _speeds(
        run_of(
            "nccl",
            measurements=(
                one("all_reduce_busbw", 7.0, bytes_per_copy=64),
                one("all_reduce_algbw", 4.0, bytes_per_copy=64),
                one("all_reduce_busbw", 5.0),
            ),
        )
    )
    assert [(s.bytes, s.algbw_gbs, s.busbw_gbs) for s in speeds] == [(0, None, 5.0), (64, 4.0, 7.0)]
    ring = SimpleNamespace(channels=3, bw_intra=20.1234)
    for made, gbs in (
        (None, None),
        (SimpleNamespace(nodes=2, graphs=SimpleNamespace(ring=ring)), None),
        (SimpleNamespace(nodes=1, graphs=SimpleNamespace(ring=None)), None),
        (SimpleNamespace(nodes=1, graphs=SimpleNamespace(ring=ring)), 60.37),
    ):
        assert _ceiling(made) == gbs  # type: ignore[arg-type]
    live = base("hgx-h200-4gpu-live")
    gpus = tuple(gpu.address for gpu in live.machine.gpus)
    assert _predict(live, {}, None, gpus[:2]).ranks == 2
    assert _predict(live, {}, None, ()).ranks == 4


def test_a_plan_says_what_it_costs() -> None:
    for names, simulated in ((("gemm",), False), (("host", "gemm"), False), (("gemm",), True)):
        made = msgspec.structs.replace(plan(names, TWO, (A, B)), simulated=simulated)
        said = made.sentence
        assert said.startswith(f"{len(names)} probe{'s' * (len(names) > 1)} on 2 GPUs at the level")
        assert ("one after the other" in said) is (len(names) > 1)
        assert said.endswith("no GPU is measured") is simulated
        assert (" of the host" in said) is (made.host_memory_bytes > 0 and not simulated)
    assert " on 1 GPU at" in plan(("gemm",), TWO, (A,)).sentence
    assert "CPU devices of the self-test" in plan(("gemm",), TWO, selftest=True).sentence


def test_what_a_worker_said_of_a_figure_is_kept() -> None:
    said = MeasuredValue("f", "a", "", "m/1", "gpu", "", "", counted="bytes sent", variant="bf16")
    kept = to_measurement(said, "gemm", None)
    assert (kept.counted, kept.variant, kept.src, kept.dst) == ("bytes sent", "bf16", "a", None)
    bare = to_measurement(replace(said, counted="", variant="", src="", dst="b"), "gemm", None)
    assert (bare.counted, bare.variant, bare.src, bare.dst) == (None, None, None, "b")
