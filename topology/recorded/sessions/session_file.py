"""A recording that is read: its times, the node at each of them, and what happened in between."""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...model.budget import Budget
from ...model.format import FormatError
from ...model.machine import Machine
from ...model.snapshot import NodeSnapshot
from ...model.units import seconds as spoken
from ...nccl.xml.read import check_topology
from ...sources.believed import believed
from ..plain_file import NotPlainError, open_plain, read_plain
from . import AT
from .changes import (
    DECODE_CHANGED,
    DECODE_WHOLE,
    Replayed,
    SessionNote,
    Tree,
)
from .frames import MAGIC, NOTED, WHOLE, FrameUnpacker, RecordingError, index, payloads
from .kept import snapshot_of

MOST_BYTES = 8 << 30
"""Half a year of 8 GPUs at 1 Hz."""
MOST_NOTES = 100_000
LONG_GAP_SECONDS = 60.0
"""So long without a reading is said, as is a clock that was set back by more than a second."""
NAMED_REMARKS = 4
ENDING = ".gtrec"
STAMP = "%Y-%m-%d %H:%M:%S"
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"([+-])(\d{1,9}(?:\.\d{1,6})?)([smhd]?)")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
_DATES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M")
TIMES = "21:14:03, 2026-11-28T21:14:03, seconds since 1970, +90s from the start, -5m from the end"
"""What is taken for a time, in words."""


class TimedNote(NamedTuple):
    """A note, when it was made, and in which frame it stands."""

    at: float
    note: SessionNote
    frame: int


class RecordedReading(NamedTuple):
    """One frame as plain data; the tree is changed by the next one."""

    frame: int
    at: float
    tree: Tree
    notes: tuple[SessionNote, ...]


def is_recording(head: bytes) -> bool:
    """Whether a file that begins so is a recording."""
    return head.startswith(MAGIC)


def clock(at: float, form: str = STAMP) -> str:
    """A time as people here read it."""
    return time.strftime(form, time.localtime(at))


