"""One dump of PyTorch's flight recorder as records, from a pickle or from JSON.

The fields are those of torch/csrc/distributed/c10d/FlightRecorder.hpp, format 2.x. Whatever is not
of the form that PyTorch writes is left out; text is text.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec

from ...model.errors import GputopError
from ...model.format import TooManyValuesError, json_values
from ...model.severity import OpenWord
from . import pickled

T = TypeVar("T")
LIMIT_ENTRIES = 20_000
"""The newest, which say where a rank stands; the recorder itself forgets older ones."""
LIMIT_FRAMES = 32
LIMIT_GROUPS = 4096
LIMIT_TENSORS = 64
LIMIT_DIMENSIONS = 16
LIMIT_CHARACTERS = 300
LARGEST_RANK = 1 << 24
MOST_RANKS = 65_536
"""Of a group."""
MOST_MEMBERS = 1_000_000
"""Ranks of all groups of a dump together."""
PROTOCOL = b"\x80"
"""First byte of a pickle since protocol 2."""
NEWEST_PROTOCOL = 5

_NUMBERED = re.compile(r"(\d{1,8})(?:\.(?:json|pkl|pickle))?$")


class DumpError(GputopError, ValueError):
    """The file is no dump of a flight recorder; the message is one line for a person."""


class Frame(msgspec.Struct, frozen=True):
    """One line of the program."""

    file: str
    line: int | None
    name: str


class CallState(OpenWord):
    """How far a recorded call is."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    COMPLETED = "completed"


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One collective, or one send or receive, that a rank has entered."""

    group: str
    """Name of the process group: "0"."""
    description: str = ""
    """What the program calls the group: "default_pg"."""
    number: int
    """Its place among the collectives of the group, from 1; sends and receives count apart."""
    peer_to_peer: bool = False
    name: str
    """What was called: "all_reduce"."""
    state: CallState | None = None
    finished: bool | None = None
    """Whether the process has taken it off its list."""
    input_sizes: tuple[tuple[int, ...], ...] | None = None
    input_types: tuple[str, ...] | None = None
    output_sizes: tuple[tuple[int, ...], ...] | None = None
    created_ns: int | None = None
    """Since the epoch."""
    frames: tuple[Frame, ...] = ()
    """The innermost first."""


class GroupStatus(msgspec.Struct, frozen=True):
    """How far a rank came in one group; None where the dump does not say."""

    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank recorded."""

    rank: int | None
    """From the name of the file: the dump itself does not say."""
    origin: str
    """The file."""
    version: str | None = None
    library: str | None = None
    """Version of NCCL."""
    ranks: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Global ranks by group."""
    status: tuple[tuple[str, GroupStatus], ...] = ()
    entries: tuple[RecordedCall, ...] = ()
    """The oldest first."""
    written_at: float | None = None
    """When the file was written, seconds since the epoch."""


def looks_like(head: bytes) -> bool:
    """Whether the first bytes of a file may be those of a dump."""
    start = head.lstrip()
    marks = (b'"entries"', b'"pg_config"', b'"pg_status"', b'"comm_lib_version"', b'"nccl_version"')
    if start.startswith(b"{"):
        return any(mark in head for mark in marks) and b'"communicators' not in head
    return head.startswith(PROTOCOL) and (b"pg_config" in head or b"entries" in head)


def is_pickle(head: bytes) -> bool:
    """Whether a file begins as every pickle since protocol 2 does, which no text in UTF-8 does."""
    return head.startswith(PROTOCOL) and len(head) > 1 and 2 <= head[1] <= NEWEST_PROTOCOL


def rank_in(name: str) -> int | None:
    """The rank that the name of a dump ends in."""
    found = _NUMBERED.search(name)
    return int(found[1]) if found else None


def _decoded(data: bytes) -> Any:
    """What a pickle or JSON holds. Raises DumpError."""
    if data.startswith(PROTOCOL):
        decode: Callable[[bytes], Any] = pickled.load
    elif data.lstrip().startswith(b"{"):
        if len(data) > pickled.MOST_BYTES:
            raise DumpError(f"more than {pickled.MOST_BYTES // 2**20} MiB")
        decode = json_values
    else:
        raise DumpError("neither a pickle nor JSON")
    try:
        return decode(data)
    except (pickled.PickleError, TooManyValuesError) as error:
        raise DumpError(f"not read as a dump of the flight recorder: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DumpError("not read as a dump of the flight recorder: broken JSON") from error


def parse(data: bytes, origin: str, written_at: float | None = None) -> Dump:
    """Read one dump; raises DumpError, in one line, for anything else."""
    raw = _decoded(data)
    if not isinstance(raw, dict) or not ({"entries", "pg_config", "pg_status"} & set(raw)):
        raise DumpError("holds no entries of a flight recorder")
    once = _Once()
    return Dump(
        rank=rank_in(origin),
        origin=origin,
        version=_text(raw.get("version")),
        library=_text(raw.get("comm_lib_version")) or _text(raw.get("nccl_version")) or None,
        ranks=_ranks(raw.get("pg_config"), once),
        status=_status(raw.get("pg_status")),
        entries=tuple(
            found
            for entry in _list(raw.get("entries"))[-LIMIT_ENTRIES:]
            if (found := once(_collective, entry)) is not None
        ),
        written_at=written_at,
    )


class _Once:
    """Understands each object of a dump once: in a pickle, thousands of entries may share one."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, object], Any] = {}

    def __call__(self, understand: Callable[[Any, "_Once"], T], raw: Any) -> T:
        """What `understand` says of it; `raw` has to live as long as this."""
        key = id(raw), understand
        if key not in self._known:
            self._known[key] = understand(raw, self)
        found: T = self._known[key]
        return found


