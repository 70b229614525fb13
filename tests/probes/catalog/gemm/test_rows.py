"""Matrix multiplication of several devices: each at its own pace, and what ends that."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gputop.probes.catalog.gemm import device as gemm_bench
from gputop.probes.catalog.gemm import probe as gemm
from gputop.probes.catalog.gemm.bench import CallTimes
from gputop.probes.catalog.gemm.cases import BF16, FP8, FP16, TF32, Entry, Multiplication
from gputop.probes.catalog.gemm.device import GemmResult
from gputop.probes.protocol.messages import (
    DeviceRecord,
    MeasuredValue,
    Message,
    Progress,
    WorkerRequest,
)
from tests.probes.late import torch

PATIENCE = 10.0
ROW = tuple(
    Multiplication(dtype, 32, 32, n, Entry.MATMUL) for n in (16, 32) for dtype in (BF16, FP8)
)
SWITCHED = (
    Multiplication(FP16, 32, 32, 16, Entry.MATMUL),
    Multiplication(TF32, 32, 32, 16, Entry.MATMUL),
)


class ActingBench(gemm_bench.GemmBench):
    """A device whose calls are the test's: milliseconds come back, at once or after a wait."""

    def __init__(self, torch: Any, kind: str, record: DeviceRecord, *rest: Any) -> None:
        super().__init__(torch, kind, record, 1.0)
        self.began: list[Multiplication] = []

    @property
    def place(self) -> int:
        return self.record.index or 0

    def act(self, case: Multiplication) -> float:
        return 1.0

    def measure(self, case: Multiplication) -> GemmResult:
        self.began.append(case)
        return GemmResult(CallTimes((self.act(case),)))

    def check(self, case: Multiplication, timed: GemmResult) -> GemmResult:
        return timed


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ActingBench]]:
    """All that are made; their threads have ended when the test has."""
    made: list[ActingBench] = []

    def make(*given: Any) -> ActingBench:
        made.append(ActingBench(*given))
        return made[-1]

    monkeypatch.setattr(gemm, "GemmBench", make)
    monkeypatch.setattr(gemm, "cases", lambda level, **more: ROW + SWITCHED)
    before = threading.active_count()
    yield made
    assert threading.active_count() == before


def run(count: int, emit: Callable[[Message], None], **params: Any) -> None:
    gemm.run(WorkerRequest("gemm", params={"device": "cpu", "count": count, **params}), emit)


def test_no_gpu_waits_for_another_nor_for_the_main_thread(
    monkeypatch: pytest.MonkeyPatch, benches: list[ActingBench]
) -> None:
    fast_done = threading.Event()

    def act(bench: ActingBench, case: Multiplication) -> float:
        if bench.place == 0 and case == ROW[0]:
            # The slow one is at its first case until the other went through all.
            assert fast_done.wait(PATIENCE)
        if bench.place == 1 and case == ROW[-1]:
            fast_done.set()
        return 1.0

    said: list[Message] = []

    def emit(message: Message) -> None:
        if isinstance(message, MeasuredValue):
            assert fast_done.wait(PATIENCE)
        said.append(message)

    monkeypatch.setattr(ActingBench, "act", act)
    run(2, emit)
    for bench in benches:
        assert tuple(bench.began) == ROW + SWITCHED
    figures = [m for m in said if isinstance(m, MeasuredValue)]
    for key in ("cpu:0", "cpu:1"):  # timed in this order, then checked in the same
        variants = [m.variant for m in figures if m.src == key]
        assert variants == 2 * [case.name for case in ROW + SWITCHED]
    assert [m.src for m in figures[:3]] == ["cpu:1"] * 3
    assert all("other GPUs" in m.direction for m in figures)
    steps = [(m.done, m.total) for m in said if isinstance(m, Progress)]
    steps = steps[-steps[::-1].index((0, 24)) - 1 :]
    assert steps == sorted(steps)
    assert steps[-1] == (24, 24)


def test_the_results_are_reported_while_others_still_run(
    monkeypatch: pytest.MonkeyPatch, benches: list[ActingBench]
) -> None:
    reported = threading.Event()

    def act(bench: ActingBench, case: Multiplication) -> float:
        assert case == ROW[0] or reported.wait(PATIENCE)
        return 1.0

    def emit(message: Message) -> None:
        if isinstance(message, MeasuredValue):
            reported.set()

    monkeypatch.setattr(ActingBench, "act", act)
    run(2, emit)
    assert len(benches) == 2


