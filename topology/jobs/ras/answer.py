"""What NCCL's RAS service says about a job, as records, and its JSON form.

JSON is of NCCL 2.28.7 and later (src/ras/client_support.cc:rasDumpCommsToJSON); text.py reads what
older ones print.
"""

import re
from collections.abc import Mapping, Sized
from datetime import datetime, timezone
from typing import Any, TypeVar

import msgspec

from ...model.errors import GputopError
from ...model.format import TooManyValuesError, json_values
from ...model.severity import Word

Items = TypeVar("Items", bound=Sized)
LIMIT_COMMUNICATORS = 65_536
LIMIT_RANKS = 65_536
LIMIT_FUNCTIONS = 32
LIMIT_CHARACTERS = 120
REMOTE = "remote process error"
"""What ranks report when another one ended or cannot be reached."""
RESULTS = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: REMOTE,
}
"""ncclResult_t of nccl.h; 0 is success and 7 means in progress."""
INIT, RUNNING, FINALIZE, ABORT = "INIT", "RUNNING", "FINALIZE", "ABORT"
_FORGOTTEN = re.compile(rb'("nvml_dev": -?[0-9]+)(?=\s+"status":)')


Process = tuple[str | None, int]
"""A process: the address of its machine, None for this one, and its PID there."""


class RasError(GputopError, ValueError):
    """The answer is none of RAS; the message is one line for a person."""


