"""What the job of a demo would say of itself: /proc read twice and NCCL's RAS, simulated.

The job of a sick node hangs: one rank has not launched the all-reduce in which all others wait. In
a slow job one rank waits for its loader in each step. The job of any other node runs.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gputop.topology.jobs.activity import Activity
from gputop.topology.jobs.asking import JobsReport, answer
from gputop.topology.jobs.grouping import GpuUser, jobs
from gputop.topology.jobs.loads.watching import GpuSlice, JobLoads, slice_of
from gputop.topology.jobs.ras.answer import parse
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.comparing import communicator_states
from gputop.topology.jobs.ras.places import DEFAULT, place
from gputop.topology.model.readings import ProcessState
from gputop.topology.model.snapshot import DEMO, NodeSnapshot
from gputop.topology.recorded.demos.demo import names
from gputop.topology.recorded.demos.shape import DemoShape, load
from gputop.topology.recorded.demos.work import LOADER, work_of

PROGRAM = "train.py"
LAUNCHED = 1042
SECONDS = 2.0
GROWN = 30
"""Collectives between two answers of RAS."""
SLICES = 8
LOOKS = 24
"""How often it is looked at where a process sleeps."""
HOPPER = 9
"""NVML's number of the architecture."""
QUIET = 720.0
"""For how long RAS would have seen no collective launched; enough for a hang."""


def simulated(snapshot: NodeSnapshot, demo: str) -> JobsReport:
    """The answer for a demo, through the parsers that read a real one."""
    shape = load(demo)
    hung = {shape.job.late} if shape.job is not None and shape.job.hangs else set()
    users = [user for job in jobs(snapshot) for user in job.processes]
    late = frozenset(gpu.address for gpu in snapshot.machine.gpus if gpu.index in hung)
    first = _reply(snapshot, users, late, LAUNCHED - (0 if late else GROWN))
    second = _reply(snapshot, users, late, LAUNCHED)
    loads = _loads(snapshot, shape)
    activities = {user.pid: _activity(user, loads) for user in users}
    told = communicator_states([second], [first]) if users else ()
    told = tuple(
        msgspec.structs.replace(state, quiet_seconds=QUIET if late else 0.0) for state in told
    )
    report = answer(
        snapshot,
        activities,
        told,
        asked=True,
        replies=(second,),
        seconds=SECONDS,
        loads=loads,
    )
    made_up = tuple(msgspec.structs.replace(job, simulated=True) for job in report.jobs)
    return msgspec.structs.replace(report, jobs=made_up)


def of_node(snapshot: NodeSnapshot) -> JobsReport | None:
    """The answer for a node that is a demo; None for anything else."""
    source = snapshot.source[0] if len(snapshot.source) == 1 else ""
    name = source.removeprefix(DEMO)
    return simulated(snapshot, name) if source.startswith(DEMO) and name in names() else None


def _loads(snapshot: NodeSnapshot, shape: DemoShape) -> JobLoads:
    """What GPM of a Hopper GPU or a later one would give; nothing of other GPUs."""
    if shape.nvlink is None or shape.gpu.architecture < HOPPER:
        return JobLoads()
    found: dict[str, tuple[GpuSlice, ...]] = {}
    sleeps: dict[int, dict[str, int]] = {}
    for gpu in snapshot.machine.gpus:
        reading = snapshot.readings.gpu(gpu.address)
        if gpu.index is None or reading is None:
            continue
        work = work_of(shape, gpu.index).value
        sent, received = (
            (rate or 0.0) / 2**20
            for rate in (reading.nvlink_tx_bytes_per_second, reading.nvlink_rx_bytes_per_second)
        )
        metrics = {
            "busy": work.utilization,
            "sm": work.multiprocessors,
            "nvlink_tx": sent,
            "nvlink_rx": received,
        }
        given = slice_of(metrics)
        found[gpu.address] = () if given is None else (given,) * SLICES
        if work.sleeps:
            pids = [process.pid for process in reading.processes or ()]
            asleep = round(LOOKS * work.sleeps)
            sleeps |= {pid: {LOADER: asleep, "": LOOKS - asleep} for pid in pids}
    return JobLoads(gpus=found, sleeps=sleeps)


def _activity(user: GpuUser, loads: JobLoads) -> Activity:
    """A rank keeps a core busy, as it asks its GPU all the time whether it is done, or sleeps."""
    asleep = loads.sleeps.get(user.pid, {}).get(LOADER, 0) / LOOKS
    state = ProcessState.SLEEPING if asleep else ProcessState.RUNNING
    return Activity(
        pid=user.pid,
        seconds=SECONDS,
        states=(state, state),
        user_cores=1.0 - asleep,
        system_cores=0.02,
        memory_bytes=user.reading.memory_bytes,
        grown_bytes=0,
        program=PROGRAM,
        variables=(),
    )


def _reply(
    snapshot: NodeSnapshot, users: list[GpuUser], late: frozenset[str], launched: int
) -> RasReply:
    ranks: list[dict[str, Any]] = []
    for number, user in enumerate(users):
        gpu = snapshot.machine.gpu(user.gpus[0])
        index = None if gpu is None else gpu.index
        behind = not late.isdisjoint(user.gpus)
        ranks.append(
            {
                "rank": number if user.reading.rank is None else user.reading.rank,
                "host": "127.0.0.1",
                "pid": user.pid,
                "cuda_dev": index,
                "nvml_dev": index,
                "status": {"init_state": 0, "async_error": 0},
                "collective_counts": {"AllReduce": launched - behind},
            }
        )
    communicator = {"hash": "0xd3e0", "size": len(ranks), "ranks": ranks, "missing_ranks": []}
    document = {"communicators": [communicator] if ranks else [], "ras": {}}
    found = parse(json.dumps(document).encode())
    return RasReply(place=place(DEFAULT), answers=(found,))
