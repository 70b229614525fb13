"""What the job of a demo would say of itself: /proc read twice and NCCL's RAS, simulated.

The job of a node with a faulty GPU hangs: the rank on that GPU has not launched the all-reduce in
which all others wait. The job of any other node runs.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gputop.topology.jobs.activity import Activity
from gputop.topology.jobs.asking import JobsReport, answer
from gputop.topology.jobs.grouping import GpuUser, jobs
from gputop.topology.jobs.ras.answer import parse
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.comparing import communicator_states
from gputop.topology.jobs.ras.places import DEFAULT, place
from gputop.topology.model.readings import ProcessState
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.demos.shape import load

PROGRAM = "train.py"
LAUNCHED = 1042
SECONDS = 0.4
QUIET = 720.0
"""For how long RAS would have seen no collective launched; enough for a hang."""


def simulated(snapshot: NodeSnapshot, demo: str) -> JobsReport:
    """The answer for a demo, through the parsers that read a real one."""
    shape = load(demo)
    faulty = frozenset(
        gpu.address
        for gpu in snapshot.machine.gpus
        if gpu.index is not None and shape.fault_of(gpu.index) is not None
    )
    users = [user for job in jobs(snapshot) for user in job.processes]
    late = faulty & {address for user in users for address in user.gpus}
    first = _reply(snapshot, users, late, LAUNCHED - (0 if late else 3))
    second = _reply(snapshot, users, late, LAUNCHED)
    activities = {user.pid: _activity(user) for user in users}
    told = communicator_states([second], [first]) if users else ()
    told = tuple(
        msgspec.structs.replace(state, quiet_seconds=QUIET if late else 0.0) for state in told
    )
    return answer(snapshot, activities, told, asked=True, replies=(second,), seconds=SECONDS)


def _activity(user: GpuUser) -> Activity:
    return Activity(
        pid=user.pid,
        seconds=SECONDS,
        states=(ProcessState.RUNNING, ProcessState.RUNNING),
        user_cores=1.0,
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
