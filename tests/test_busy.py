"""When a GPU counts as busy."""

from __future__ import annotations

import pytest

from gputop.busy import judge
from gputop.topology.readings import GpuProcess, GpuReading

ADDRESS = "0000:01:00.0"
GIB = 1 << 30


def reading(**values: object) -> GpuReading:
    base: dict[str, object] = {
        "address": ADDRESS,
        "utilization_percent": 0.0,
        "memory_used_bytes": GIB,
        "memory_free_bytes": 79 * GIB,
        "processes": (),
    }
    return GpuReading(**(base | values))  # type: ignore[arg-type]


def samples(*utilization: float) -> list[list[GpuReading]]:
    return [[reading(utilization_percent=value)] for value in utilization]


def test_an_idle_gpu_is_free() -> None:
    verdict = judge(samples(0, 0, 0), [ADDRESS])
    assert (verdict.busy, verdict.blind) == ((), ())


@pytest.mark.parametrize(
    ("utilization", "busy"), [((90, 0, 0), False), ((6, 0, 6), True), ((5, 5, 5), False)]
)
def test_two_of_three_samples_over_five_percent(utilization: tuple[float, ...], busy: bool) -> None:
    assert bool(judge(samples(*utilization), [ADDRESS]).busy) is busy


def test_somebody_elses_context_is_work_and_our_own_is_not() -> None:
    process = GpuProcess(pid=42, kind="compute", memory_bytes=GIB)
    seen = [[reading(processes=(process,))]] * 3
    assert "42" in judge(seen, [ADDRESS]).busy[0]
    assert judge(seen, [ADDRESS], own_pids={42}).busy == ()


def test_little_free_memory_is_busy() -> None:
    seen = [[reading(memory_used_bytes=70 * GIB, memory_free_bytes=10 * GIB)]] * 3
    assert "memory free" in judge(seen, [ADDRESS]).busy[0]


def test_what_cannot_be_seen_is_said_and_is_no_proof_of_idleness() -> None:
    assert judge([[reading(processes=None)]] * 3, [ADDRESS]).blind
    assert judge([[]], [ADDRESS]).blind
