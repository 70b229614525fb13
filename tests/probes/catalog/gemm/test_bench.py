"""Times of calls, on a device whose clock the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from gputop.probes.catalog.gemm import bench


class ScriptedDevice:
    """A device, as torch.cuda shows it, on which work takes as long as the test says."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.flushes = 0
        self.current: list[str] = []
        self.cuda = self

    def synchronize(self) -> None:
        self.now_ms += 1.0  # waiting is never inside of a pair

    def zero_(self) -> None:
        self.flushes += 1
        self.now_ms += 3.0

    @contextmanager
    def device(self, name: str) -> Iterator[None]:
        self.current.append(name)
        yield

    def Event(self, enable_timing: bool) -> ScriptedEvent:  # noqa: N802  (torch's name)
        assert enable_timing
        return ScriptedEvent(self)


class ScriptedEvent:
    def __init__(self, device: ScriptedDevice) -> None:
        self.device = device

    def record(self) -> None:
        self.at_ms = self.device.now_ms

    def elapsed_time(self, end: ScriptedEvent) -> float:
        return end.at_ms - self.at_ms


def test_each_call_is_timed_and_its_flush_is_not() -> None:
    device, calls = ScriptedDevice(), count()

    def work() -> None:
        device.now_ms += 1.0 if next(calls) % 2 else 2.0

    taken = bench.median_ms(device, work, warmup_ms=45, rep_ms=90, flush=device, device="cuda:1")
    # One call, five with their flush take 22 or 23 ms: 4.5 ms each, so 10 warm up, 20 are timed.
    assert device.flushes == 5 + len(taken.samples)
    assert next(calls) == 1 + 5 + len(taken.samples) // 2 + len(taken.samples)
    assert 19 <= len(taken.samples) <= 21
    assert set(taken.samples) == {1.0, 2.0}
    assert device.current == ["cuda:1"]


def test_without_a_flush_more_calls_fit() -> None:
    device = ScriptedDevice()

    def work() -> None:
        device.now_ms += 1.0

    taken = bench.median_ms(device, work, warmup_ms=30, rep_ms=200)
    assert taken.samples == (1.0,) * 200
    assert (device.flushes, device.current) == (0, [])


def test_one_slow_call_is_enough_and_none_is_no_call() -> None:
    assert bench.counts(900.0, 30, 200) == (1, 1)
    assert bench.counts(0.5, 30, 200) == (60, 400)
    warm_calls, calls = bench.counts(0.0, 30, 200)
    assert 1 <= warm_calls <= calls <= 5000


def test_what_is_said_of_the_samples() -> None:
    taken = bench.CallTimes((4.0, 1.0, 2.0, 3.0, 10.0))
    assert (taken.median, taken.minimum, taken.maximum) == (3.0, 1.0, 10.0)
    assert (taken.quantile(0.0), taken.quantile(0.5), taken.quantile(1.0)) == (1.0, 3.0, 10.0)
    assert taken.quantile(0.8) == pytest.approx(4.0 + 0.2 * 6.0)


def test_the_clock_of_the_host_serves_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def work() -> None:
        now[0] += 0.002

    taken: Any = bench.median_ms(None, work, warmup_ms=4, rep_ms=20, device="cpu")
    assert taken.median == pytest.approx(2.0)
    assert 9 <= len(taken.samples) <= 10
    assert bench.flush_buffer(None, "cpu") is None