def test_the_types_of_the_switch_run_case_by_case(
    monkeypatch: pytest.MonkeyPatch, benches: list[ActingBench]
) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)
    seen: set[tuple[str, bool]] = set()

    def act(bench: ActingBench, case: Multiplication) -> float:
        if case in SWITCHED:
            both.wait()  # breaks where one is ahead
            both.wait()
        seen.add((case.dtype, torch.backends.cuda.matmul.allow_tf32))
        return 1.0

    monkeypatch.setattr(ActingBench, "act", act)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    run(2, lambda message: None)
    assert seen == {("bf16", False), ("fp8", False), ("fp16", False), ("tf32", True)}
    assert torch.backends.cuda.matmul.allow_tf32 is True


def test_alone_means_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, benches: list[ActingBench]
) -> None:
    order: list[tuple[int, Multiplication]] = []

    def act(bench: ActingBench, case: Multiplication) -> float:
        order.append((bench.place, case))
        return 1.0

    monkeypatch.setattr(ActingBench, "act", act)
    said: list[Message] = []
    run(2, said.append, alone=True)
    in_rows = list(itertools.product((0, 1), ROW))
    assert order[: len(in_rows)] == in_rows
    assert all("nothing else" in m.direction for m in said if isinstance(m, MeasuredValue))


def test_a_slow_one_is_measured_again_when_all_are_through(
    monkeypatch: pytest.MonkeyPatch, benches: list[ActingBench]
) -> None:
    monkeypatch.setattr(
        ActingBench,
        "act",
        lambda bench, case: 2.0 if (bench.place, case) == (1, ROW[1]) else 1.0,
    )
    said: list[Message] = []
    run(3, said.append)
    assert tuple(benches[0].began) == ROW + SWITCHED
    assert tuple(benches[1].began) == (*ROW, ROW[1], *SWITCHED)
    figures = [m for m in said if isinstance(m, MeasuredValue)]
    (place,) = [i for i, m in enumerate(figures[:19]) if m.attempt == 2]
    assert place == 3 * len(ROW)
    assert (figures[place].src, figures[place].variant) == ("cpu:1", ROW[1].name)


def test_one_that_fails_ends_the_probe_and_stops_the_others(
    monkeypatch: pytest.MonkeyPatch, benches: list[ActingBench]
) -> None:
    at_second, failed = threading.Event(), threading.Event()

    def act(bench: ActingBench, case: Multiplication) -> float:
        if bench.place == 0:
            assert at_second.wait(PATIENCE)
            raise RuntimeError("an illegal address")
        if case == ROW[1]:
            at_second.set()
            failed.wait(PATIENCE)  # until the main thread has heard of it
        return 1.0

    class Heard(threading.Event):
        def set(self) -> None:
            super().set()
            failed.set()

    monkeypatch.setattr(ActingBench, "act", act)
    monkeypatch.setattr(gemm_bench, "threading", ModuleOf(Event=Heard))
    with pytest.raises(RuntimeError, match="an illegal address"):
        run(2, lambda message: None)
    assert [bench.began for bench in benches] == [[ROW[0]], list(ROW[:2])]


class ModuleOf:
    """Stands for a module that has these names."""

    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)


def test_nobody_listens_any_more(
    monkeypatch: pytest.MonkeyPatch, benches: list[ActingBench]
) -> None:
    heard = threading.Event()

    def act(bench: ActingBench, case: Multiplication) -> float:
        if case != ROW[0]:
            heard.wait(PATIENCE)
        return 1.0

    def emit(message: Message) -> None:
        if isinstance(message, MeasuredValue):
            raise BrokenPipeError

    class Heard(threading.Event):
        def set(self) -> None:
            super().set()
            heard.set()

    monkeypatch.setattr(ActingBench, "act", act)
    monkeypatch.setattr(gemm_bench, "threading", ModuleOf(Event=Heard))
    with pytest.raises(BrokenPipeError):
        run(2, emit)
    assert all(len(bench.began) <= 2 for bench in benches)


def test_devices_of_different_plans_and_one_without_a_row(
    monkeypatch: pytest.MonkeyPatch, benches: list[ActingBench]
) -> None:
    plans = iter([ROW + SWITCHED, (ROW[2], *SWITCHED), SWITCHED])
    monkeypatch.setattr(gemm, "plan", lambda *given, **more: next(plans))
    said: list[Message] = []
    run(3, said.append)
    began = [tuple(bench.began) for bench in benches]
    assert began == [ROW + SWITCHED, (ROW[2], *SWITCHED), SWITCHED]
    steps = [m for m in said if isinstance(m, Progress)]
    assert (steps[-1].done, steps[-1].total) == (22, 22)
