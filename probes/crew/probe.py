"""Runs a probe as several ranks, one process on each GPU.

Such a probe has a pure function that returns its steps (`steps.Steps`), and a `rank.Member`, which
does what a step requires. Its `run` is one call of `run_crew`, which forks the ranks and passes on
their messages. So:

    def run(request, emit):
        run_crew(request, emit, SPEC, steps, MyMember)

The worker must have a private folder, and torch unless the probe can do with NCCL or RCCL alone.
Parameters of the request that are read here: `set` and `loopback` (see `environment`), `seconds`
(the deadline of the ranks), `force`, `library`, `library_found` and `library_named` (the file of
NCCL or RCCL, in words where it was found, and whether the user named it).
"""

import contextlib
import dataclasses
import glob
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Callable, Optional

from ..devices.opening import self_test_devices
from ..protocol.messages import Log, MeasuredValue, Message, Note, WorkerRequest
from ..protocol.plaintext import one_line
from ..protocol.spec import ProbeSpec, ProbeStopped, level_of
from ..protocol.status import Status
from .crew import Crew, Trouble
from .environment import changes_of, log_path, rank_environment, what_was_done
from .means import load_library
from .own_diagnostics import printed_path
from .rank import Member, run_rank
from .steps import OPEN, Steps

_EARLIER_SECONDS = 5.0
"""Seconds before the deadline of the caller, so that logs and reasons still come back."""

Emit = Callable[[Message], None]
Answer = Callable[[Trouble, Crew], Optional[MeasuredValue]]
"""What it means for the probe's figures that the ranks did not reach the end."""

HEAD_BYTES = 6 << 20
TAIL_BYTES = 2 << 20
"""Bytes kept of each log: the start holds the decisions, the end what went wrong."""
_PIECE_BYTES = 128 << 10
"""Bytes in one message: in JSON a byte may take six, and a line is limited to 1 MiB."""
_MOST_WARNINGS = 12


def run_crew(
    request: WorkerRequest,
    emit: Emit,
    spec: ProbeSpec,
    steps: Steps,
    member: "type[Member]",
    *,
    debug_log: bool = False,
    answer: Optional[Answer] = None,
) -> None:
    """Run all ranks; ProbeStopped if they do not reach the end.

    `debug_log`: let the library write its log, which slows it down, and emit it.
    """
    params = request.params
    folder = params.get("folder")
    if not isinstance(folder, str) or not os.path.isdir(folder):
        raise ProbeStopped(Status.REFUSED, "This probe needs a private folder, and none was made.")
    changes = changes_of(params)
    ranks, is_cpu = _ranks(request, spec)
    seconds = _seconds(params, spec, ranks)
    text, details = what_was_done(
        os.environ, changes, loopback=params.get("loopback") is True, debug_log=debug_log
    )
    emit(Note("environment", text, details))
    library = str(params.get("library", "")) if spec.by_library and not is_cpu else ""
    if library:
        emit(_library_note(library, params))
    environments = [
        rank_environment(os.environ, changes, folder, rank, cpu=is_cpu, debug_log=debug_log)
        for rank in range(ranks)
    ]
    store = os.path.join(folder, f"store-{secrets.token_hex(8)}")
    more = {"cpu": is_cpu, "store": store, "variables": details["variables"], "library": library}
    request = dataclasses.replace(request, params={**params, **more})
    try:
        run = partial(run_rank, spec=spec, steps=steps, member=member)
        crew = Crew(request, steps(ranks, params, is_cpu), environments, emit, seconds, run)
        try:
            trouble = crew.watch()
        finally:
            crew.end()
        for rank in range(ranks) if debug_log else ():
            for piece in pieces(folder, rank):
                emit(piece)
        if trouble is not None:
            _report(trouble, crew, warnings(folder, ranks), emit, answer)
            raise ProbeStopped(trouble.error, trouble.text)
    finally:
        _clear(store, folder, ranks)


def _library_note(path: str, params: Mapping[str, Any]) -> Note:
    """Load the library for all ranks and say which it is; ProbeStopped if that fails."""
    version = load_library(path, named=params.get("library_named") is True).version()
    how_found = str(params.get("library_found", ""))
    text = f"Without torch: version {version} of {one_line(path)} ({one_line(how_found)})."
    return Note("library", text, {"path": path, "version": version, "how_found": how_found})


