"""Facts from /proc about what ranks were given, and what they take."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gputop.topology.jobs.activity import Activity
from gputop.topology.jobs.evidence import given_findings
from gputop.topology.jobs.grouping import Job, jobs
from gputop.topology.model.readings import ProcessState, Readings
from gputop.topology.recorded.feeds import DemoFeed

DEMO = DemoFeed("hgx-h100-8", version="test").at(0)
MIB = 2**20


def told(activity: dict[str, Any] | None = None, **fields: Any) -> dict[str, str]:
    """Text and weight of all facts about the demo's job, whose processes have these fields."""
    (job,) = jobs(DEMO)
    users = tuple(replace(user, reading=replace(user.reading, **fields)) for user in job.processes)
    changed: Job = replace(job, processes=users)
    found = {
        user.pid: Activity(
            pid=user.pid,
            seconds=0.5,
            states=(ProcessState.RUNNING, ProcessState.RUNNING),
            **(activity or {}),
        )
        for user in users
    }
    labels = {user.pid: f"rank {user.reading.rank}" for user in users}
    return {
        finding.title: "bad" if finding.severity.counts else "note"
        for finding in given_findings(changed, Readings(), found, labels, 104)
    }


def test_a_quota_that_was_used_up_is_proof_and_one_that_is_small_a_note() -> None:
    shared: dict[str, Any] = {"cpu_quota": 8.0, "cpu_group": "a"}
    assert told(**shared) == {}
    (note,) = told(omp_threads=4, **shared).items()
    assert note == (
        "its cgroup grants 8 CPUs' worth of time to 6 processes (cpu.max); OMP_NUM_THREADS of all "
        "together is 24",
        "note",
    )
    (small,) = told(cpu_quota=4.0, cpu_group="a").items()
    assert small[1] == "bad"
    (proof,) = told({"stopped_periods": (("a", (5, 4)),)}, **shared).items()
    assert proof[1] == "bad"
    assert proof[0].endswith("used up in 4 of 5 periods: then all its threads stop")
    assert told({"stopped_periods": (("a", (5, 0)),)}, **shared) == {}


def test_containers_of_their_own_have_a_quota_each() -> None:
    assert told(cpu_quota=4.0) == {}, "whose quota it is, is not known"


def test_threads_of_all_ranks_against_their_cpus() -> None:
    (text,) = told(omp_threads=64)
    assert text == "OMP_NUM_THREADS of all 6 ranks together is 384, on 224 CPUs that they may use"
    assert told(omp_threads=1) == {}


def test_growth_is_told_with_its_pace_and_what_two_looks_cannot_show() -> None:
    grown = told({"grown_bytes": 64 * MIB, "memory_bytes": 2048 * MIB})
    assert len(grown) == 6
    assert next(iter(grown)) == (
        "the host memory of rank 0 grew by 64.0 MiB in 0.5 s (128 MiB a second), to 2.0 GiB; "
        "whether it goes on, two looks do not show"
    )
    assert told({"grown_bytes": MIB, "memory_bytes": 2048 * MIB}) == {}


def test_workers_that_are_no_ranks_need_not_wait_for_each_other() -> None:
    """Servers or Ray's workers, one on each GPU: an idle one is idle."""
    (job,) = jobs(DEMO)
    busy = tuple(
        replace(gpu, utilization_percent=0.0 if gpu.address == job.gpus[0] else 100.0)
        for gpu in DEMO.readings.gpus
    )

    def idle(rank: int | None) -> bool:
        users = tuple(
            replace(user, reading=replace(user.reading, rank=rank)) for user in job.processes
        )
        labels = {user.pid: f"pid {user.pid}" for user in users}
        found = given_findings(replace(job, processes=users), Readings(gpus=busy), {}, labels, None)
        return any("as ranks that wait do" in fact.title for fact in found)

    assert idle(0)
    assert not idle(None)
