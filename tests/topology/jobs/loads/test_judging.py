"""Whom the others wait for, by shares of GPUs that were recorded of sixteen jobs on two H100."""

from __future__ import annotations

import json

import pytest

from gputop.topology.jobs.lateness import Lateness, times_slower
from gputop.topology.jobs.loads.judging import JudgedLoads, WatchedRank, judge
from gputop.topology.jobs.loads.watching import GpuSlice, JobLoads, slice_of
from tests.support.places import TESTS

RECORDED = json.loads((TESTS / "recordings/jobs-h100x2/slices.json").read_text())


def loads(name: str) -> JobLoads:
    fields = ("busy", "sm", "tensor", "dram", "nvlink_gbs", "pcie_gbs")
    return JobLoads(
        gpus={
            gpu: tuple(GpuSlice(**dict(zip(fields, row, strict=True))) for row in rows)
            for gpu, rows in RECORDED[name].items()
        }
    )


def judged(
    name: str, *, together: bool = True, cores: float = 0.5, first: float | None = None
) -> JudgedLoads:
    ranks = [
        WatchedRank(
            rank=rank, pid=100 + rank, address=str(rank), cores=cores, first=first, nvlinked=True
        )
        for rank in (0, 1)
    ]
    return judge(ranks, loads(name), together=together)


# Times slower: the median step beside that of the same job without the fault, 19.5 ms.
@pytest.mark.parametrize(
    ("name", "how", "times"),
    [
        ("cpu50", Lateness.HOST, 70.2 / 19.5),
        ("cpu10", Lateness.HOST, 29.8 / 19.5),
        ("busycore", Lateness.HOST, 42.4 / 19.5),
        ("gpu5", Lateness.GPU, 88.4 / 19.5),
        ("gpu1.3", Lateness.GPU, 23.9 / 19.5),
    ],
)
def test_the_late_rank_its_kind_and_its_price(name: str, how: Lateness, times: float) -> None:
    late = judged(name).late
    assert late is not None
    assert (late.rank, late.pid, late.how) == (1, 101, how)
    assert times_slower(late.waiting) == pytest.approx(times, rel=0.3)


@pytest.mark.parametrize(("first", "accused"), [(None, True), (0.9, True), (0.5, False)])
def test_a_rank_that_launches_from_another_thread_is_not_the_reason(
    first: float | None, accused: bool
) -> None:
    assert (judged("cpu10", cores=1.0, first=first).late is not None) is accused
    assert judged("gpu5", cores=1.0, first=first).late is not None


def test_other_work_on_a_gpu_makes_its_rank_late() -> None:
    late = judged("othergpu").late
    assert late is not None
    assert (late.rank, late.how) == (1, Lateness.GPU)


@pytest.mark.parametrize("name", ["tp", "p2poff", "crossed", "eval0"])
def test_nobody_is_accused_where_ranks_do_the_same_or_exchange_nothing(name: str) -> None:
    assert judged(name).late is None


def test_stages_of_a_pipeline_are_not_accused() -> None:
    late = judged("pp", together=False).late
    assert late is not None
    assert not late.equal
    assert judged("pp", together=False).late_pid is None


def test_data_over_pcie_beside_nvlinks_is_named() -> None:
    assert [name for name in RECORDED if judged(name).over_pcie] == ["p2poff"]


def test_what_a_step_is_made_of_is_near_the_profilers_sum() -> None:
    for one in judged("tp").ranks:  # 90 % computing, 9 % in NCCL alone, by the profiler
        assert one.computing == pytest.approx(0.90, abs=0.1)
        assert one.in_library == pytest.approx(0.09, abs=0.1)


def test_a_hang_computes_nothing() -> None:
    for one in judged("crossed").ranks:
        assert one.computing == 0.0
        assert one.busy == pytest.approx(1.0, abs=0.02)


def test_gpus_that_idle_while_cores_are_full_wait_for_launches() -> None:
    # The means of tensor parallelism over tiny kernels: one GPU waits for the other's launches.
    few = {"0": GpuSlice(busy=0.055, sm=0.015), "1": GpuSlice(busy=0.92, sm=0.16)}
    seen = JobLoads(gpus={gpu: (each,) * 8 for gpu, each in few.items()})
    for cores, said in ((1.0, True), (0.2, False)):
        ranks = [WatchedRank(rank=at, pid=at, address=str(at), cores=cores) for at in (0, 1)]
        assert judge(ranks, seen, together=True).launching is said


@pytest.mark.parametrize(
    "metrics",
    [{}, {"busy": 50.0}, {"busy": float("nan"), "sm": 3.0}, {"busy": 400.0, "sm": 3.0}],
)
def test_nonsense_of_the_driver_is_no_figure(metrics: dict[str, float]) -> None:
    assert slice_of(metrics) is None


def test_ranks_that_only_wait_in_kernels_are_stuck() -> None:
    assert [name for name in RECORDED if judged(name).stuck] == ["crossed"]


def test_a_collective_of_one_channel_takes_one_multiprocessor() -> None:
    """Seen on two H200 with NCCL_MAX_NCHANNELS=1: 40 % of the step was computing."""
    seen = (GpuSlice(busy=0.99, sm=0.28, nvlink_gbs=15.0),) * 7
    ranks = [WatchedRank(rank=rank, pid=10 + rank, address=str(rank)) for rank in (0, 1)]
    watched = JobLoads(gpus={"0": seen, "1": seen})
    free = judge(ranks, watched, together=True)
    one = judge(ranks, watched, together=True, channels=1)
    many = judge(ranks, watched, together=True, channels=64)
    assert [load.computing for load in many.ranks] == [load.computing for load in free.ranks]
    assert free.ranks[0].computing == pytest.approx(0.199, abs=0.01)
    assert one.ranks[0].computing == pytest.approx(0.295, abs=0.01)