class SessionFile:
    """One recording, open to be read. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Find all frames. Raises RecordingError, and OSError where it cannot be opened."""
        self.name = path.name
        self._file = open_plain(path)
        handle = self._handle = self._file.fileno()
        size = os.fstat(handle).st_size
        if not is_recording(os.pread(handle, len(MAGIC), 0)):
            raise RecordingError("no recording of gputop")
        if size > MOST_BYTES:
            raise RecordingError(f"{size} bytes; the limit is {MOST_BYTES}")
        self.size = size
        self.frames = index(handle, size)
        if not len(self.frames):
            raise RecordingError("a recording without a whole reading")
        self.times = self.frames.times
        self._replayed: Replayed | None = None
        self._unpacker = FrameUnpacker()
        self._reached = -1
        self._machine: Machine | None = None

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __len__(self) -> int:
        return len(self.times)

    @property
    def first(self) -> float:
        """When the first reading was taken, seconds since the epoch."""
        return self.times[0]

    @property
    def last(self) -> float:
        """When the last one was."""
        return self.times[-1]

    def remarks(self) -> tuple[str, ...]:
        """What is odd about the file: damage, gaps, clocks that jump."""
        found = [*self._damage(), *self._jumps()]
        more = len(found) - NAMED_REMARKS
        return (*found[:NAMED_REMARKS], *([f"and {more} more such places"] if more > 0 else ()))

    def _damage(self) -> Iterator[str]:
        if self.frames.cut_short:
            yield f"read up to {clock(self.last)}: {self.frames.cut_short}"
        for place, length in self.frames.damaged:
            if place + length == self.size:
                yield f"ends in the middle of a reading, behind {clock(self.last)}"
            else:
                yield f"{length} bytes at {place} are damaged and passed over"

    def _jumps(self) -> Iterator[str]:
        times = self.times
        for number in range(1, len(times)):
            step = times[number] - times[number - 1]
            if step < -1.0:
                yield f"the clock went back by {spoken(-step)} at {clock(times[number - 1])}"
            elif step > LONG_GAP_SECONDS:
                begun = clock(times[number - 1])
                yield f"nothing was recorded for {spoken(step)} from {begun} on"

    def frame_at(self, at: float) -> int:
        """The last frame that is not later; the first one for a time before it.

        Where the clock went back, a time stands twice: then one of the two.
        """
        return max(bisect_right(self.times, at) - 1, 0)

    def when(self, text: str) -> float:
        """A time that somebody wrote. Raises RecordingError."""
        span = _SPAN.fullmatch(text.strip())
        if span is not None:
            length = float(span[2]) * _UNITS[span[3]]
            return self._inside(self.first + length if span[1] == "+" else self.last - length, text)
        day = _CLOCK.fullmatch(text.strip())
        if day is not None:
            return self._inside(self._on_its_day(int(day[1]), int(day[2]), int(day[3] or 0)), text)
        at = _date(text.strip())
        if at is None:
            raise RecordingError(f"{text[:40]!r} is no time: {TIMES}")
        return self._inside(at, text)

    def _on_its_day(self, hour: int, minute: int, second: int) -> float:
        """A time of day on the first day of the recording that has it."""
        if hour > 23 or minute > 59 or second > 59:
            raise RecordingError("no such time of day")
        day = time.localtime(self.first)
        at = time.mktime((*day[:3], hour, minute, second, 0, 0, -1))
        if at + 1 <= self.first:
            at = time.mktime((*day[:2], day[2] + 1, hour, minute, second, 0, 0, -1))
        return at

    def _inside(self, at: float, text: str) -> float:
        if not self.first - 1 <= at <= self.last + 1:
            span = f"from {clock(self.first)} to {clock(self.last)}"
            raise RecordingError(f"{text[:40]} is not in the recording, which goes {span}")
        return at

    def reading(self, frame: int) -> RecordedReading:
        """One frame; the next one is quick, any other takes half a block. Raises RecordingError."""
        begins = self._begin_of(frame)
        if not begins <= self._reached <= frame:
            self._replayed, self._reached = None, begins - 1
        for found in self._onward(frame):
            if found.frame == frame:
                return found
        if self._replayed is None:
            raise RecordingError("a block without its beginning")
        return RecordedReading(frame, self.times[frame], self._replayed.tree, ())

    def readings(self, first: int = 0, last: int | None = None) -> Iterator[RecordedReading]:
        """Frames one after the other. Raises RecordingError."""
        end = len(self) - 1 if last is None else last
        if first <= end:
            yield self.reading(first)
            yield from self._onward(end)

    def _begin_of(self, frame: int) -> int:
        while frame > 0 and not self.frames.flags[frame] & WHOLE:
            frame -= 1
        return frame

    def _onward(self, last: int) -> Iterator[RecordedReading]:
        """The frames behind the one that was reached."""
        first = self._reached + 1
        for number, data in enumerate(payloads(self._handle, self.frames, first, last), first):
            notes = self._take(number, data)
            self._reached = number
            if self._replayed is not None:
                yield RecordedReading(number, self.times[number], self._replayed.tree, notes)

    def _take(self, number: int, data: bytes) -> tuple[SessionNote, ...]:
        try:
            if self.frames.flags[number] & WHOLE:
                self._unpacker = FrameUnpacker()
                whole = DECODE_WHOLE(self._unpacker.unpack(data))
                self._replayed, self._machine = Replayed(whole), None
                return whole.notes
            changed = DECODE_CHANGED(self._unpacker.unpack(data))
            if self._replayed is None:
                raise RecordingError("a block without its beginning")
            if "machine" in self._replayed.take(changed):
                self._machine = None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._replayed = None
            raise RecordingError(f"the reading of {self._when(number)}: {error}") from error
        except RecordingError as error:
            self._replayed = None
            raise RecordingError(f"the reading of {self._when(number)}: {error}") from error
        return changed.notes

    def _when(self, number: int) -> str:
        return clock(self.times[number])

    def snapshot(self, frame: int) -> NodeSnapshot:
        """The node at a frame; an unchanged machine is the same object. Raises RecordingError."""
        found = self.reading(frame)
        kept = self._machine
        try:
            tree = found.tree if kept is None else {**found.tree, "machine": {}}
            made = snapshot_of(tree, found.at)
            if kept is not None:
                made = msgspec.structs.replace(made, machine=kept)
            made = believed(made)
            if kept is None and made.machine.nccl_topology is not None:
                check_topology(made.machine.nccl_topology)
        except (msgspec.MsgspecError, FormatError, RecursionError, ValueError) as error:
            raise RecordingError(f"the reading of {self._when(frame)}: {error}") from error
        self._machine = made.machine
        return msgspec.structs.replace(made, source=(self.name,))

    @property
    def noted(self) -> tuple[int, ...]:
        """The frames with notes."""
        return tuple(number for number, flags in enumerate(self.frames.flags) if flags & NOTED)

    def notes(self) -> Iterator[TimedNote]:
        """All notes, in the order of the file; up to MOST_NOTES, and as long as a reader may take.

        Only blocks with notes are unpacked. Raises RecordingError.
        """
        budget, count = Budget("recording"), 0
        for frame in self.noted:
            if budget.over or count >= MOST_NOTES:
                return
            for note in self.notes_of(frame):
                count += 1
                yield TimedNote(self.times[frame], note, frame)

    def notes_of(self, frame: int) -> tuple[SessionNote, ...]:
        """The notes of one frame. Raises RecordingError."""
        if self._reached >= frame:
            self._reached, self._replayed = len(self), None  # its notes are gone: read it again
        return self.reading(frame).notes


def _date(text: str) -> float | None:
    """A date with its time, or seconds since the epoch; None for anything else."""
    for form in _DATES:
        with suppress(ValueError, OverflowError):
            return time.mktime(time.strptime(text, form))
    with suppress(ValueError):
        return float(text)
    return None


def at_moment(name: str) -> tuple[Path, str] | None:
    """The file and the time of FILE@TIME, where FILE is there and nothing has the whole name."""
    path, sign, text = name.rpartition(AT)
    if not sign or not path or os.path.exists(name) or not os.path.isfile(path):
        return None
    return Path(path), text


ONLY_A_FILE = "a recording of gputop; give its file, for it is read in places"
NO_MOMENTS = "no recording: it is of one moment, so that --at says nothing of it"


def recorded_node(path: Path, *, first: bool = False) -> NodeSnapshot | None:
    """The node of FILE@TIME, or of FILE at its end or its beginning; None for another file.

    Raises RecordingError, and OSError where the file cannot be read.
    """
    file, text = at_moment(str(path)) or (path, "")
    try:
        head = read_plain(file, len(MAGIC))
    except NotPlainError:
        return None
    if not is_recording(head):
        if text:
            raise RecordingError(NO_MOMENTS)
        return None
    session = SessionFile(file)
    try:
        frame = session.frame_at(session.when(text)) if text else len(session) - 1
        found = session.snapshot(0 if first else frame)
    finally:
        session.close()
    return msgspec.structs.replace(found, source=(f"{session.name} at {clock(found.taken_at)}",))
