"""A collective finishes: NCCL or RCCL itself, with the job's environment (rung 4 of the ladder).

One process for each selected GPU, ranks in PCI order, each seeing all GPUs. The communicator comes
up, two all-reduces are checked and timed, then every ordered pair moves data that is compared, so
that each transport shows in the debug log, which comes back too. That the library fails here is an
answer: a measurement with the verdict "failed" or "timed-out", and its warnings.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from ..crew import Crew, Trouble
from ..opening import open_backend
from ..protocol import Measurement, Message, Note, Request
from ..rank import NEEDED_BYTES, run_rank
from ..rank_environment import changes_of, rank_environment, what_was_done
from ..rank_logs import pieces, warnings
from ..spec import ProbeSpec, ProbeStopped

SPEC = ProbeSpec(
    name="nccl",
    title="NCCL or RCCL itself",
    measures=(
        "With one process on each GPU and the environment of this shell: whether the communicator "
        "comes up, all-reduce GB/s, a checked send and receive for every ordered pair, and the "
        "library's own log of what it decided."
    ),
    method="nccl/1",
    minimum_gpus=2,
    memory_bytes_per_gpu=NEEDED_BYTES,
    start_seconds=7.0,
    seconds_per_gpu=0.6,
    seconds_per_pair=0.15,
    private_folder=True,
)

_DEFAULT_SECONDS = 55.0

Emit = Callable[[Message], None]


def run(request: Request, emit: Emit) -> None:
    """Run all ranks; ProbeStopped where they do not reach the end. A rank itself comes here too."""
    if "rank" in request.params:
        run_rank(request, emit, SPEC)
        return
    params = request.params
    folder = params.get("folder")
    if not isinstance(folder, str) or not os.path.isdir(folder):
        raise ProbeStopped("refused", "This probe needs a private folder, and none was made.")
    changes = changes_of(params)
    ranks, is_cpu = _ranks(request)
    text, details = what_was_done(os.environ, changes, loopback=params.get("loopback") is True)
    emit(Note("environment", text, details))
    environments = [
        rank_environment(os.environ, changes, folder, rank, cpu=is_cpu) for rank in range(ranks)
    ]
    crew = Crew(request, environments, emit, _seconds(params), cpu=is_cpu)
    try:
        trouble = crew.watch()
    finally:
        crew.end()
    for rank in range(ranks):
        for piece in pieces(folder, rank):
            emit(piece)
    if trouble is not None:
        _tell(trouble, crew, warnings(folder, ranks), emit)
        raise ProbeStopped(trouble.error, trouble.text)


def _ranks(request: Request) -> "tuple[int, bool]":
    """How many ranks, and whether they are those of the self-test on the CPU."""
    if request.devices:
        return len(request.devices), False
    backend = open_backend(request.params)
    found = len(backend.devices())
    if found < SPEC.minimum_gpus:
        raise ProbeStopped("refused", f"{SPEC.minimum_gpus} GPUs are needed, and {found} is here.")
    return found, backend.kind == "cpu"


def _seconds(params: Mapping[str, Any]) -> float:
    """The ranks' own deadline: before that of whoever waits, so that the logs still come back."""
    wanted = params.get("seconds", _DEFAULT_SECONDS)
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or wanted <= 0:
        raise ProbeStopped("refused", "seconds is a number above 0.")
    return float(wanted)


def _tell(trouble: Trouble, crew: Crew, warned: "list[str]", emit: Emit) -> None:
    """The failure as a measurement, unless nothing was tried."""
    if warned:
        emit(Note("warnings", "\n".join(warned), {"lines": warned}))
    if trouble.error not in ("failed", "timed-out") or trouble.step.kind == "open":
        return
    name, src, dst = "collective", "", ""
    if trouble.step.kind == "transfer":
        name = "send-receive"
        src, dst = crew.key_of(trouble.step.src), crew.key_of(trouble.step.dst)
    hello = crew.hello
    is_cpu = hello is not None and hello.device_kind == "cpu"
    library = "gloo" if is_cpu else "RCCL" if hello is not None and hello.hip else "NCCL"
    emit(
        Measurement(
            name=name,
            src=src,
            dst=dst,
            method=SPEC.method,
            device_kind="cpu" if is_cpu else "gpu",
            engine=library,
            direction=trouble.step.what,
            verdict=trouble.error,
            why=trouble.text,
        )
    )
