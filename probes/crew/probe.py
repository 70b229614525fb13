"""A probe that runs as several ranks, one process on each GPU; one GPU is one rank.

Such a probe gives a list of steps, a pure function (`rank_steps.Steps`), and a `rank.Member`, which
says what a rank does for a step. Its `run` is one call of `run_crew`: in the worker that starts the
ranks, hears them and passes on what they say; in a rank, which is the same script with the same
request and its number in it, that goes through the steps. So:

    def run(request, emit):
        run_crew(request, emit, SPEC, steps, MyMember)

Wants `private_folder=True` in the spec. Parameters of the request that are read here: `set` and
`loopback` (see `rank_environment`), `seconds` (the ranks' own deadline), `force`.
"""

import contextlib
import dataclasses
import os
import secrets
from collections.abc import Mapping
from typing import Any, Callable, Optional

from ..devices.opening import open_backend
from ..protocol.messages import ASKING, MeasuredValue, Message, Note, Progress, Request
from ..protocol.spec import ProbeSpec, ProbeStopped, level_of
from .crew import Crew, Trouble
from .environment import changes_of, log_path, rank_environment, what_was_done
from .logs import pieces, warnings
from .rank import Member, run_rank
from .steps import Steps

_EARLIER_SECONDS = 5.0
"""Before the deadline of whoever waits, so that logs and reasons still come back."""

Emit = Callable[[Message], None]
Answer = Callable[[Trouble, Crew], Optional[MeasuredValue]]
"""What it means for the probe's figures that the ranks did not reach the end."""


def run_crew(
    request: Request,
    emit: Emit,
    spec: ProbeSpec,
    steps: Steps,
    member: "type[Member]",
    *,
    debug_log: bool = False,
    answer: Optional[Answer] = None,
) -> None:
    """Run all ranks; ProbeStopped where they do not reach the end. A rank itself comes here too.

    `debug_log`: the library's own log is written (which slows it down) and emitted.
    """
    if "rank" in request.params:
        run_rank(request, emit, spec, steps, member)
        return
    params = request.params
    folder = params.get("folder")
    if not isinstance(folder, str) or not os.path.isdir(folder):
        raise ProbeStopped("refused", "This probe needs a private folder, and none was made.")
    changes = changes_of(params)
    ranks, is_cpu = _ranks(request, spec, emit)
    seconds = _seconds(params, spec, ranks)
    text, details = what_was_done(
        os.environ, changes, loopback=params.get("loopback") is True, debug_log=debug_log
    )
    emit(Note("environment", text, details))
    environments = [
        rank_environment(os.environ, changes, folder, rank, cpu=is_cpu, debug_log=debug_log)
        for rank in range(ranks)
    ]
    store = os.path.join(folder, f"store-{secrets.token_hex(8)}")
    more = {"cpu": is_cpu, "store": store, "variables": details["variables"]}
    request = dataclasses.replace(request, params={**params, **more})
    try:
        plan = steps(ranks, params, is_cpu)
        crew = Crew(request, plan, environments, emit, seconds)
        try:
            trouble = crew.watch()
        finally:
            crew.end()
        if debug_log:
            for rank in range(ranks):
                for piece in pieces(folder, rank):
                    emit(piece)
        if trouble is not None:
            _report(trouble, crew, warnings(folder, ranks), emit, answer)
            raise ProbeStopped(trouble.error, trouble.text)
    finally:
        _clear(store, folder, ranks)


def _ranks(request: Request, spec: ProbeSpec, emit: Emit) -> "tuple[int, bool]":
    """How many ranks, and whether they are those of the self-test on the CPU."""
    if request.devices:
        return len(request.devices), request.params.get("device") == "cpu"
    backend = open_backend(request.params, lambda: emit(Progress(0, 1, ASKING)))
    found = len(backend.devices())
    if found < spec.minimum_gpus:
        raise ProbeStopped("refused", f"{spec.minimum_gpus} GPUs are needed, and {found} is here.")
    return found, backend.kind == "cpu"


def _seconds(params: Mapping[str, Any], spec: ProbeSpec, ranks: int) -> float:
    """The ranks' own deadline."""
    usual = spec.deadline_seconds(ranks, level_of(params)) - _EARLIER_SECONDS
    wanted = params.get("seconds", usual)
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or wanted <= 0:
        raise ProbeStopped("refused", "seconds is a number above 0.")
    return float(wanted)


def _report(
    trouble: Trouble, crew: Crew, warned: "list[str]", emit: Emit, answer: Optional[Answer]
) -> None:
    """What the library warned of, and the failure as a measurement, unless nothing was tried."""
    if warned:
        emit(Note("warnings", "\n".join(warned), {"lines": warned}))
    if answer is None or trouble.error not in ("failed", "timed-out"):
        return
    found = answer(trouble, crew) if trouble.step.kind != "open" else None
    if found is not None:
        emit(found)


def _clear(store: str, folder: str, ranks: int) -> None:
    """Nothing of this run is left to the next one in the same folder."""
    for path in (store, *(log_path(folder, rank) for rank in range(ranks))):
        with contextlib.suppress(OSError):
            os.unlink(path)
