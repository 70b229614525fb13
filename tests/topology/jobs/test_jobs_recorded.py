"""A torchrun job as it was read on a machine with two H200."""

from __future__ import annotations

import msgspec

from gputop.topology.jobs.binding import FAR, NEAR, ONE_NODE, binding
from gputop.topology.jobs.grouping import communicators, jobs
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import NumaNode

from ...support.rule_cases import base, diagnosed, ids

TORCHRUN = "torchrun-h200-2gpu"


def in_two_nodes(snapshot: NodeSnapshot) -> NodeSnapshot:
    """The same as if CPUs 0-3 were on node 0 and both GPUs on node 1, with the others."""
    host = snapshot.machine.host
    assert host is not None
    numa = (NumaNode(node=0, cpus="0-3"), NumaNode(node=1, cpus="4-31"))
    gpus = tuple(msgspec.structs.replace(gpu, numa_node=1) for gpu in snapshot.machine.gpus)
    machine = msgspec.structs.replace(
        snapshot.machine, host=msgspec.structs.replace(host, numa=numa), gpus=gpus
    )
    processes = tuple(
        msgspec.structs.replace(process, memory_nodes="0-1")
        for process in snapshot.readings.processes
    )
    readings = msgspec.structs.replace(snapshot.readings, processes=processes)
    return msgspec.structs.replace(snapshot, machine=machine, readings=readings)


def test_the_ranks_are_one_job_and_one_communicator() -> None:
    (job,) = jobs(base(TORCHRUN))
    readings = [user.reading for user in job.processes]
    assert job.name.startswith("torchrun ")
    assert [(reading.rank, reading.local_rank, reading.world_size) for reading in readings] == [
        (0, 0, 2),
        (1, 1, 2),
    ]
    assert [reading.cpu_affinity for reading in readings] == ["0-3", "4-7"]
    assert ("NCCL_DEBUG", "WARN") in (readings[0].variables or ())
    assert [len(group) for group in communicators(job.processes)] == [2]
    assert "gpu-busy" in ids(diagnosed(base(TORCHRUN)))


def test_a_rank_on_the_wrong_numa_node_is_found() -> None:
    snapshot = in_two_nodes(base(TORCHRUN))
    machine = snapshot.machine
    whole = base(TORCHRUN).machine
    found = [
        binding(machine, one, gpu).cpus
        for one, gpu in zip(snapshot.readings.processes, machine.gpus, strict=True)
    ]
    assert found == [FAR, NEAR]
    assert binding(whole, snapshot.readings.processes[0], whole.gpus[0]).cpus == ONE_NODE
    far = [finding for finding in diagnosed(snapshot).findings if finding.id == "numa-binding"]
    assert [finding.devices for finding in far] == [(machine.gpus[0].address,)]
    assert "numa-binding" not in ids(diagnosed(base(TORCHRUN)))
