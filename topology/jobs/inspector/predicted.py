"""The speed of a job's collectives beside what the library is predicted to reach on its GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from ...model.finding import Finding
from ...model.severity import NOTICE, SLOW
from ...model.snapshot import NodeSnapshot
from ...model.units import gbs, size
from ...nccl.prediction import Prediction
from ..grouping import Job
from ..held_back import MATTERS, HeldBack, predicted, shared_variables
from ..standing import KnownBy, job_finding
from .comparing import Inspected, OperationKind

MOST_KINDS = 3
LOW = 0.6
"""Of the prediction: what computes beside a collective costs it up to a third of its speed."""


def speed_findings(
    inspected: Inspected, snapshot: NodeSnapshot, job: Job, held_back: HeldBack | None
) -> Iterator[Finding]:
    """The costliest collectives of a job whose ranks are all here, beside their prediction."""
    ranks = len(job.ranked)
    kinds = [one for one in inspected.kinds if one.ranks == ranks and one.bus_gbs is not None]
    if not kinds or job.world_size != ranks:
        return
    variables = dict(shared_variables(job))
    own = predicted(snapshot, variables, job)
    taken = () if held_back is None else [name for name, _ in held_back.variables]
    left = {name: value for name, value in variables.items() if name not in taken}
    bare = predicted(snapshot, left, job) if taken else own
    if own is None or bare is None:
        return
    for kind in kinds[:MOST_KINDS]:
        expected, free = predicted_gbs(own, kind), predicted_gbs(bare, kind)
        if expected is not None:
            yield _finding(kind, expected, free, "" if held_back is None else held_back.named)


def _finding(kind: OperationKind, expected: float, free: float | None, named: str) -> Finding:
    here = kind.bus_gbs or 0.0
    low = here < LOW * expected
    text = (
        f"{kind.spoken} of {size(kind.message_bytes)}: {gbs(here)} on the bus{' only' * low}, "
        f"{gbs(expected)} predicted for these GPUs"
    )
    slower = free is not None and free >= MATTERS * expected
    if slower and free is not None:
        text += f", and {gbs(free)} without {named}"
    severity = SLOW if low or slower else NOTICE
    return job_finding("collective-speed", text, KnownBy.INSPECTOR, severity)


def predicted_gbs(prediction: Prediction, kind: OperationKind) -> float | None:
    """Bus bandwidth in GB/s at the kind's size, between the sizes that are predicted; else None."""
    times = sorted(
        (choice.bytes, choice.expected_us)
        for choice in prediction.choices
        if choice.collective == kind.name and choice.expected_us > 0
    )
    wanted = kind.message_bytes
    for (low, first), (high, second) in pairwise(times):
        if low <= wanted <= high:
            share = math.log(wanted / low) / math.log(high / low)
            seconds = float(first * (second / first) ** share / 1e6)
            return (kind.bus_gbs or 0.0) * kind.transfer_seconds / seconds
    return None
