"""What is decided before, while and after measuring, at its borders."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.measuring import busy, guard
from gputop.measuring.announcing import idle_gpus
from gputop.measuring.busy import BusyAnswer, judge, look, refusal, sample, strangers
from gputop.measuring.expected import Expectations, Expecting, as_json, main_figures, title
from gputop.measuring.guard import HANGS, Guard, idle, open_drivers, own_pids
from gputop.measuring.history import SavedFigure, SavedRun
from gputop.measuring.history_compare import compare, compare_last
from gputop.measuring.running import summary
from gputop.probes.protocol.status import ProbeLevel
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.readings import GpuProcess, GpuReading, GpuUse
from gputop.topology.model.snapshot import Measurement
from gputop.topology.model.source import SourceAbsent
from tests.support.rule_cases import base
from tests.support.runs import run_of

UNHEARD = ("*",)
A, B = "0000:01:00.0", "0000:02:00.0"
GIB = 1 << 30
FREE = BusyAnswer()
TWO = Machine(gpus=tuple(Gpu(address=address, vendor="nvidia") for address in (A, B)))


def reading(address: str = A, **facts: Any) -> GpuReading:
    return GpuReading(address=address, **{"processes": (), **facts})


def process(pid: int, kind: GpuUse = GpuUse.COMPUTE, memory: int | None = GIB) -> GpuProcess:
    return GpuProcess(pid=pid, kind=kind, memory_bytes=memory)


def memory(used: float, free: float, **facts: Any) -> GpuReading:
    used_bytes, free_bytes = int(used * GIB), int(free * GIB)
    return reading(memory_used_bytes=used_bytes, memory_free_bytes=free_bytes, **facts)


def working(*percents: float | None) -> list[list[GpuReading]]:
    return [[reading(utilization_percent=percent)] for percent in percents]


@pytest.mark.parametrize(
    ("samples", "said", "blind", "only"),
    [
        (working(5.0, 5.0, 5.0), (), (), False),
        (working(5.1, 0.0, 5.0), (), (), False),
        (working(5.1, None, 97.4), ("one works: 97 % utilisation",), (), True),
        ([[reading(B)]], (), ("one: no reading, so nothing tells whether it is in use",), False),
        ([[reading(processes=None)]], (), ("one: the driver does not list its processes",), False),
        ([[memory(80, 20, processes=(process(7, GpuUse.GRAPHICS),))]], (), (), False),
        (
            [[memory(81, 19, processes=(process(7, GpuUse.GRAPHICS),))]],
            ("one has only 19 % of its memory free",), (), False,
        ),
        ([[memory(10, 90)]], (), (), False),
        (
            [[memory(11, 89)]],
            ("one: 11.0 GiB, 11 % of its memory is held by a process that the driver does not "
             "list",), (), False,
        ),
        ([[memory(11, 89, processes=(process(9, memory=None),))]],
         ("one is in use by process 9",), (), False),
        ([[memory(0, 0)]], (), (), False),
        ([[reading(processes=(process(5), process(1, memory=0)))]], (), (), False),
        (
            [[memory(30, 70, processes=tuple(map(process, (9, 8, 7))))]],
            ("one is in use by processes 7, 8, 9 (3.0 GiB, 3 % of its memory)",), (), False,
        ),
        (
            [[reading(processes=tuple(map(process, (9, 8, 7, 6))), memory_used_bytes=5)]],
            ("one is in use by processes 6, 7, 8, ...",), (), False,
        ),
    ],
)  # fmt: skip
def test_what_counts_as_use(
    samples: list[list[GpuReading]], said: tuple[str, ...], blind: tuple[str, ...], only: bool
) -> None:
    found = judge(samples, (A,), {A: "one"}, own_pids=(5,))
    assert (found.busy, found.blind, found.only_utilization) == (said, blind, only)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=100.0)
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    monkeypatch.setattr(time, "sleep", lambda seconds: setattr(made, "now", made.now + seconds))
    return made


def in_turn(*samples: list[GpuReading]) -> Any:
    left = list(samples)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_three_samples_are_taken_apart(clock: SimpleNamespace) -> None:
    assert sample(in_turn(*working(1.0, 2.0, 3.0, 4.0))) == working(1.0, 2.0, 3.0)
    assert clock.now == pytest.approx(100.3)
    stopped = threading.Event()
    stopped.set()
    sample(in_turn(*working(1.0)), stopped)
    assert clock.now == pytest.approx(100.3)


def test_work_that_just_ended_is_waited_for(clock: SimpleNamespace) -> None:
    calm = look(in_turn(*working(9.0, 9.0, 9.0, 0.0, 0.0)), (A,), {A: "one"})
    assert (calm.busy, clock.now) == ((), pytest.approx(100.6))
    clock.now = 100.0
    assert look(in_turn(*working(9.0)), (A,), {A: "one"}).only_utilization
    assert clock.now == pytest.approx(100.3 + 1.5, abs=0.01)
    clock.now = 100.0
    assert look(in_turn([reading(processes=(process(4),))]), (A,), {}).busy
    assert clock.now == pytest.approx(100.3)


def test_a_stranger_is_named_unless_it_goes_at_once(clock: SimpleNamespace) -> None:
    there, gone = [reading(processes=(process(4),))], [reading()]
    assert strangers(in_turn(there, there, gone), (A, B), {}, set).busy == ()
    assert clock.now == pytest.approx(100.1)
    assert strangers(in_turn(there), (A,), {}, lambda: {4}).busy == ()
    clock.now = 100.0
    said = strangers(in_turn(there), (A,), {A: "one"}, set).busy
    assert said == ("one is in use by process 4 since this began",)
    assert clock.now == pytest.approx(101.0, abs=0.06)
    assert refusal(BusyAnswer(("a", "b"))).startswith("a; b. Nothing was measured: --gpus")


class Told:
    """A driver that answers, is absent, or fails."""

    def __init__(self, name: str, *answers: Any) -> None:
        self.id, self.answers, self.opened = name, list(answers), 0

    def reader(self) -> Any:
        self.opened += 1
        return lambda: self.answers.pop(0)

    def parse(self, answer: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_any_driver_that_answers_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        guard, "merge_readings", lambda parts: SimpleNamespace(gpus=[p for p in parts if p != "-"])
    )
    absent, failed = SourceAbsent("none here"), OSError("broken")
    one, other = (
        Told("a", "x", failed, "x", absent, absent),
        Told("b", "-", "y", failed, failed, "-"),
    )
    read: Any = open_drivers([one, other])  # type: ignore[list-item]
    assert (read(), read(), read()) == (["x"], ["y"], ["x"])
    with pytest.raises(OSError, match="broken"):
        read()
    with pytest.raises(SourceAbsent, match="none here"):
        read()
    assert (one.opened, other.opened) == (2, 3)
    with pytest.raises(SourceAbsent, match="no driver shows a GPU"):
        open_drivers([])()


def test_a_guard_asks_as_patiently_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    opened: list[int] = []

    def looks(*given: Any) -> BusyAnswer:
        asked.append(given[-1])
        return BusyAnswer(("x",))

    def opens() -> Any:
        opened.append(1)
        return list

    monkeypatch.setattr(busy, "look", looks)
    watch = Guard((A,), {A: "one"}, threading.Event(), opens)
    assert [watch.begin()().busy, watch.begin(patient=False)().busy] == [("x",)] * 2
    assert (asked, opened) == ([busy.CALM_SECONDS, 0.0], [1])
    assert Guard((), {}, threading.Event()).begin()() == BusyAnswer()

    def fails() -> Any:
        raise OSError("no driver")

    said = Guard((A,), {}, threading.Event(), fails).recheck()
    assert said.blind == ("whether the GPUs are in use is unknown: no driver",)
    monkeypatch.setattr(guard, "DEADLINE_SECONDS", 0.0)
    cancelled, never = threading.Event(), threading.Event()
    monkeypatch.setattr(busy, "look", lambda *given: never.wait() and BusyAnswer())
    waiting = Guard((A,), {}, cancelled, lambda: list).begin()
    assert waiting() == BusyAnswer(busy=(HANGS,))
    cancelled.set()
    assert waiting() == BusyAnswer()
    never.set()


def test_idle_gpus_are_told_from_busy_ones(clock: SimpleNamespace) -> None:
    names = {A: "one", B: "two"}
    mixed = [reading(processes=(process(4),)), reading(B, processes=None)]
    found = guard._look((A, B), names, lambda: in_turn(mixed))
    assert (found.free, found.busy) == ((B,), ((A, "one is in use by process 4"),))
    assert found.blind == ("two: the driver does not list its processes",)
    clock.now = 100.0
    calm = guard._look((A,), names, lambda: in_turn(*working(9.0, 9.0, 9.0, 0.0, 0.0)))
    assert (calm.free, clock.now) == ((A,), pytest.approx(100.6))
    clock.now = 100.0
    assert guard._look((A,), names, lambda: in_turn(*working(9.0))).free == ()
    assert clock.now == pytest.approx(100.3 + 1.5, abs=0.01)

    def fails() -> Any:
        raise OSError("x" * 900)

    assert len(guard._look((A,), names, fails).blind[0]) == 400
    assert guard._look((A,), names, fails).free == (A,)
    never = threading.Event()

    def hangs() -> Any:
        return never.wait() and list

    assert idle((A,), {}, hangs, 0.0).busy == ((A, HANGS),)
    never.set()
    assert os.getpid() in own_pids()


def test_a_demo_has_no_gpu_to_leave_out() -> None:
    demo = base("demo hgx-h100-8")
    gpus = tuple(gpu.address for gpu in demo.machine.gpus)
    assert idle_gpus(demo) == (gpus, ())
    live = base("hgx-h200-4gpu-live")
    gpus = tuple(gpu.address for gpu in live.machine.gpus)
    free, taken = idle_gpus(live)
    assert {*free, *taken} == set(gpus)


FIGURE = Measurement(
    probe="p2p", quantity="write_bandwidth", src=A, dst=B, value=300.0, unit="GB/s",
    device_kind="gpu",
)  # fmt: skip


def test_a_figure_is_titled_and_judged_where_it_is_of_a_gpu() -> None:
    names = {A: "GPU0"}
    assert title(FIGURE, names) == f"write bandwidth GPU0 -> {B}"
    assert title(FIGURE, names, ends=False) == "write bandwidth"
    varied = Measurement(probe="p2p", quantity="x_y", variant="all", value=1.0, unit="")
    assert title(varied, names) == "x y all"
    live = base("hgx-h200-4gpu-live")
    src, dst = (gpu.address for gpu in live.machine.gpus[:2])
    low = Measurement(
        probe="p2p", quantity="write_bandwidth", src=src, dst=dst, value=100.0, unit="GB/s",
        device_kind="gpu",
    )  # fmt: skip
    cpu = Measurement(
        probe="p2p", quantity="write_bandwidth", src=src, dst=dst, value=900.0, unit="GB/s",
        device_kind="cpu",
    )  # fmt: skip
    none = Measurement(probe="p2p", quantity="write_bandwidth", src=src, dst=dst, unit="GB/s")
    expecting = Expecting(live, {})
    found = expecting.of([low, none])
    assert (found.low, [figure.figure for figure in found.main]) == (True, [low])
    assert found.main[0].text.startswith(f"write bandwidth {src} -> {dst}, GB/s: data sheet")
    assert found.pairs() == list(zip((low, none), found.judgements, strict=True))
    for unjudged in (expecting.of([cpu]), Expecting(None, {}).of([cpu])):
        assert (unjudged.low, unjudged.main, unjudged.pairs()) == (False, (), [(cpu, None)])
    assert len(expecting.of([cpu, low]).judgements) == 2
    assert not Expectations().low
    assert main_figures([cpu, low, none]) == [cpu]
    written = as_json(found.judgements[0])
    assert written is not None
    band = found.judgements[0].band
    assert band is not None
    assert written | {"note": ""} == {
        "verdict": "low", "healthy": band.healthy, "low": band.low, "high": band.high,
        "unit": "GB/s", "basis": "typical", "source": band.source, "scaled": list(band.scaled),
        "share": found.judgements[0].share, "cause": "", "explained": False, "note": "",
    }  # fmt: skip
    bare = as_json(found.judgements[1])
    assert bare is not None
    assert {bare[name] for name in ("healthy", "low", "high", "unit", "basis", "source")} == {None}
    assert as_json(None) is None


def saved(at: float, *values: float | None, probe: str = "p2p", **more: Any) -> SavedRun:
    figures = tuple(
        SavedFigure(quantity=f"q{number}", value=value, unit="GB/s")
        for number, value in enumerate(values)
    )
    return SavedRun(probe=probe, taken_at=at, level=ProbeLevel.QUICK, figures=figures, **more)


def test_changes_are_marked_beyond_a_limit_and_the_largest_come_first() -> None:
    before = [saved(2.0, 100.0, 100.0, 100.0, 0.0), saved(1.0, 100.0, 100.0, None, 0.0)]
    now = saved(9.0, 105.0, 94.0, 120.0, 7.0, None)
    found = compare(now, [*before, now, saved(3.0, 1.0, probe="host")])
    assert (found.earlier_runs, found.since) == (2, 1.0)
    assert [(c.quantity, c.runs, c.percent, c.marked) for c in found.changes] == [
        ("q0", 2, 5.0, False), ("q1", 2, -6.0, True), ("q2", 1, 20.0, True), ("q3", 2, None, False),
    ]  # fmt: skip
    assert [change.quantity for change in found.marked] == ["q2", "q1"]
    assert compare(now, []).since is None
    assert [one.probe for one in compare_last([*before, saved(3.0, 1.0, probe="host")])] == [
        "p2p", "host",
    ]  # fmt: skip
    assert [one.probe for one in compare_last(before, ("host",))] == []
    stack = compare(
        saved(9.0, versions={"a": "2", "b": "1"}), [saved(1.0, versions={"a": "1", "b": "1"})]
    ).stack
    assert stack == (("a", ("1",), "2"),)


def test_what_a_suite_says_in_one_sentence() -> None:
    done, cut = run_of("host", text="well"), run_of("gemm", "cancelled")
    assert summary((done,), 9.6) == "well"
    assert summary((done, cut), 9.6) == "1 of 2 probes finished in 10 s; cancelled: gemm."
    assert summary((cut, cut), 9.6, simulated=True).startswith("0 of 2 probes ")
    assert "10 s" not in summary((cut, cut), 9.6, simulated=True)
