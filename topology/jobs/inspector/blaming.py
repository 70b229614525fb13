"""Why a rank comes last in what the Inspector recorded: its program calls late, or its GPU is busy.

An event trace proves it by itself. On two H100 a rank that spins 50 ms on its CPU called 0.1 ms
before its kernel began, while the other one had waited for 29 ms. Else how busy the GPU of that
rank was when the node was read shows it, where the others wait for it for most of the time.
"""

from __future__ import annotations

import msgspec

from ...model.readings import GpuReading
from ...model.units import percent
from ...nccl.decide.summary import duration
from ..lateness import Lateness
from .comparing import MOSTLY, Inspected, worst

LEAST_WAITING = 0.3
"""Of the time: where others wait for less of it, how busy a GPU is at one moment shows nothing."""
BY_DESIGN = (
    "a rank that evaluates or writes a checkpoint alone, and a stage of a pipeline, come last too"
)
BEFORE_ITS_CALL = (
    "program does before it calls: it computes, loads data, or waits for a lock, for another "
    f"program or for its own GPU; {BY_DESIGN}. What `py-spy dump` prints of it, kept beside these, "
    "shows where it is"
)
EARLIER_WORK = (
    "GPU does meanwhile: more work than the others have, the same more slowly, that of another "
    f"program, or it waits in another communicator; {BY_DESIGN}"
)
NOT_DECIDED = f"its CPU, its GPU, its data or its work; {BY_DESIGN}"
BY_NODE = "what `gputop snapshot` prints on its node while it runs, kept beside these, tells"
BY_BOTH = (
    "records of a job that is started with NCCL_INSPECTOR_DUMP_VERBOSE=1 tell, and so does what "
    "`gputop snapshot` prints on its node while it runs, kept beside these"
)
"""What would decide it, with event traces that do not, and without them."""


class LateFor(msgspec.Struct, frozen=True):
    """Why the rank that comes last does."""

    rank: int
    why: str = ""
    """In a few words; "" where nothing proves it."""
    how: Lateness | None = None
    traced: bool = False
    """Whether the records have event traces."""

    @property
    def question(self) -> str:
        """What that leaves open."""
        left = {Lateness.HOST: BEFORE_ITS_CALL, Lateness.GPU: EARLIER_WORK}
        if self.how is None:
            more = BY_NODE if self.traced else BY_BOTH
            return f"why rank {self.rank} comes last: {NOT_DECIDED}; {more}"
        return f"what rank {self.rank}'s {left[self.how]}"


def late_for(
    inspected: Inspected, gpu: GpuReading | None = None, *, then: bool = False
) -> LateFor | None:
    """Why the rank comes last that others wait for; None where nobody waits for one.

    `gpu`: its own GPU as the node had it while the job ran; `then`: it is said of the past.
    """
    kind = worst(inspected)
    if kind is None or kind.late is None:
        return None
    rank, queue = kind.late.rank, kind.late.queue
    unproven = LateFor(rank, traced=queue is not None)
    if queue is not None and kind.lateness is not None:
        how = kind.lateness
        why = _by_trace(how, duration(1e6 * queue.seconds), then=then)
        return LateFor(rank, why, how, traced=True)
    busy = None if gpu is None else gpu.utilization_percent
    if busy is None or kind.share is None or not kind.whole or kind.share < LEAST_WAITING:
        return unproven
    return _by_load(unproven, busy, kind.share)


def _by_trace(how: Lateness, ahead: str, *, then: bool) -> str:
    calls, begins = ("called", "began") if then else ("calls", "begins")
    if how is Lateness.HOST:
        return f"its program {calls} late, its GPU {begins} {ahead} after a call"
    return f"its program {calls} in time, its GPU {begins} {ahead} later, after other work"


def _by_load(unproven: LateFor, busy: float, waiting: float) -> LateFor:
    """By how busy its GPU is, in percent, and the share of the time that others wait for it.

    It waits for nobody itself, so a GPU that is always busy has other work meanwhile; one that has
    none for about as long as others wait has none then.
    """
    idle = 1 - busy / 100
    if idle >= MOSTLY * waiting:
        why = f"its GPU has no work for {percent(100 * idle)} of the time"
        return LateFor(unproven.rank, why, Lateness.HOST)
    if idle <= (1 - MOSTLY) * waiting:
        why = f"its GPU is busy for {percent(busy)} of the time, with other work"
        return LateFor(unproven.rank, why, Lateness.GPU)
    return unproven
