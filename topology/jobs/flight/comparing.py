"""Compares the dumps of several ranks: who is behind, who is missing, what does not fit."""

import math
from collections.abc import Iterable, Sequence

import msgspec

from ...model.gathered import gathered
from .dump import CallState, Dump, Frame, RecordedCall

LIBRARY_FILES = ("/torch/", "/site-packages/", "/dist-packages/", "<frozen")
"""Frames of these files are not the user's program."""
LIMIT_GROUPS = 256
WAITS_SECONDS = 15.0
"""From here on a collective that has not ended is waited for.

The first dump of a process is written some 6 s after its collectives were looked at: the lines of
the program are looked up in between.
"""
DEFAULT_GROUP = "default_pg"
"""PyTorch's name of the group of all ranks."""


class RecordedRank(msgspec.Struct, frozen=True, kw_only=True):
    """How far one rank came in one group."""

    rank: int
    origin: str
    last: RecordedCall | None
    """The collective that it entered last; None where its dump has none of this group."""
    ended: bool | None
    """Whether that collective has ended on this rank; None where the dump does not say."""
    waited_seconds: float | None = None
    """From entering it to writing the dump; None where one of the times is not known."""

    @property
    def waits(self) -> bool:
        """Whether the collective had not ended for so long that the rank waits in it.

        A job may be asked for a dump at any time: in one that runs, the last collective has just
        been entered.
        """
        brief = self.waited_seconds is not None and self.waited_seconds < WAITS_SECONDS
        return self.ended is False and not brief


class RecordedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One process group over all dumps."""

    group: str
    description: str
    size: int | None
    """Ranks of the group; None where no dump says."""
    furthest: RecordedCall | None
    """The collective that ends nowhere, else the one with the highest number that any rank entered.

    Ranks enter collectives ahead of their GPUs: it is the first one that has not ended, not the
    last.
    """
    places: tuple[RecordedRank, ...]
    behind: tuple[RecordedRank, ...]
    """Ranks that have not entered the furthest one, by dumps written after others had."""
    waiting: tuple[RecordedRank, ...]
    """Ranks that entered the furthest one, which has not ended there for a while; `last` is it."""
    older: tuple[int, ...]
    """Ranks whose dumps were written before anybody entered the furthest one: they may have too."""
    without_dump: tuple[int, ...]
    """Ranks of the group of which there is no dump."""
    differences: tuple[str, ...]
    """What does not fit between ranks that entered collectives of one number, as sentences."""

    @property
    def name(self) -> str:
        """The name that people know: "default group" for torch's default_pg."""
        if self.description == DEFAULT_GROUP or (not self.description and self.group in ("", "0")):
            return "default group"
        return f"group {self.description or self.group}"


def compare(dumps: Sequence[Dump]) -> tuple[RecordedGroup, ...]:
    """Each group that has entries, the one with most ranks first; dumps without rank are left out.

    Of two dumps of one rank the one written later counts.
    """
    known: dict[int, Dump] = {}
    for dump in sorted(dumps, key=lambda dump: dump.written_at or 0.0):
        if dump.rank is not None:
            known[dump.rank] = dump
    names: dict[str, str] = {}
    for dump in known.values():
        for entry in dump.entries:
            names.setdefault(entry.group, entry.description)
    found = [
        _place(name, names[name], side)
        for name in list(names)[:LIMIT_GROUPS]
        for side in _sides(name, known)
    ][:LIMIT_GROUPS]
    return tuple(sorted(found, key=lambda place: (-(place.size or 0), place.group)))


def _sides(group: str, dumps: dict[int, Dump]) -> list[dict[int, Dump]]:
    """The dumps of each group of one name: split_group of PyTorch gives its parts the same one."""
    sides: dict[tuple[int, ...], dict[int, Dump]] = {}
    for rank, dump in dumps.items():
        sides.setdefault(_members(dump, group), {})[rank] = dump
    told = [own for members, own in sides.items() if members]
    return told if len(told) > 1 else [dumps]


def _place(group: str, description: str, dumps: dict[int, Dump]) -> RecordedGroup:
    members = {rank for dump in dumps.values() for rank in _members(dump, group)}
    entered = {
        rank: {
            entry.number: entry
            for entry in dump.entries
            if entry.group == group and not entry.peer_to_peer
        }
        for rank, dump in sorted(dumps.items())
        if rank in members or (not members and _enters(dump, group))
    }
    places = tuple(_rank_place(rank, dumps[rank], group, own) for rank, own in entered.items())
    furthest = _furthest(group, dumps, entered)
    top = 0 if furthest is None else furthest.number
    at_top = [
        _rank_place(rank, dumps[rank], group, {top: own[top]})
        for rank, own in entered.items()
        if top in own
    ]
    began = [place.last.created_ns for place in at_top if place.last and place.last.created_ns]
    before = [place for place in places if place.last is None or place.last.number < top]
    older = {
        place.rank
        for place in before
        if began and (dumps[place.rank].written_at or math.inf) < min(began) / 1e9
    }
    return RecordedGroup(
        group=group,
        description=description,
        size=len(members) or None,
        furthest=furthest,
        places=places,
        behind=tuple(place for place in before if place.rank not in older),
        waiting=tuple(place for place in at_top if place.waits),
        older=tuple(sorted(older)),
        without_dump=tuple(sorted(members - set(dumps))),
        differences=tuple(_differences(entered)),
    )


