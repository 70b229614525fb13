"""Processes become jobs and communicators; their binding is held against the GPU's node."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gputop.topology.jobs.binding import FAR, NEAR, ONE_NODE, PARTLY, Binding, binding, together
from gputop.topology.jobs.grouping import GpuUser, communicators, gpu_users, jobs
from gputop.topology.model.machine import Machine
from gputop.topology.model.readings import GpuProcess, GpuReading, GpuUse, ProcessReading, Readings
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Host, NumaNode
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.app import gpu

WORLD: dict[str, Any] = {"world_size": 4, "rendezvous": "10.0.0.1:29500"}


def node(*processes: ProcessReading, described: bool = True) -> NodeSnapshot:
    """A node where the n-th process holds the n-th GPU with n GiB."""
    gpus = tuple(
        GpuReading(
            address=gpu(at).address,
            processes=(
                GpuProcess(pid=one.pid, kind=GpuUse.COMPUTE, memory_bytes=(at + 1) * 2**30),
            ),
        )
        for at, one in enumerate(processes)
    )
    readings = Readings(gpus=gpus, processes=processes if described else ())
    return NodeSnapshot(taken_at=0.0, readings=readings)


def process(pid: int, **fields: Any) -> ProcessReading:
    return ProcessReading(pid=pid, **fields)


def user(pid: int, **fields: Any) -> GpuUser:
    return GpuUser(pid=pid, gpus=(f"0000:{pid:02x}:00.0",), reading=process(pid, **fields))


def test_a_job_of_a_batch_system_is_one_job_whoever_started_its_ranks() -> None:
    ranks = [
        process(9 - n, job="slurm 7.0", rank=n, world_size=8, parent=50 + n, user="ann")
        for n in range(3)
    ]
    (job,) = jobs(node(*ranks))
    assert (job.name, job.world_size, job.users) == ("slurm 7.0", 8, ("ann",))
    assert [process.reading.rank for process in job.processes] == [0, 1, 2]
    assert job.memory_bytes == 6 * 2**30
    assert len(job.gpus) == 3


@pytest.mark.parametrize(
    ("parent", "names"),
    [
        ("python3", ["python3 40"]),
        ("bash", ["train 5", "train 6"]),
        ("systemd", ["train 5", "train 6"]),
        (None, ["train 5", "train 6"]),
    ],
)
def test_a_parent_joins_its_children_unless_it_is_a_shell(
    parent: str | None, names: list[str]
) -> None:
    two = [process(pid, command="train", parent=40, parent_command=parent) for pid in (5, 6)]
    assert [job.name for job in jobs(node(*two))] == names


def test_a_helper_belongs_to_the_job_of_its_parent() -> None:
    rank = process(5, job="torchrun x", parent=4)
    helper = process(6, parent=5, parent_command="python3")
    (job,) = jobs(node(rank, helper))
    assert [process.pid for process in job.processes] == [5, 6]


def test_parents_in_a_circle_end_nothing() -> None:
    assert len(jobs(node(process(5, parent=6), process(6, parent=5)))) == 2


def test_a_process_that_the_system_does_not_show_is_a_job_without_facts() -> None:
    (job,) = jobs(node(process(5), described=False))
    assert (job.name, job.users, job.started_at, job.world_size) == ("pid 5", (), None, None)
    assert job.processes[0].reading == ProcessReading(pid=5)


def test_unknown_memory_is_not_zero_and_not_counted_twice() -> None:
    graphics = GpuProcess(pid=5, kind=GpuUse.GRAPHICS, memory_bytes=10)
    reading = GpuReading(address="a", processes=(graphics, replace(graphics, kind="compute")))
    other = GpuReading(address="b", processes=(GpuProcess(pid=6, kind=GpuUse.COMPUTE),))
    first, second = gpu_users(Readings(gpus=(reading, other)))
    assert (first.memory_bytes, first.kinds) == (10, ("graphics", "compute"))
    assert second.memory_bytes is None


def test_ranks_of_one_communicator_are_proven_by_where_they_meet() -> None:
    one = [user(n, rank=n, **WORLD) for n in range(2)]
    other = [user(n, rank=n, world_size=4, rendezvous="10.0.0.2:1") for n in range(5, 7)]
    assert communicators([*other, *one]) == (tuple(one), tuple(other))


def test_a_loopback_address_is_another_place_in_another_network_namespace() -> None:
    def at(pid: int, net: str) -> GpuUser:
        spaces = (("net", net),)
        meet = "localhost:29500"
        return user(pid, rank=pid, world_size=4, rendezvous=meet, namespaces=spaces)

    assert communicators([at(0, "1"), at(1, "2")]) == ()
    assert len(communicators([at(0, "1"), at(1, "1")])) == 1


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"world_size": 4, "job": "slurm 7.0"}, 1),
        ({"world_size": 4, "job": "slurm 7"}, 0),
        ({"world_size": 4, "job": "slurm 7", "parent": 3}, 1),
        ({"world_size": 4, "job": "torchrun x", "parent": 3}, 1),
        ({"world_size": 4, "job": "torchrun x"}, 0),
        ({"job": "slurm 7.0"}, 0),
        ({"world_size": 1, "job": "slurm 7.0"}, 0),
    ],
)
def test_without_proof_there_is_no_communicator(fields: dict[str, Any], count: int) -> None:
    assert len(communicators([user(n, rank=n, **fields) for n in (0, 1)])) == count


def test_a_rank_that_is_there_twice_proves_nothing_unless_one_started_the_other() -> None:
    ranks = [user(n, rank=n, **WORLD) for n in range(2)]
    helper = user(9, rank=0, parent=0, **WORLD)
    assert communicators([*ranks, helper]) == (tuple(ranks),)
    assert communicators([*ranks, user(9, rank=0, **WORLD)]) == ()


def test_the_demo_s_ranks_are_one_job_near_their_gpus() -> None:
    snapshot = DemoFeed("hgx-h100-8").at(7)
    (job,) = jobs(snapshot)
    assert (job.name, job.world_size, len(job.processes)) == ("torchrun demo", 6, 6)
    assert communicators(job.processes) == (job.processes,)
    for process in job.processes:
        found = snapshot.machine.gpu(process.gpus[0])
        assert found is not None
        assert binding(snapshot.machine, process.reading, found).cpus == NEAR


TWO = Machine(
    host=Host(numa=(NumaNode(node=0, cpus="0-3"), NumaNode(node=1, cpus="4-7"))),
    gpus=(gpu(0, numa_node=1),),
)


@pytest.mark.parametrize(
    ("cpus", "nodes", "words"),
    [
        ("4-7", "1", (NEAR, NEAR)),
        ("5", "0-1", (NEAR, PARTLY)),
        ("0-7", "0", (PARTLY, FAR)),
        ("0-3", None, (FAR, None)),
        (None, "1", (None, NEAR)),
        ("", "x", (None, None)),
    ],
)
def test_binding_is_held_against_the_gpu_s_node(
    cpus: str | None, nodes: str | None, words: tuple[str | None, str | None]
) -> None:
    one = process(1, cpu_affinity=cpus, memory_nodes=nodes)
    found = binding(TWO, one, TWO.gpus[0])
    assert (found.cpus, found.memory) == words


def test_an_unknown_node_is_not_far_and_one_node_is_no_question() -> None:
    one = process(1, cpu_affinity="0-3", memory_nodes="0")
    unknown = binding(TWO, one, gpu(0, numa_node=None))
    assert (unknown.node, unknown.cpus, unknown.memory) == (None, None, None)
    said = binding(TWO, one, gpu(0, numa_node=None, cpu_affinity="4-7"))
    assert (said.cpus, said.memory) == (FAR, None)
    single = Machine(host=Host(numa=(NumaNode(node=0, cpus="0-7"),)))
    assert binding(single, one, gpu(0)).cpus == ONE_NODE


def test_several_gpus_give_one_word() -> None:
    near, far = Binding(gpu="a", cpus=NEAR), Binding(gpu="b", cpus=FAR)
    assert together((near, near)) == NEAR
    assert together((near, far)) == PARTLY
    assert together((near, Binding(gpu="c"))) is None
    assert together(()) is None


def test_ranks_that_a_shell_starts_one_by_one_are_one_job() -> None:
    ranks = [
        process(40 + at, rank=at, parent=7, parent_command="bash", command="python3", **WORLD)
        for at in range(2)
    ]
    other = process(90, parent=7, parent_command="bash", command="python3")
    assert [[user.pid for user in job.processes] for job in jobs(node(*ranks, other))] == [
        [40, 41],
        [90],
    ]
