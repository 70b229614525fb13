"""Does a collective finish? NCCL or RCCL itself in the job's environment (rung 4 of the ladder).

One process for each selected GPU, ranks in PCI order, each with access to all GPUs. They create the
communicator, check and time two all-reduces, then move and compare data for every ordered pair, so
that the debug log names each transport; the log is part of the answer. A failing library is an
answer too: a measurement with the verdict "failed" or "timed-out", and its warnings.
"""

from collections.abc import Callable

from ...crew.crew import Crew, Trouble
from ...crew.probe import run_crew
from ...protocol.messages import MeasuredValue, Message, WorkerRequest
from ...protocol.spec import ProbeSpec
from .quantities import FINISHES, QUANTITIES, SEND_RECEIVE
from .rank import NEEDED_BYTES, NcclMember, steps

SPEC = ProbeSpec(
    name="nccl",
    title="NCCL or RCCL itself",
    measures=(
        "With one process on each GPU and the environment of this shell: whether the communicator "
        "comes up, all-reduce GB/s, a checked send and receive for every ordered pair, and the "
        "library's own log of what it decided."
    ),
    method="nccl/4",
    minimum_gpus=2,
    memory_bytes_per_gpu=NEEDED_BYTES,
    start_seconds=3.0,
    seconds_per_gpu=0.25,
    seconds_per_pair=0.08,
    seconds_alone=1.0,
    level_factors={"quick": 1.0, "normal": 1.0, "full": 1.0},
    by_library=True,
    quantities=QUANTITIES,
)

Emit = Callable[[Message], None]


def run(request: WorkerRequest, emit: Emit) -> None:
    """Run all ranks; each rank also enters here. ProbeStopped if they do not reach the end."""
    run_crew(request, emit, SPEC, steps, NcclMember, debug_log=True, answer=_answer)


def _answer(trouble: Trouble, crew: Crew) -> MeasuredValue:
    """The failure as a measurement."""
    quantity, src, dst = FINISHES, "", ""
    if trouble.step.kind == "transfer":
        quantity = SEND_RECEIVE
        src, dst = crew.key_of(trouble.step.src), crew.key_of(trouble.step.dst)
    return MeasuredValue(
        name=quantity.key,
        src=src,
        dst=dst,
        method=SPEC.method,
        device_kind=crew.device_kind,
        engine=crew.library,
        direction=trouble.step.what,
        verdict=trouble.error,
        why=trouble.text,
    )
