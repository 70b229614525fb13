"""What processes want of the host, against what they were given."""

from __future__ import annotations

from typing import Any

from gputop.topology.jobs.demand import memory_limits, quotas, threads_over_cpus
from gputop.topology.jobs.grouping import GpuUser
from gputop.topology.model.readings import ProcessReading


def user(pid: int, **fields: Any) -> GpuUser:
    return GpuUser(pid=pid, gpus=(), reading=ProcessReading(pid=pid, **fields))


def test_threads_are_counted_over_all_ranks_on_the_cpus_that_they_have_together() -> None:
    both = [user(pid, omp_threads=8, cpu_affinity=cpus) for pid, cpus in ((1, "0-7"), (2, "4-11"))]
    demand = threads_over_cpus(both)
    assert demand is not None
    assert (demand.threads, demand.cpus, demand.fitting) == (16, 12, 6)
    assert threads_over_cpus([user(1, omp_threads=8, cpu_affinity="0-7")]) is None
    assert threads_over_cpus([*both, user(3, cpu_affinity="0-1")]) is None, "one does not say"
    assert threads_over_cpus([*both, user(3, omp_threads=2)]) is None, "its CPUs are not known"
    assert threads_over_cpus([]) is None
    one_cpu = [user(pid, omp_threads=1, cpu_affinity="0") for pid in (1, 2)]
    assert threads_over_cpus(one_cpu) is None, "bound to too few CPUs, with a thread each"


def test_a_quota_is_shared_only_in_one_cgroup() -> None:
    shared = [user(pid, cpu_quota=2.0, cpu_group="a") for pid in (1, 2, 3)]
    (demand,) = quotas(shared)
    assert (len(demand.users), demand.quota, demand.threads) == (3, 2.0, 3)
    assert quotas([user(pid, cpu_quota=2.0, cpu_group=str(pid)) for pid in (1, 2, 3)]) == ()
    assert quotas([user(pid, cpu_quota=2.0) for pid in (1, 2, 3)]) == (), "whose is not known"
    (alone,) = quotas([user(1, cpu_quota=2.0, cpu_group="a", omp_threads=4)])
    assert (alone.quota, alone.threads) == (2.0, 4)


def test_memory_below_one_limit_is_added_up() -> None:
    limited = {"memory_limit_bytes": 100, "memory_group": "a"}
    users = [user(1, anonymous_bytes=40, **limited), user(2, anonymous_bytes=50, **limited)]
    (demand,) = memory_limits([*users, user(3, **limited), user(4, anonymous_bytes=9)])
    assert (demand.used_bytes, demand.limit_bytes, len(demand.users)) == (90, 100, 2)
