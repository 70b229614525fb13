"""Matrix multiplication: figures that are doubted, taken back, or measured again."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gputop.probes.catalog.gemm import device as gemm_bench
from gputop.probes.catalog.gemm import probe as gemm
from gputop.probes.catalog.gemm.bench import CallTimes
from gputop.probes.catalog.gemm.cases import FP32, Entry, Multiplication
from gputop.probes.protocol.messages import (
    DeviceRecord,
    MeasuredValue,
    Message,
    Note,
    WorkerRequest,
    decode,
    encode,
)

TINY = Multiplication(FP32, 48, 40, 24, Entry.MATMUL)


def last(said: list[Message]) -> list[MeasuredValue]:
    """The last figure of each device and case: the time comes first, the verdict later."""
    figures = [m for m in said if isinstance(m, MeasuredValue)]
    return list({(m.src, m.variant): m for m in figures}.values())


class ScriptedBench(gemm_bench.GemmBench):
    """A device whose times are given by the test."""

    times_ms: dict[tuple[int, str], list[float]] = {}  # noqa: RUF012

    def __init__(self, torch: Any, kind: str, record: DeviceRecord, *rest: Any) -> None:
        self.record = record
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.unsupported = set()

    def make_room(self, case: Multiplication) -> None:
        pass

    def measure(self, case: Multiplication) -> gemm_bench.GemmResult:
        messages_of = self.times_ms.get((self.record.index, case.entry), [1.0])
        took = messages_of.pop(0) if len(messages_of) > 1 else messages_of[0]
        return gemm_bench.GemmResult(CallTimes((took,)), library="cuBLAS")

    def check(self, case: Multiplication, timed: gemm_bench.GemmResult) -> gemm_bench.GemmResult:
        return dataclasses.replace(timed, verdict="verified")

    def close(self) -> None:
        pass


def messages_of(
    monkeypatch: pytest.MonkeyPatch, times: dict[tuple[int, str], list[float]]
) -> list[Message]:
    said: list[Message] = []
    monkeypatch.setattr(ScriptedBench, "times_ms", times)
    monkeypatch.setattr(gemm, "GemmBench", ScriptedBench)
    monkeypatch.setattr(
        gemm, "cases", lambda level, **more: (TINY, Multiplication(FP32, 48, 40, 24, Entry.LINEAR))
    )
    gemm.run(WorkerRequest("gemm", params={"device": "cpu", "count": 3}), said.append)
    return said


def test_a_time_of_wrong_precision_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(
        self: ScriptedBench, case: Multiplication, timed: gemm_bench.GemmResult
    ) -> gemm_bench.GemmResult:
        return dataclasses.replace(timed, times=None, unsupported=True, why="runs as fp32")

    monkeypatch.setattr(ScriptedBench, "check", check)
    said = messages_of(monkeypatch, {})
    assert any(isinstance(m, MeasuredValue) and m.value is not None for m in said)
    assert {(m.value, m.why) for m in last(said)} == {(None, "runs as fp32")}


def test_a_product_that_overflows_is_wrong_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(
        self: ScriptedBench, case: Multiplication, timed: gemm_bench.GemmResult
    ) -> gemm_bench.GemmResult:
        return dataclasses.replace(timed, error=float("inf"), verdict="wrong-data")

    monkeypatch.setattr(ScriptedBench, "check", check)
    for figure in last(messages_of(monkeypatch, {})):
        assert decode(encode(figure)) == figure
        assert figure.verdict == "wrong-data"
        assert "relative_error" not in figure.details


def test_a_slow_device_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said = messages_of(monkeypatch, {(1, "matmul"): [1.2, 1.0]})
    found = [m for m in said if isinstance(m, MeasuredValue) and m.details["entry"] == "matmul"]
    assert [(m.src, m.attempt, m.verdict) for m in found] == [
        ("cpu:0", 1, None), ("cpu:1", 1, None), ("cpu:2", 1, None), ("cpu:1", 2, None),
        ("cpu:0", 1, "verified"), ("cpu:1", 2, "verified"), ("cpu:2", 1, "verified"),
    ]  # fmt: skip
    found = found[:4]
    assert found[-1].value == found[0].value != found[1].value
    assert "other GPUs" in found[0].direction
    assert "nothing else" in found[-1].direction
    assert not [m for m in said if isinstance(m, Note)]


def test_entries_that_differ_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {(place, "linear"): [1.02] for place in range(3)}
    assert not [m for m in messages_of(monkeypatch, times) if isinstance(m, Note)]
    times = {(0, "linear"): [1.02], (1, "linear"): [1.05], (2, "linear"): [1.06]}
    (note,) = [m for m in messages_of(monkeypatch, times) if isinstance(m, Note)]
    assert note.topic == "gemm-entry"
    assert "cpu:2" in note.text
    assert [difference["device"] for difference in note.details["differences"]] == [
        "cpu:1",
        "cpu:2",
    ]