def _collective(entry: Any, once: _Once) -> RecordedCall | None:
    if not isinstance(entry, dict):
        return None
    group, description = _group(entry.get("process_group"))
    peer = entry.get("is_p2p") is True
    number = _whole(entry.get("p2p_seq_id" if peer else "collective_seq_id"))
    name = _text(entry.get("profiling_name"))
    if group is None or number is None or name is None:
        return None
    done = entry.get("retired")
    return RecordedCall(
        group=group,
        description=description,
        number=number,
        peer_to_peer=peer,
        name=name.partition(":")[2] or name,
        state=None if (state := _text(entry.get("state"))) is None else CallState(state),
        finished=done if isinstance(done, bool) else None,
        input_sizes=once(_sizes, entry.get("input_sizes")),
        input_types=once(_types, entry.get("input_dtypes")),
        output_sizes=once(_sizes, entry.get("output_sizes")),
        created_ns=_whole(entry.get("time_created_ns")),
        frames=once(_frames, entry.get("frames")),
    )


def _group(raw: Any) -> tuple[str | None, str]:
    members = _list(raw)
    if not members:
        return None, ""
    return _text(members[0]), (_text(members[1]) or "") if len(members) > 1 else ""


def _frames(raw: Any, once: _Once) -> tuple[Frame, ...]:
    frames = (once(_frame, each) for each in _list(raw)[:LIMIT_FRAMES])
    return tuple(frame for frame in frames if frame is not None)


def _frame(raw: Any, _once: _Once) -> Frame | None:
    if not isinstance(raw, dict):
        return None
    file = _text(raw.get("filename"))
    return (
        None if file is None else Frame(file, _whole(raw.get("line")), _text(raw.get("name")) or "")
    )


def _ranks(raw: Any, once: _Once) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Global ranks by group: "[0, 1, 2]", or a list."""
    found: list[tuple[str, tuple[int, ...]]] = []
    left = MOST_MEMBERS
    for name, entry in _all_groups(raw):
        members = once(_members, _mapping(entry).get("ranks"))
        left -= len(members)
        if left < 0:
            raise DumpError(f"groups of more than {MOST_MEMBERS:,} ranks, which is gputop's limit")
        found.append((str(name)[:LIMIT_CHARACTERS], members))
    return tuple(found)


def _all_groups(raw: Any) -> Iterable[tuple[Any, Any]]:
    """Names and what is said of them; DumpError where they are more than gputop reads."""
    groups = _mapping(raw)
    if len(groups) > LIMIT_GROUPS:
        raise DumpError(f"more than {LIMIT_GROUPS:,} groups, which is gputop's limit")
    return groups.items()


def _members(listed: Any, _once: _Once) -> tuple[int, ...]:
    if isinstance(listed, str):
        words = islice(re.finditer(r"\d{1,8}", listed[: 16 * 2**20]), MOST_RANKS + 1)
        members = [int(word[0]) for word in words]
    else:
        listed = _list(listed)[: MOST_RANKS + 1]
        members = [rank for each in listed if (rank := _whole(each)) is not None]
    if len(members) > MOST_RANKS:
        raise DumpError(f"a group of more than {MOST_RANKS:,} ranks, which is gputop's limit")
    return tuple(rank for rank in members if rank <= LARGEST_RANK)


def _status(raw: Any) -> tuple[tuple[str, GroupStatus], ...]:
    return tuple(
        (
            str(name)[:LIMIT_CHARACTERS],
            GroupStatus(
                *(
                    _whole(_mapping(entry).get(f"last_{what}_collective"))
                    for what in ("enqueued", "started", "completed")
                )
            ),
        )
        for name, entry in _all_groups(raw)
    )


def _sizes(raw: Any, once: _Once) -> tuple[tuple[int, ...], ...] | None:
    if not isinstance(raw, list | tuple):
        return None
    return tuple(once(_size, tensor) for tensor in raw[:LIMIT_TENSORS])


def _size(tensor: Any, _once: _Once) -> tuple[int, ...]:
    return tuple(
        size for each in _list(tensor)[:LIMIT_DIMENSIONS] if (size := _whole(each)) is not None
    )


def _types(raw: Any, _once: _Once) -> tuple[str, ...] | None:
    if not isinstance(raw, list | tuple):
        return None
    return tuple(word for each in raw[:LIMIT_TENSORS] if (word := _text(each)) is not None)


def _list(raw: Any) -> Sequence[Any]:
    return raw if isinstance(raw, list | tuple) else ()


def _mapping(raw: Any) -> Mapping[Any, Any]:
    return raw if isinstance(raw, dict) else {}


def _text(raw: Any) -> str | None:
    return raw[:LIMIT_CHARACTERS] if isinstance(raw, str) else None


def _whole(raw: Any) -> int | None:
    """A whole number, which JSON dumps write as text in places; -1 stands for none."""
    if isinstance(raw, str) and len(raw) < 20 and raw.lstrip("-").isdecimal():
        raw = int(raw)
    good = isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw < 1 << 63
    return raw if good else None
