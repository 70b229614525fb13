"""The look at the GPUs before a worker starts: names, deadlines, and our own leftovers."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from gputop.measuring.busy import BusyAnswer
from gputop.measuring.guard import Guard
from gputop.topology.model.readings import GpuProcess, GpuReading, GpuUse

UNHEARD = ("*",)

A = "0000:01:00.0"


def reading(address: str, *pids: int) -> GpuReading:
    processes = tuple(
        GpuProcess(pid=pid, kind=GpuUse.COMPUTE, memory_bytes=84 << 30) for pid in pids
    )
    return GpuReading(
        address=address,
        utilization_percent=0.0,
        memory_used_bytes=84 << 30 if pids else 0,
        memory_free_bytes=56 << 30 if pids else 140 << 30,
        processes=processes,
    )


def test_the_guard_names_process_share_and_way_out() -> None:
    guard = Guard((A,), {A: "GPU0"}, threading.Event(), lambda: lambda: [reading(A, 4242)])
    (text,) = guard.begin()().busy
    assert text == "GPU0 is in use by process 4242 (84.0 GiB, 60 % of its memory)"
    assert "4242" in guard.recheck().busy[0]


def test_the_guard_bears_what_fails_and_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise RuntimeError("no such driver")

    assert "no such driver" in Guard((A,), {}, threading.Event(), fail).begin()().blind[0]
    monkeypatch.setattr("gputop.measuring.guard.DEADLINE_SECONDS", 0.05)
    release = threading.Event()

    def hang() -> Any:
        release.wait(30)
        raise RuntimeError

    verdict = Guard((A,), {}, threading.Event(), hang).begin()()
    release.set()
    assert "did not answer" in verdict.busy[0]


def test_our_own_processes_may_take_a_moment_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [[reading(A, 4242)], [reading(A, 4242)], [reading(A)]]
    guard = Guard((A,), {A: "GPU0"}, threading.Event(), lambda: lambda: seen.pop(0))
    assert guard.recheck() == BusyAnswer()
    assert not seen