def _ranks(request: WorkerRequest, spec: ProbeSpec) -> "tuple[int, bool]":
    """The number of ranks, and whether this is the self-test on the CPU.

    GPUs are named by whoever asks, because a process that has counted them cannot be forked.
    """
    made_up = self_test_devices(request.params)
    found = len(request.devices) or made_up or 0
    if found < spec.minimum_gpus:
        raise ProbeStopped(
            Status.REFUSED, f"{spec.minimum_gpus} GPUs are needed, and {found} is here."
        )
    return found, made_up is not None


def _seconds(params: Mapping[str, Any], spec: ProbeSpec, ranks: int) -> float:
    """The deadline of the ranks, in seconds."""
    usual = spec.deadline_seconds(ranks, level_of(params)) - _EARLIER_SECONDS
    wanted = params.get("seconds", usual)
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or wanted <= 0:
        raise ProbeStopped(Status.REFUSED, "seconds is a number above 0.")
    return float(wanted)


def _report(
    trouble: Trouble, crew: Crew, warned: "list[str]", emit: Emit, answer: Optional[Answer]
) -> None:
    """Emit warnings of the library, and the failure as a measurement if anything was tried."""
    if warned:
        emit(Note("warnings", "\n".join(warned), {"lines": warned}))
    if answer is None or trouble.error not in (Status.FAILED, Status.TIMED_OUT):
        return
    found = answer(trouble, crew) if trouble.step.name != OPEN.name else None
    if found is not None:
        emit(found)


def _clear(store: str, folder: str, ranks: int) -> None:
    """Remove everything from the folder before the next run uses it."""
    logs = (path(folder, rank) for rank in range(ranks) for path in (log_path, printed_path))
    # Links of ranks that died before their library opened its log.
    links = glob.iglob(os.path.join(glob.escape(folder), "rank-*.log"))
    for path in (store, f"{store}-torch", *logs, *links):
        with contextlib.suppress(OSError):
            os.unlink(path)


# Reads the debug logs of the ranks, cuts long ones and finds warnings.
def read_log(folder: str, rank: int) -> "tuple[bytes, int, bytes]":
    """First part, number of omitted bytes, last part; empty without a log."""
    return _read(log_path(folder, rank))


def _read(path: str) -> "tuple[bytes, int, bytes]":
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b"", 0, b""
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        return b"", 0, b""
    with os.fdopen(descriptor, "rb") as file:
        head = file.read(HEAD_BYTES)
        left = max(0, state.st_size - len(head))
        cut = max(0, left - TAIL_BYTES)
        file.seek(len(head) + cut)
        return head, cut, file.read(TAIL_BYTES)


def pieces(folder: str, rank: int) -> Iterator[Log]:
    """The log of a rank and what its library printed; one empty piece if it wrote nothing."""
    head, cut, rest = read_log(folder, rank)
    if not head:
        yield Log(rank, "")
    yield from _pieces(rank, head, cut, rest)
    yield from _pieces(rank, *_read(printed_path(folder, rank)))


def _pieces(rank: int, head: bytes, cut: int, rest: bytes) -> Iterator[Log]:
    for start in range(0, len(head), _PIECE_BYTES):
        yield Log(rank, head[start : start + _PIECE_BYTES].decode("utf-8", "replace"))
    for start in range(0, len(rest), _PIECE_BYTES):
        text = rest[start : start + _PIECE_BYTES].decode("utf-8", "replace")
        yield Log(rank, text, cut if start == 0 else 0)


def warnings(folder: str, ranks: int) -> "list[str]":
    """The last warnings of all ranks, each once, as plain lines."""
    found: dict[str, None] = {}
    for rank in range(ranks):
        head, _, rest = read_log(folder, rank)
        for line in (rest or head).splitlines():
            if b" NCCL WARN " in line:
                text = line.split(b" NCCL WARN ", 1)[1].decode("utf-8", "replace")
                found[f"rank {rank}: {one_line(text, 300)}"] = None
    return list(found)[-_MOST_WARNINGS:]
