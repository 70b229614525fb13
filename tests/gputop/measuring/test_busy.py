"""When a GPU counts as busy."""

from __future__ import annotations

import pytest

from gputop.measuring.busy import judge, look, refusal
from gputop.topology.model.readings import GpuProcess, GpuReading, GpuUse

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
    process = GpuProcess(pid=42, kind=GpuUse.COMPUTE, memory_bytes=GIB)
    seen = [[reading(processes=(process,))]] * 3
    assert "42" in judge(seen, [ADDRESS]).busy[0]
    assert judge(seen, [ADDRESS], own_pids={42}).busy == ()


def test_a_process_that_holds_nothing_here_works_elsewhere() -> None:
    # As ROCm lists one: on every GPU that it may use.
    process = GpuProcess(pid=42, kind=GpuUse.COMPUTE, memory_bytes=0)
    assert judge([[reading(processes=(process,))]] * 3, [ADDRESS]).busy == ()
    held = {"memory_used_bytes": 48 * GIB, "memory_free_bytes": 32 * GIB}
    (text,) = judge([[reading(**held, processes=(process,))]] * 3, [ADDRESS]).busy
    assert "does not list" in text


def test_little_free_memory_is_busy() -> None:
    seen = [[reading(memory_used_bytes=70 * GIB, memory_free_bytes=10 * GIB)]] * 3
    assert "memory free" in judge(seen, [ADDRESS]).busy[0]


def test_memory_that_nobody_listed_holds_is_somebody_elses() -> None:
    held = {"memory_used_bytes": 48 * GIB, "memory_free_bytes": 32 * GIB}
    (text,) = judge([[reading(**held)]] * 3, [ADDRESS], {ADDRESS: "GPU0"}).busy
    assert text == "GPU0: 48.0 GiB, 60 % of its memory is held by a process that the driver " + (
        "does not list"
    )
    own = (GpuProcess(pid=42, kind=GpuUse.COMPUTE, memory_bytes=48 * GIB),)
    assert not judge([[reading(**held, processes=own)]] * 3, [ADDRESS], own_pids={42}).busy


def test_a_process_is_named_with_what_it_holds_and_what_can_be_done() -> None:
    process = GpuProcess(pid=42, kind=GpuUse.COMPUTE, memory_bytes=48 * GIB)
    seen = [[reading(memory_used_bytes=48 * GIB, memory_free_bytes=32 * GIB, processes=(process,))]]
    verdict = judge(seen * 3, [ADDRESS], {ADDRESS: "GPU0"})
    assert verdict.busy == ("GPU0 is in use by process 42 (48.0 GiB, 60 % of its memory)",)
    text = refusal(verdict)
    assert "process 42" in text
    assert "--force" in text
    assert "--gpus" in text


def test_utilisation_that_calms_down_is_that_of_what_just_ended() -> None:
    ahead = [90.0, 90.0, 60.0, 0.0, 0.0]
    verdict = look(lambda: [reading(utilization_percent=ahead.pop(0))], [ADDRESS], {})
    assert verdict.busy == ()
    assert not ahead


def test_utilisation_that_stays_is_work() -> None:
    verdict = look(lambda: [reading(utilization_percent=90.0)], [ADDRESS], {}, calm_seconds=0.2)
    assert verdict.only_utilization
    assert "90 % utilisation" in verdict.busy[0]


def test_what_cannot_be_seen_is_reported_and_is_no_proof_of_idleness() -> None:
    assert judge([[reading(processes=None)]] * 3, [ADDRESS]).blind
    assert judge([[]], [ADDRESS]).blind
