"""Which GPUs a check may measure: those that nobody uses."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from gputop.measuring.guard import HANGS, idle
from gputop.topology.model.readings import GpuProcess, GpuReading, GpuUse
from gputop.topology.model.source import SourceAbsent

from ...support.rule_cases import base

LIVE = base("hgx-h200-4gpu-live")
ADDRESSES = tuple(gpu.address for gpu in LIVE.machine.gpus)
NAMES = {address: f"GPU{number}" for number, address in enumerate(ADDRESSES)}
GIB = 1 << 30


def reading(address: str, **fields: Any) -> GpuReading:
    given: dict[str, Any] = {
        "utilization_percent": 0.0, "memory_used_bytes": 0, "memory_free_bytes": 100 * GIB,
        "processes": (),
    }  # fmt: skip
    return GpuReading(address=address, **{**given, **fields})


def test_each_gpu_is_judged_by_itself() -> None:
    job = (GpuProcess(pid=4711, kind=GpuUse.COMPUTE, memory_bytes=30 * GIB),)
    sample = [reading(ADDRESSES[0]), reading(ADDRESSES[1], processes=job)]
    found = idle(ADDRESSES[:2], NAMES, lambda: lambda: sample)
    assert found.free == (ADDRESSES[0],)
    ((address, why),) = found.busy
    assert address == ADDRESSES[1]
    assert "4711" in why


def test_work_that_just_ended_gets_a_moment() -> None:
    asked = []

    def read() -> Sequence[GpuReading]:
        asked.append(1)
        return [reading(ADDRESSES[0], utilization_percent=90.0 if len(asked) < 5 else 0.0)]

    assert idle(ADDRESSES[:1], NAMES, lambda: read).free == ADDRESSES[:1]


def test_without_an_answer_nothing_is_proven() -> None:
    def absent() -> Any:
        raise SourceAbsent("no NVIDIA driver")

    found = idle(ADDRESSES, NAMES, absent)
    assert found.free == ADDRESSES
    assert "no NVIDIA driver" in found.blind[0]


def test_a_driver_that_hangs_is_not_loaded() -> None:
    release = threading.Event()

    def hang() -> Any:
        release.wait(30)
        return list

    found = idle(ADDRESSES[:2], NAMES, hang, deadline_seconds=0.2)
    assert not release.is_set()
    release.set()
    assert found.free == ()
    assert {why for _, why in found.busy} == {HANGS}


def test_a_calm_gpu_is_not_looked_at_until_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.measuring.busy.SAMPLE_GAP_SECONDS", 0.0)
    asked = []

    def read() -> Sequence[GpuReading]:
        asked.append(1)
        return [reading(ADDRESSES[0])]

    assert idle(ADDRESSES[:1], NAMES, lambda: read).free == ADDRESSES[:1]
    assert len(asked) <= 5
