"""Jobs as they were read on two H100: what was asked of the machine, given to the judge again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gputop.topology.jobs.activity import Activity
from gputop.topology.jobs.asking import JobsReport, answer
from gputop.topology.jobs.loads.watching import JobLoads
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.comparing import communicator_states
from gputop.topology.jobs.traffic import CarriedTraffic
from gputop.topology.model.snapshot import NodeSnapshot


class RecordedJob(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the jobs of a node."""

    snapshot: NodeSnapshot
    activities: dict[int, Activity]
    replies: tuple[RasReply, ...]
    earlier: tuple[RasReply, ...]
    quiet: tuple[float | None, ...]
    """Seconds in which nothing was launched, by communicator."""
    traffic: CarriedTraffic | None = None
    seconds: float | None = None
    loads: JobLoads = JobLoads()
    now: float = 0.0


def recorded(path: Path, node: Path | None = None) -> RecordedJob:
    """Read one; `node`: what all looks at it have in common."""
    data: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    if node is not None:
        whole: dict[str, Any] = msgspec.json.decode(node.read_bytes())
        data["snapshot"] = {**whole, "readings": data.pop("readings"), "taken_at": data["now"]}
    return msgspec.convert(data, RecordedJob, strict=False)


def replayed(job: RecordedJob) -> JobsReport:
    """What is said of it now."""
    states = communicator_states(job.replies, job.earlier)
    return answer(
        job.snapshot,
        job.activities,
        tuple(
            msgspec.structs.replace(state, quiet_seconds=quiet)
            for state, quiet in zip(states, job.quiet, strict=True)
        ),
        replies=job.replies,
        asked=True,
        traffic=job.traffic,
        seconds=job.seconds,
        loads=job.loads,
        now=job.now,
    )