def _enters(dump: Dump, group: str) -> bool:
    """Whether a rank has entries of a group: where nobody says who is in it, only they are."""
    return any(entry.group == group for entry in dump.entries)


def _furthest(
    group: str, dumps: dict[int, Dump], entered: dict[int, dict[int, RecordedCall]]
) -> RecordedCall | None:
    """The first collective that some rank did not enter, or that has ended on none of them.

    One that has ended on some alone, as a broadcast does on its root, blocks nobody for certain.
    """
    opened: dict[int, list[RecordedCall]] = {}
    for rank, own in entered.items():
        for call in own.values():
            if _ended(call, dumps[rank], group) is False:
                opened.setdefault(call.number, []).append(call)
    for number in sorted(opened):
        reached = sum(max(own, default=0) >= number for own in entered.values())
        if reached < len(entered) or len(opened[number]) == reached:
            return opened[number][0]
    calls = [call for own in entered.values() for call in own.values()]
    return max(calls, key=lambda call: call.number, default=None)


def _members(dump: Dump, group: str) -> tuple[int, ...]:
    """Ranks of a group; a backend without group names has one nameless entry."""
    by = dict(dump.ranks)
    return by.get(group) or (by.get("", ()) if len(by) == 1 else ())


def _rank_place(rank: int, dump: Dump, group: str, own: dict[int, RecordedCall]) -> RecordedRank:
    last = own[max(own)] if own else None
    waited = None
    if last is not None and last.created_ns is not None and dump.written_at is not None:
        waited = dump.written_at - last.created_ns / 1e9
    return RecordedRank(
        rank=rank,
        origin=dump.origin,
        last=last,
        ended=_ended(last, dump, group),
        waited_seconds=waited if waited is not None and waited >= 0 else None,
    )


def _ended(last: RecordedCall | None, dump: Dump, group: str) -> bool | None:
    if last is None:
        return None
    if last.state == CallState.COMPLETED or last.finished:
        return True
    status = dict(dump.status).get(group)
    completed = None if status is None else status.completed
    if completed is not None and completed >= last.number:
        return True
    return False if last.state in (CallState.SCHEDULED, CallState.STARTED) else None


def _differences(entered: dict[int, dict[int, RecordedCall]]) -> Iterable[str]:
    """The first number at which ranks do not agree in what they call, and with which tensors."""
    numbers = sorted({number for own in entered.values() for number in own})
    for number in numbers:
        calls = {rank: own[number] for rank, own in entered.items() if number in own}
        for what, said in (
            ("is another collective", {rank: call.name for rank, call in calls.items()}),
            ("has other sizes", {rank: _shape(call) for rank, call in calls.items()}),
            (
                "has other types",
                {rank: ", ".join(call.input_types or ()) for rank, call in calls.items()},
            ),
        ):
            told = {rank: text for rank, text in said.items() if text}
            # Gather, scatter and broadcast may have tensors at their root alone.
            even = what == "is another collective" or all(
                call.name.startswith(("all_reduce", "all_gather", "reduce_scatter", "broadcast"))
                for call in calls.values()
            )
            # NCCL counts elements: a tensor of 4x4 fits one of 16.
            same = what == "has other sizes" and len({_elements(calls[rank]) for rank in told}) == 1
            if even and not same and len(set(told.values())) > 1:
                yield f"collective {number} {what} on some ranks: {_by_value(told)}"
                return


def _shape(call: RecordedCall) -> str:
    if call.input_sizes is None:
        return ""
    return " ".join("x".join(map(str, tensor)) or "scalar" for tensor in call.input_sizes)


def _elements(call: RecordedCall) -> tuple[int, ...]:
    return tuple(math.prod(tensor) for tensor in call.input_sizes or ())


def _by_value(said: dict[int, str]) -> str:
    sides = gathered((text, rank) for rank, text in said.items())
    return "; ".join(f"{text} on {ranks_text(ranks)}" for text, ranks in sides.items())


def ranks_text(ranks: Sequence[int], most: int = 8) -> str:
    """Name ranks: "rank 2", "ranks 0, 1 and 3", with `most` of them at most."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > most:
        return f"ranks {', '.join(map(str, ranks[:most]))} and {len(ranks) - most} more"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def own_frame(frames: Iterable[Frame]) -> Frame | None:
    """The innermost line of the user's own program; else the outermost line there is."""
    last = None
    for frame in frames:
        last = frame
        if not any(part in frame.file for part in LIBRARY_FILES):
            return frame
    return last
