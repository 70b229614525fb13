"""A train step: forward and backward of a few transformer layers, alone and data parallel.

The layers are those of Llama 3 8B in bf16, without embedding, vocabulary head and optimizer. They
run in eager PyTorch, because torch.compile takes a minute before its first step and its gain
depends on the version, not on the machine.
"""

from collections.abc import Callable
from typing import Optional

from ...crew.crew import Crew, Trouble
from ...crew.probe import run_crew
from ...devices.opening import drop_overruled_variables
from ...protocol.messages import MeasuredValue, Message, Note, WorkerRequest
from ...protocol.spec import ProbeSpec
from .model import Stack
from .rank import TOGETHER, TRAIN_STEP, TrainMember, steps

SPEC = ProbeSpec(
    name="train-step",
    title="Train step",
    measures=(
        "Model TFLOP/s and tokens per second of Llama-like layers in bf16, forward and backward: "
        "each GPU alone, then data parallel with gradients added up during the backward pass."
    ),
    method="train-step/1",
    minimum_gpus=1,
    memory_bytes_per_gpu=Stack(layers=4, sequence=4096).memory_bytes,
    start_seconds=6.0,
    seconds_per_gpu=0.2,
    seconds_per_pair=0.0,
    seconds_alone=5.0,
    level_factors={"quick": 0.7, "normal": 1.0, "full": 3.0},
    loads=("links", "memory", "compute"),
    imports=("_dynamo",),  # DistributedDataParallel asks it for its settings
    quantities=(TRAIN_STEP,),
)

Emit = Callable[[Message], None]


def run(request: WorkerRequest, emit: Emit) -> None:
    """Run all ranks; each rank also enters here. ProbeStopped if they do not reach the end."""
    dropped = drop_overruled_variables()
    if dropped:
        emit(Note("environment", f"Left out for this run: {', '.join(dropped)}."))
    run_crew(request, emit, SPEC, steps, TrainMember, answer=_answer)


def _answer(trouble: Trouble, crew: Crew) -> Optional[MeasuredValue]:
    """Report as a figure that training together does not end."""
    if trouble.step.kind not in (TOGETHER, "init"):
        return None
    return MeasuredValue(
        name=TRAIN_STEP.key,
        src="",
        dst="",
        method=SPEC.method,
        device_kind=crew.device_kind,
        engine=f"PyTorch, eager, {crew.library}",
        direction=trouble.step.what,
        verdict=trouble.error,
        why=trouble.text,
        variant="data parallel",
    )
