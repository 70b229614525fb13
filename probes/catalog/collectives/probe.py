"""Collectives of NCCL or RCCL: bus bandwidth against message size.

All-reduce, all-gather, reduce-scatter, all-to-all, broadcast and a ring of send/receive, float32,
one process on each selected GPU, in the job's own environment, by the library alone where it is
found, else through torch.distributed. `operations` says what is sent, what
counts and which forms there are; `rank` how they are timed; `plan` holds sizes and time limits.
The reference is nccl-tests: from 16 MiB up its default run, below that a run that launches do not
limit.

Parameters: `level`, `force`, `large` (4 and 8 GiB too), `operations` (a list of names).
"""

from collections.abc import Callable

from ...crew.crew import Crew, Trouble
from ...crew.probe import run_crew
from ...protocol.messages import MeasuredValue, Message, WorkerRequest
from ...protocol.spec import ProbeSpec
from .operations import BY_NAME, OPERATIONS
from .plan import GIB, steps
from .rank import LIBRARY_BYTES, CollectiveMember

SPEC = ProbeSpec(
    name="collectives",
    title="Collectives",
    measures=(
        "Bus bandwidth of all-reduce, all-gather, reduce-scatter, all-to-all, broadcast and "
        "send/receive from 1 KiB to 1 GiB, as nccl-tests defines it, by NCCL or RCCL "
        "with the environment of this shell; the data is checked."
    ),
    method="collectives/3",
    minimum_gpus=2,
    memory_bytes_per_gpu=LIBRARY_BYTES + 2 * GIB,
    start_seconds=3.0,
    seconds_per_gpu=0.25,
    seconds_per_pair=0.0,
    seconds_alone=10.5,
    level_factors={"quick": 0.28, "normal": 1.0, "full": 4.0},
    by_library=True,
    quantities=tuple(operation.quantity for operation in OPERATIONS),
)

Emit = Callable[[Message], None]


def run(request: WorkerRequest, emit: Emit) -> None:
    """Run all ranks; each rank also enters here. ProbeStopped if they do not reach the end."""
    run_crew(request, emit, SPEC, steps, CollectiveMember, answer=_answer)


def _answer(trouble: Trouble, crew: Crew) -> "MeasuredValue | None":
    """A collective that does not end is a finding; one that never began is only a message."""
    step = trouble.step
    if step.kind not in BY_NAME:
        return None
    return MeasuredValue(
        name=BY_NAME[step.kind].quantity.key,
        src="",
        dst="",
        method=SPEC.method,
        device_kind=crew.device_kind,
        engine=crew.library,
        direction=step.what,
        verdict=trouble.error,
        why=trouble.text,
        bytes_per_copy=step.size_bytes,
        variant=step.variant,
    )
