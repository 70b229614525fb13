"""Rows of products that a CPU really computes: what it lacks, what the sensors said, errors."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.probes.catalog.gemm import device as gemm_bench
from gputop.probes.catalog.gemm import probe as gemm
from gputop.probes.catalog.gemm.cases import BF16, Entry, Multiplication, cases
from gputop.probes.catalog.gemm.device import measure_rows
from gputop.probes.catalog.gemm.work import Multiplier
from gputop.probes.devices.sensors import Sensors
from gputop.probes.protocol.messages import (
    DeviceRecord,
    MeasuredValue,
    Message,
    Progress,
    WorkerRequest,
)
from tests.probes.late import torch


def gemm_cases() -> tuple[Multiplication, ...]:
    return cases("normal", cpu=True)


def run(count: int, level: str) -> list[Message]:
    said: list[Message] = []
    params = {"device": "cpu", "count": count, "level": level}
    gemm.run(WorkerRequest("gemm", params=params), said.append)
    return said


def test_a_type_that_a_device_lacks_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled_mm(*operands: Any, **more: Any) -> Any:
        raise RuntimeError("only on devices of tomorrow")

    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm)
    said = run(2, "normal")
    fp8 = [m for m in said if isinstance(m, MeasuredValue) and m.details["dtype"] == "fp8"]
    assert sorted((m.src, m.variant) for m in fp8) == [
        ("cpu:0", "fp8"), ("cpu:0", "fp8 fast accumulation"),
        ("cpu:1", "fp8"), ("cpu:1", "fp8 fast accumulation"),
    ]  # fmt: skip
    assert all(m.value is None and "tomorrow" in (m.why or "") for m in fp8)
    steps = [m for m in said if isinstance(m, Progress) and m.total == 4 * len(gemm_cases())]
    assert [m.done for m in steps] == sorted(m.done for m in steps)
    assert steps[-1].done == steps[-1].total


def test_one_without_memory_goes_on_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Multiplier.prepare

    def scarce(self: Multiplier, case: Multiplication) -> Any:
        if case == gemm_cases()[2] and self._random.initial_seed() == 1235:  # the second device's
            raise torch.cuda.OutOfMemoryError("tried to allocate")
        return prepare(self, case)

    monkeypatch.setattr(Multiplier, "prepare", scarce)
    said = run(2, "normal")
    bf16 = {
        (m.src, m.variant): m
        for m in said
        if isinstance(m, MeasuredValue) and m.details["dtype"] == "bf16"
    }
    failed = bf16.pop(("cpu:1", gemm_cases()[2].name))
    assert (failed.value, "out of memory" in (failed.why or "")) == (None, True)
    assert "at_s" not in failed.details
    assert len(bf16) == 7
    assert all(m.verdict == "verified" for m in bf16.values())


def test_sensors_are_watched_once_and_cut_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str | None] = []
    clock = itertools.count(100)

    class ScriptedWatch:
        def summary(self, since: float, until: float) -> dict[str, Any]:
            return {"sm_clock_mhz": since, "power_w": until}

    class ScriptedSensors(Sensors):
        def watching(self, pci_address: str | None, seconds: float = 0.02) -> Any:
            opened.append(pci_address)
            return ThreadlessWatch()

    class ThreadlessWatch:
        def __enter__(self) -> ScriptedWatch:
            return ScriptedWatch()

        def __exit__(self, *error: object) -> None:
            opened.append("closed")

    ticking = SimpleNamespace(monotonic=lambda: float(next(clock)))
    monkeypatch.setattr(gemm, "Sensors", ScriptedSensors)
    monkeypatch.setattr(gemm_bench, "time", ticking)
    monkeypatch.setattr(gemm, "time", ticking)
    said = run(1, "quick")
    timed = [m for m in said if isinstance(m, MeasuredValue) and m.verdict is None and m.value]
    assert len(opened) == 2
    assert len(timed) >= 2
    # The phase began at 100; every case takes one tick from its first call to its last.
    for place, figure in enumerate(timed):
        details = figure.details
        assert details["sm_clock_mhz"] == 100 + details["at_s"]
        assert details["power_w"] == details["sm_clock_mhz"] + 1
        assert place == 0 or details["at_s"] > timed[place - 1].details["at_s"]
    assert timed[0].details["at_s"] == 1
    checked = [m for m in said if isinstance(m, MeasuredValue) and m.verdict == "verified"]
    assert [m.details["at_s"] for m in checked] == [m.details["at_s"] for m in timed]


def test_an_error_of_torch_comes_through_as_it_is() -> None:
    record = DeviceRecord("cpu:0", 0, "A CPU", memory_bytes=None, free_bytes=None)
    bench = gemm_bench.GemmBench(torch, "cpu", record, 1.0)
    bench.planned = (Multiplication(BF16, 0, -1, 8, Entry.MATMUL),)
    try:
        with pytest.raises(RuntimeError, match="negative dimension"):
            measure_rows([bench], lambda *message: None)
    finally:
        bench.close()
