"""Why a rank is late, or why data does not take the NVLinks."""

from __future__ import annotations

import pytest

from gputop.reading import read_snapshot
from gputop.simulating.jobs import simulated
from gputop.topology.jobs.activity import Activity
from gputop.topology.jobs.grouping import GpuUser, Job
from gputop.topology.jobs.lateness import Lateness
from gputop.topology.jobs.loads.judging import JudgedLoads, LateRank
from gputop.topology.jobs.loads.telling import WORKS, reason
from gputop.topology.model.readings import ProcessReading, ProcessState, Readings

OFF, ON = (("NCCL_P2P_DISABLE", "1"),), (("NCCL_P2P_DISABLE", "0"),)


@pytest.mark.parametrize(
    ("told", "over_pcie", "said"),
    [
        ((OFF, OFF), True, "NCCL_P2P_DISABLE=1 is set"),
        ((OFF, OFF), False, ""),
        ((OFF, ON), True, ""),
        ((OFF, None), True, ""),
        ((None, None), True, ""),
    ],
)
def test_a_variable_is_the_reason_where_all_ranks_have_it_and_data_goes_over_pcie(
    told: tuple[tuple[tuple[str, str], ...] | None, ...], *, over_pcie: bool, said: str
) -> None:
    users = tuple(
        GpuUser(pid=pid, gpus=(), reading=ProcessReading(pid=pid, variables=variables))
        for pid, variables in enumerate(told, 1)
    )
    job = Job(key="a", name="job", gpus=(), processes=users)
    assert reason(JudgedLoads(over_pcie=over_pcie), job, {}, Readings()) == said


LATE = LateRank(rank=1, pid=2, how=Lateness.HOST, waiting=0.5)
RUNS = ProcessState.RUNNING


def process(pid: int, cores: float, queued: float = 0.0) -> Activity:
    return Activity(
        pid=pid, seconds=2.0, states=(RUNS, RUNS), user_cores=cores, system_cores=0.0, queued=queued
    )


@pytest.mark.parametrize(
    ("late", "other", "sleeps", "said"),
    [
        (process(2, 1.0), process(1, 1.0), {}, WORKS),
        (process(2, 0.5, 0.48), process(1, 1.0), {}, "waits for a CPU 48 % of the time"),
        (process(2, 0.5, 0.48), process(1, 0.5, 0.5), {}, ""),
        (process(2, 0.5), process(1, 1.0), {2: {"do_sys_poll": 9, "": 9}}, "a pipe or a socket"),
        (
            process(2, 0.85),
            process(1, 1.0),
            {2: {"futex_do_wait": 9, "": 9}, 1: {"futex_do_wait": 8, "": 9}},
            "",
        ),
        (
            process(2, 0.85),
            process(1, 1.0),
            {2: {"futex_do_wait": 9, "pipe_read": 6}, 1: {"futex_do_wait": 10}},
            "at a pipe",
        ),
    ],
)
def test_a_reason_sets_the_late_rank_apart(
    late: Activity, other: Activity, sleeps: dict[int, dict[str, int]], said: str
) -> None:
    users = tuple(GpuUser(pid=pid, gpus=(), reading=ProcessReading(pid=pid)) for pid in (1, 2))
    job = Job(key="a", name="job", gpus=(), processes=users)
    told = reason(JudgedLoads(late=LATE, sleeps=sleeps), job, {1: other, 2: late}, Readings())
    assert said in told
    assert bool(said) == bool(told)


def test_the_reason_of_the_demo_is_no_other_rank_s() -> None:
    snapshot = read_snapshot((), "slow-job-h100-8")
    (job,) = simulated(snapshot, "slow-job-h100-8").jobs
    (late,) = job.accused
    cores = {rank.rank: rank.activity.cores for rank in job.ranks if rank.activity is not None}
    own = cores.pop(late.rank)
    assert "a pipe or a socket" in job.sentence
    assert all((one or 0.0) > 1.9 * (own or 1.0) for one in cores.values())