class NamedRank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank as RAS names it, whether or not it answered."""

    rank: int
    host: str | None = None
    pid: int | None = None
    """In the PID namespace of the process itself."""
    outside: bool = False
    """Whether that is no process of this machine, or none that is known (homes.py)."""
    cuda_device: int | None = None
    nvml_device: int | None = None
    apart: str = ""
    """What tells its process from others of its PID, as its host and GPU; "" here, where PIDs do:
    containers with a PID namespace each may share the address of their machine."""

    @property
    def local_pid(self) -> int | None:
        """Its PID on this machine; None where it is none."""
        return None if self.outside else self.pid

    @property
    def process_key(self) -> Process | None:
        """Its process, apart from all others; None where the answer names none."""
        if self.pid is None:
            return None
        return self.apart or (self.host if self.outside else None), self.pid


class RasRank(NamedRank, frozen=True, kw_only=True):
    """One rank of a communicator that answered, or that a text names."""

    state: str | None = None
    """NCCL's word: INIT, RUNNING, FINALIZE or ABORT."""
    errors: tuple[str, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    """Collectives launched so far, by function: ("AllReduce", 1042)."""


class MissingRank(NamedRank, frozen=True, kw_only=True):
    """One rank of which RAS has no data."""

    unresponsive: bool | None = None
    """True: its process did not answer; False: it answered, and does not know the communicator."""
    dead: bool | None = None
    """Whether RAS has given its process up."""

    @property
    def left(self) -> bool:
        """Whether it is in the communicator no more, though its process runs and answers."""
        return self.unresponsive is False and not self.dead


class RasCommunicator(msgspec.Struct, frozen=True, kw_only=True):
    """One communicator."""

    name: str | None = None
    """Its hash; None where a text does not give it."""
    size: int
    ranks: tuple[RasRank, ...] = ()
    missing: tuple[MissingRank, ...] = ()
    state: str | None = None
    """NCCL's word for the furthest state of any rank; None where it is not said."""
    marks: tuple[str, ...] = ()
    """ "MISMATCH", "ERROR", "INCOMPLETE" of a text."""
    agreed: tuple[tuple[str, int, int], ...] = ()
    """Of a text: function, ranks that are not named one by one, what they launched."""

    @property
    def named(self) -> tuple[RasRank | MissingRank, ...]:
        """All that it names."""
        return (*self.ranks, *self.missing)


class RasJob(msgspec.Struct, frozen=True, kw_only=True):
    """How many there are of what, as a text says above its communicators."""

    nodes: int
    processes: int
    gpus: int
    processes_per_node: int | None = None
    """None where nodes differ."""


class AnswerForm(Word):
    """How RAS answered."""

    JSON = "json"
    TEXT = "text"


class RasAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to VERBOSE STATUS."""

    form: AnswerForm
    version: str | None = None
    """Of NCCL: "2.28.9"."""
    library: str = "NCCL"
    communicators: tuple[RasCommunicator, ...] = ()
    seconds: float | None = None
    """How long RAS collected."""
    timestamp: float | None = None
    """When, in seconds by the clock of the machine that answered; of JSON."""
    timeouts: int | None = None
    """Processes that it stopped waiting for."""
    silent: tuple[MissingRank, ...] = ()
    """Processes without rank that a text lists as missing or dead; `rank` is -1."""
    job: RasJob | None = None
    """Of a text."""
    speaker: int | None = None
    """The process of this machine that answered, in our PID namespace; None where not known."""

    @property
    def named(self) -> tuple[RasRank | MissingRank, ...]:
        """All that it names."""
        return (*(rank for told in self.communicators for rank in told.named), *self.silent)

    @property
    def pids(self) -> frozenset[int]:
        """All processes of this machine that it names."""
        return frozenset(pid for rank in self.named if (pid := rank.local_pid) is not None)


def parse(data: bytes) -> RasAnswer:
    """Read an answer in JSON; raises RasError for anything else."""
    try:
        # NCCL 2.28.9 forgets the comma wherever a rank is missing.
        raw = json_values(_FORGOTTEN.sub(rb"\1,", data))
    except TooManyValuesError as error:
        raise RasError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise RasError("its JSON is broken or cut off") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("communicators"), list):
        raise RasError("its JSON has no communicators")
    ras = _mapping(raw.get("ras"))
    seconds = ras.get("collection_time_sec")
    return RasAnswer(
        form=AnswerForm.JSON,
        version=_text(raw.get("nccl_version")),
        communicators=tuple(
            found
            for entry in all_of(raw["communicators"], LIMIT_COMMUNICATORS, "communicators")
            if (found := _communicator(entry)) is not None
        ),
        # Neither NaN, which Python's reader takes for JSON, nor more than a float holds.
        seconds=float(seconds) if isinstance(seconds, float | int) and 0 <= seconds < 1e9 else None,
        timestamp=_moment(_text(raw.get("timestamp"))),
        timeouts=_whole(ras.get("timeouts_count")),
    )


def all_of(items: Items, most: int, what: str) -> Items:
    """The items, none of which is left out: raises RasError where they are more than gputop reads.

    A part of an answer would make ranks well that it says are not.
    """
    if len(items) > most:
        raise RasError(f"more than {most:,} {what}, which is gputop's limit")
    return items


def _moment(text: str | None) -> float | None:
    """Seconds of a time without zone: good for differences alone."""
    try:
        return datetime.fromisoformat(text or "").replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None


def _communicator(raw: Any) -> RasCommunicator | None:
    if not isinstance(raw, dict):
        return None
    size = _whole(raw.get("size"))
    if size is None:
        return None
    ranks = tuple(
        rank
        for entry in all_of(_list(raw.get("ranks")), LIMIT_RANKS, "ranks of a communicator")
        if (rank := _rank(entry)) is not None
    )
    states = {rank.state for rank in ranks}
    return RasCommunicator(
        name=_text(raw.get("hash")),
        size=size,
        ranks=ranks,
        missing=tuple(
            lost
            for entry in all_of(_list(raw.get("missing_ranks")), LIMIT_RANKS, "missing ranks")
            if (lost := _missing(entry)) is not None
        ),
        state=next((state for state in (ABORT, FINALIZE, RUNNING, INIT) if state in states), None),
    )


def _rank(raw: Any) -> RasRank | None:
    rank = _whole(_mapping(raw).get("rank"))
    if rank is None:
        return None
    status, counts = _mapping(raw.get("status")), _mapping(raw.get("collective_counts"))
    errors = [
        f"{RESULTS.get(number, f'error {number}')} {when}"
        for key, when in (("init_state", "at its start"), ("async_error", "while it ran"))
        if (number := _whole(status.get(key))) not in (None, 0, 7)
    ]
    return RasRank(
        rank=rank,
        **_place(raw),
        state=_state(status),
        errors=tuple(errors),
        counts=tuple(
            (name[:LIMIT_CHARACTERS], count)
            for name, value in all_of(counts, LIMIT_FUNCTIONS, "collectives of a rank").items()
            if (count := _whole(value)) is not None
        ),
    )


def _state(status: Mapping[str, Any]) -> str | None:
    """In the order of rasClientRunComms: abort, then finalize or destroy, then the start."""
    if status.get("abort_flag") is True:
        return ABORT
    if status.get("finalize_called") is True or status.get("destroy_flag") is True:
        return FINALIZE
    begun = _whole(status.get("init_state"))
    return None if begun is None else RUNNING if begun == 0 else INIT


def _missing(raw: Any) -> MissingRank | None:
    rank = _whole(_mapping(raw).get("rank"))
    if rank is None:
        return None
    status = _mapping(raw.get("status"))
    silent, dead = status.get("unresponsive"), status.get("considered_dead")
    return MissingRank(
        rank=rank,
        **_place(raw),
        unresponsive=silent if isinstance(silent, bool) else None,
        dead=dead if isinstance(dead, bool) else None,
    )


def _place(raw: Mapping[str, Any]) -> dict[str, Any]:
    host = _text(raw.get("host"))
    pid = _whole(raw.get("pid"))
    return {
        "host": None if host == "unknown" else host,
        "pid": pid or None,
        "cuda_device": _whole(raw.get("cuda_dev")),
        "nvml_device": _whole(raw.get("nvml_dev")),
    }


def _mapping(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, dict) else {}


def _list(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else []


def _text(raw: Any) -> str | None:
    return raw[:LIMIT_CHARACTERS] if isinstance(raw, str) else None


def _whole(raw: Any) -> int | None:
    good = isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw < 1 << 63
    return raw if good else None
