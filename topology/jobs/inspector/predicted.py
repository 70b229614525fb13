"""The speed of a job's collectives beside what the library is predicted to reach on its GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ...flags.values.predicting import predict_with_flags
from ...model.english import listing
from ...model.finding import Finding
from ...model.severity import NOTICE, SLOW
from ...model.snapshot import NodeSnapshot
from ...model.units import gbs, size
from ...nccl.decide.predict import NoGpusError
from ...nccl.prediction import Prediction
from ...nccl.settings import Settings
from ...nccl.versions import UnknownVersionError
from ..grouping import Job
from ..standing import KnownBy, job_finding
from .comparing import Inspected, OperationKind

MOST_KINDS, MOST_NAMED = 3, 3
LOW = 0.6
"""Of the prediction: what computes beside a collective costs it up to a third of its speed."""
MATTERS = 1.3
"""From this many times the speed without the job's variables on, they are named."""


def speed_findings(inspected: Inspected, snapshot: NodeSnapshot, job: Job) -> Iterator[Finding]:
    """The costliest collectives of a job whose ranks are all here, beside their prediction."""
    ranks = len(job.ranked)
    kinds = [one for one in inspected.kinds if one.ranks == ranks and one.bus_gbs is not None]
    if not kinds or job.world_size != ranks:
        return
    variables = _variables(job)
    try:
        own = _predicted(snapshot, variables, job)
        bare = _predicted(snapshot, {}, job) if variables else own
    except (NoGpusError, UnknownVersionError):
        return
    for kind in kinds[:MOST_KINDS]:
        expected, free = predicted_gbs(own, kind), predicted_gbs(bare, kind)
        if expected is not None and kind.bus_gbs is not None:
            yield _finding(kind, expected, free, sorted(own.environment))


def _predicted(snapshot: NodeSnapshot, variables: Mapping[str, str], job: Job) -> Prediction:
    """What the library that the job has loaded does on its GPUs."""
    return predict_with_flags(snapshot, Settings(variables), library=job.library, gpus=job.gpus)


def _finding(
    kind: OperationKind, expected: float, free: float | None, variables: list[str]
) -> Finding:
    here = kind.bus_gbs or 0.0
    low = here < LOW * expected
    text = (
        f"{kind.spoken} of {size(kind.message_bytes)}: {gbs(here)} on the bus{' only' * low}, "
        f"{gbs(expected)} predicted for these GPUs"
    )
    if free is not None and free >= MATTERS * expected and variables:
        text += f", and {gbs(free)} without {listing(variables, MOST_NAMED)}"
    elif low and variables:
        # The library's own model of time knows nothing of channels that a variable takes away.
        text += f"; its ranks set {listing(variables, MOST_NAMED)}"
    return job_finding("collective-speed", text, KnownBy.INSPECTOR, SLOW if low else NOTICE)


def _variables(job: Job) -> Mapping[str, str]:
    """What all ranks were started with alike."""
    told = [dict(user.reading.variables or ()) for user in job.ranked]
    first = told[0] if told else {}
    return {
        name: value for name, value in first.items() if all(one.get(name) == value for one in told)
    }


def predicted_gbs(prediction: Prediction, kind: OperationKind) -> float | None:
    """Bus bandwidth in GB/s at the kind's size, between the sizes that are predicted; else None."""
    times = sorted(
        (choice.bytes, choice.time_us)
        for choice in prediction.choices
        if choice.collective == kind.name and choice.time_us > 0
    )
    wanted = kind.message_bytes
    for (low, first), (high, second) in pairwise(times):
        if low <= wanted <= high:
            share = math.log(wanted / low) / math.log(high / low)
            seconds = float(first * (second / first) ** share / 1e6)
            return (kind.bus_gbs or 0.0) * kind.transfer_seconds / seconds
    return None
