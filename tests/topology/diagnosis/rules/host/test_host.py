"""Shared memory, limits, binding, containers and caches, with odd inputs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.host import binding, limits, settings
from gputop.topology.diagnosis.shared.near import jobs
from gputop.topology.model import quantities
from gputop.topology.model.readings import ProcessReading
from gputop.topology.model.record import Gap
from gputop.topology.model.severity import NOTICE, SLOW
from gputop.topology.model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot
from gputop.topology.model.surroundings import CacheFolder, Container, ContainerKind, Host
from gputop.topology.node import Node
from tests.support.rule_cases import base

H100, H200, L40S = "demo hgx-h100-8", "hgx-h200-4gpu-live", "demo pcie-l40s-8"
MIB = 2**20


def changed(name: str, process: dict[str, Any] | None = None, **host: Any) -> NodeSnapshot:
    """A base whose host, and whose first process, have other facts; their gaps go."""
    whole = base(name)
    assert whole.machine.host is not None
    gaps = tuple(gap for gap in whole.machine.host.gaps if gap.field not in host)
    new = msgspec.structs.replace(whole.machine.host, **{"gaps": gaps, **host})
    machine = msgspec.structs.replace(whole.machine, host=new)
    readings = whole.readings
    if process is not None:
        first, *rest = readings.processes
        readings = msgspec.structs.replace(
            readings, processes=(msgspec.structs.replace(first, **process), *rest)
        )
    return msgspec.structs.replace(whole, machine=machine, readings=readings)


def seen(snapshot: NodeSnapshot, *, decide: bool = False, **variables: str) -> Case:
    more = tuple(
        EnvironmentVariable(name=name, value=value, origin="environment")
        for name, value in variables.items()
    )
    report = Node(msgspec.structs.replace(snapshot, environment=more))
    if decide:
        report = report.decide()
    return Case(report)


def severities(rule: Any, case: Case) -> list[str] | None:
    found = rule.answer(case)
    return None if found is None else [one.severity for one in found]


# /dev/shm


def test_shm_needs_what_the_ring_s_hops_by_shm_take() -> None:
    need, how = limits.shm_need(seen(base(L40S), decide=True))
    assert need == 4 * 2 * limits.SEGMENT_BYTES
    assert "4 hops x 2 channels" in how
    assert limits.shm_need(seen(base(H200), decide=True)) == (0, "")
    assert limits.shm_need(seen(base(L40S))) == (0, "")


@pytest.mark.parametrize(
    ("nccl", "cuda", "variables", "cumem"),
    [
        ("2.27.7", "12.8", {}, True),
        ("2.24.3", "12.6", {}, True),
        ("2.23.4", "12.8", {}, False),
        ("2.27.7", "12.4", {}, False),
        ("2.27.7", None, {}, True),
        ("2.27.7", "12.8", {"NCCL_CUMEM_HOST_ENABLE": "0"}, False),
        ("2.27.7", "12.8", {"NCCL_CUMEM_ENABLE": "0"}, False),
        ("2.27.7", "12.8", {"NCCL_CUMEM_HOST_ENABLE": "1"}, True),
    ],
)
def test_when_shm_buffers_come_from_cumem(
    nccl: str, cuda: str | None, variables: dict[str, str], cumem: bool
) -> None:
    whole = base(L40S)
    assert whole.machine.software is not None
    software = msgspec.structs.replace(whole.machine.software, nccl=nccl, cuda_driver=cuda)
    machine = msgspec.structs.replace(whole.machine, software=software)
    case = seen(msgspec.structs.replace(whole, machine=machine), decide=True, **variables)
    assert limits.cumem_host(case) is cumem


def test_the_smallest_shm_counts_and_an_unread_one_is_not_examined() -> None:
    small = seen(changed(H100, {"shm_bytes": 64 * MIB}))
    (found,) = limits.SMALL.answer(small) or ()
    assert "process 41000" in found.title
    assert severities(limits.SMALL, seen(changed(H100, shm_bytes=None))) in (None, [])
    bare = msgspec.structs.replace(base(H100).readings, processes=(), host=None)
    unread = msgspec.structs.replace(changed(H100, shm_bytes=None), readings=bare)
    assert limits.SMALL.answer(seen(unread)) is None
    assert limits.FULL.answer(seen(unread)) is None


# limits


def test_what_jobs_may_lock_counts_more_than_this_shell() -> None:
    own = changed(H100, memlock_bytes=8 * MIB)
    assert severities(limits.MEMLOCK, seen(own)) == []
    alone = msgspec.structs.replace(
        own, readings=msgspec.structs.replace(own.readings, processes=())
    )
    assert severities(limits.MEMLOCK, seen(alone)) == [NOTICE]  # a job has its own
    enough = changed(H100, memlock_bytes=10**9)
    assert severities(limits.MEMLOCK, seen(enough)) == []
    theirs = changed(H100, {"memlock_bytes": 65536, "gaps": ()})
    (found,) = limits.MEMLOCK.answer(seen(theirs)) or ()
    assert [one.what for one in found.evidence][:1] == [
        "memory that process 41000 (python3) may lock"
    ]


def test_in_a_container_nobody_knows_whether_it_may_use_rdma() -> None:
    own = changed(H100, memlock_bytes=8 * MIB, container=Container(kind=ContainerKind.DOCKER))
    alone = msgspec.structs.replace(
        own, readings=msgspec.structs.replace(own.readings, processes=())
    )
    assert severities(limits.MEMLOCK, seen(alone)) == [NOTICE]


def test_limits_that_were_not_read_are_not_examined() -> None:
    bare = msgspec.structs.replace(
        base(H100),
        machine=msgspec.structs.replace(base(H100).machine, host=Host()),
        readings=msgspec.structs.replace(base(H100).readings, processes=()),
    )
    for rule in (limits.MEMLOCK, limits.OPEN_FILES, settings.GOVERNOR, binding.BALANCING):
        assert rule.answer(seen(bare)) is None
    free = Host(gaps=(Gap("open_files_limit", "unlimited"),))
    unlimited = msgspec.structs.replace(
        bare, machine=msgspec.structs.replace(bare.machine, host=free)
    )
    assert limits.OPEN_FILES.answer(seen(unlimited)) == ()


# governors


@pytest.mark.parametrize(
    ("governors", "driver", "said"),
    [
        ((("performance", 8),), "acpi-cpufreq", []),
        ((("performance", 7), ("powersave", 1)), "acpi-cpufreq", [SLOW]),
        ((("powersave", 8),), "intel_pstate", [NOTICE]),
        ((("powersave", 8),), "amd-pstate-epp", [NOTICE]),
        ((("powersave", 8),), None, [NOTICE]),
        ((("schedutil", 8),), "acpi-cpufreq", [NOTICE]),
        ((), None, []),
        (None, None, None),
    ],
)
def test_powersave_is_the_lowest_clock_of_a_driver_that_does_not_adapt(
    governors: tuple[tuple[str, int], ...] | None, driver: str | None, said: list[str] | None
) -> None:
    case = seen(changed(H100, cpu_governors=governors, cpu_frequency_driver=driver))
    assert severities(settings.GOVERNOR, case) == said


# binding


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"cpu_affinity": "0-3"}, []),
        ({"cpu_affinity": "55-56"}, []),
        ({"cpu_affinity": "56-60"}, [SLOW]),
        ({"cpu_affinity": "rubbish", "memory_nodes": "0-1"}, []),
        ({"cpu_affinity": "", "memory_nodes": ""}, []),
        ({"cpu_affinity": "0-3", "memory_nodes": "1"}, [SLOW]),
        ({"cpu_affinity": "0-3", "memory_nodes": "99-1"}, []),
        ({"cpu_affinity": None, "memory_nodes": None}, []),
    ],
)
def test_a_process_is_far_only_when_no_cpu_is_near(facts: dict[str, Any], said: list[str]) -> None:
    assert severities(binding.BINDING, seen(changed(H100, facts))) == said


def test_a_process_on_gpus_of_both_sockets_cannot_be_far_from_all() -> None:
    whole = base(H100)
    far = whole.readings.gpus[4]
    assert far.processes is not None
    both = msgspec.structs.replace(
        far, processes=(msgspec.structs.replace(far.processes[0], pid=41000),)
    )
    gpus = (*whole.readings.gpus[:4], both, *whole.readings.gpus[5:])
    readings = msgspec.structs.replace(changed(H100, {"cpu_affinity": "56-60"}).readings, gpus=gpus)
    case = seen(msgspec.structs.replace(whole, readings=readings))
    assert [len(on) for process, on in jobs(case) if process.pid == 41000] == [2]
    assert severities(binding.BINDING, case) == []


def test_thousands_of_processes_bound_alike_are_judged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = changed(H100, {"cpu_affinity": "56-60"})
    one, (gpu, *others) = whole.readings.processes[0], whole.readings.gpus
    assert gpu.processes is not None
    pids = range(50_000, 50_500)
    many = tuple(msgspec.structs.replace(one, pid=pid) for pid in pids)
    held = tuple(msgspec.structs.replace(gpu.processes[0], pid=pid) for pid in pids)
    gpus = (msgspec.structs.replace(gpu, processes=held), *others)
    readings = msgspec.structs.replace(whole.readings, gpus=gpus, processes=many)
    case = seen(msgspec.structs.replace(whole, readings=readings))
    judged: list[str] = []
    far = binding._far
    monkeypatch.setattr(binding, "_far", lambda *given: judged.append("") or far(*given))  # type: ignore[func-returns-value]
    (found,) = binding.BINDING.answer(case) or ()
    assert "500 processes" in found.title
    assert len(judged) == 1
    assert jobs(case) is jobs(case)


def test_processes_that_only_the_driver_knows_are_no_jobs() -> None:
    whole = base(H100)
    stranger = (ProcessReading(pid=1, cpu_affinity="56"),)
    readings = msgspec.structs.replace(whole.readings, processes=stranger)
    case = seen(msgspec.structs.replace(whole, readings=readings))
    assert jobs(case) == ()
    assert binding.BINDING.answer(case) is None


# containers


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"cpu_quota": 3.9}, [SLOW]),
        ({"cpu_quota": 4.0}, []),
        ({"cpuset": "0-2"}, [SLOW]),
        ({"cpuset": "0-7", "cpu_quota": 1.0}, [SLOW]),
        ({"gaps": (Gap("cpu_quota", "unlimited"),)}, []),
        ({"gaps": (Gap("cpu_quota", "no permission"),)}, None),
        ({"cpuset": "nonsense"}, None),
    ],
)
def test_cpus_of_a_container(facts: dict[str, Any], said: list[str] | None) -> None:
    case = seen(changed(H200, container=Container(kind=ContainerKind.DOCKER, **facts)))
    assert severities(binding.LIMIT, case) == said


def test_a_quota_of_a_job_is_held_against_its_own_gpus() -> None:
    case = seen(changed(H100, {"cpu_quota": 0.5, "gaps": ()}))
    (found,) = binding.LIMIT.answer(case) or ()
    assert found.title == "process 41000 (python3) may use 0.5 CPUs for 1 GPU"


# caches


@pytest.mark.parametrize(
    ("kind", "filesystem", "said"),
    [
        ("docker", "overlay", [NOTICE]),
        ("docker", "nfs4", []),
        ("docker", None, None),
        (None, "tmpfs", []),
    ],
)
def test_caches_in_a_container(
    kind: str | None, filesystem: str | None, said: list[str] | None
) -> None:
    folder = CacheFolder(name="Triton", path="/root/.triton/cache", filesystem=filesystem)
    case = seen(
        changed(
            H200,
            container=Container(kind=ContainerKind(kind) if kind else None),
            compile_caches=(folder,),
        )
    )
    assert severities(settings.EPHEMERAL_CACHE, case) == said
    nobody = seen(changed(H200, container=None, compile_caches=(folder,)))
    assert settings.EPHEMERAL_CACHE.answer(nobody) is None


def test_what_a_far_binding_costs_is_told_by_copies_of_that_gpu_from_named_nodes() -> None:
    whole = base(H100)
    one, other = (gpu.address for gpu in whole.machine.gpus[:2])

    def copy(src: str, value: float | None, node: int | None, variant: str) -> Measurement:
        return Measurement(
            probe="host", quantity=quantities.HOST_TO_DEVICE, src=src, value=value, unit="GB/s",
            variant=variant, details={"numa_node": node},
        )  # fmt: skip

    figures = (
        copy(one, 55.0, 0, "pinned"),
        copy(one, 41.0, 1, "pinned, NUMA node 1"),
        copy(one, 9.0, 1, "pageable"),
        copy(one, 8.0, None, "pinned"),
        copy(one, None, 1, "pinned"),
        copy(other, 7.0, 1, "pinned"),
        copy(other, 66.0, 0, "pinned"),
    )
    case = seen(msgspec.structs.replace(whole, measurements=figures))
    assert binding._rates(case, [one]) == [(one, 55.0, 41.0)]
