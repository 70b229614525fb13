"""Frames of a recording: each has its time, length and checksum, so that a cut costs the last one.

A file is `MAGIC`, then frames. A block begins with a frame that holds the whole snapshot; those
behind it hold what changed, and share its deflate stream. Every frame ends in a flush, so all that
stands before a cut, a `kill -9` or a full disk can be read; a reader finds the next block behind
a damaged place by its first bytes and its checksum.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from ...model.budget import Budget
from ...model.errors import GputopError

MAGIC = b"gputop recording 1\n"
SIGN = b"Gt"
HEAD = struct.Struct("<2sBIdI")
"""Sign, flags, bytes of the payload, seconds since the epoch, CRC-32 of all others and payload."""
WHOLE, NOTED = 1, 2
"""Flags: the frame begins a block; the frame has notes (events, verdicts)."""
MOST_PAYLOAD = 4 << 20
MOST_TEXT = 8 << 20
"""Bytes of one frame, packed and unpacked: a whole snapshot of 128 GPUs has some 3 MB."""
MOST_FRAMES = 8_000_000
"""Three months at 1 Hz; 21 bytes of memory each."""
_TAIL = b"\x00\x00\xff\xff"
"""What every flush ends in; it is left out of the file."""
_LEVEL = 6
"""8 busy GPUs with 18 NVLinks at 1 Hz take 0.96 MB an hour and 0.38 ms a reading; level 9 saves 4 %
for 0.15 ms more. Of Python's own packers zstd is there from 3.14 on alone."""
_CHUNK = 2 * MOST_PAYLOAD


class RecordingError(GputopError, ValueError):
    """A recording that cannot be used, as a clause."""


class FramePacker:
    """Packs the texts of one recorder, frame by frame."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)

    def pack(self, text: bytes, at: float, *, whole: bool, noted: bool) -> bytes:
        """One frame; `whole` begins a block, which needs nothing of those before."""
        if whole:
            self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        packed = self._packer.compress(text) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        payload = packed.removesuffix(_TAIL)
        flags = WHOLE * whole | NOTED * noted
        return HEAD.pack(SIGN, flags, len(payload), at, _sum(flags, at, payload)) + payload


class FrameUnpacker:
    """Unpacks the frames of one block, from its first on."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)

    def unpack(self, payload: bytes) -> bytes:
        """The text of the next frame. Raises RecordingError."""
        try:
            text = self._unpacker.decompress(payload + _TAIL, MOST_TEXT)
        except zlib.error as error:
            raise RecordingError(f"a frame cannot be unpacked: {error}") from error
        if self._unpacker.unconsumed_tail:
            raise RecordingError(f"a frame has more than {MOST_TEXT >> 20} MiB")
        return text


def _sum(flags: int, at: float, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack("<Bd", flags, at)))


class FrameIndex:
    """Where each frame of a file is, when it was taken, and what is damaged; of `index`."""

    def __init__(self) -> None:
        self.times, self.places = array("d"), array("Q")
        self.lengths, self.flags = array("I"), bytearray()
        self.damaged: list[tuple[int, int]] = []
        """First byte and number of bytes that are no frame; at the end of a file a cut."""
        self.cut_short = ""
        """Why the rest of the file was not looked at; "" where all was."""

    def __len__(self) -> int:
        return len(self.times)

    def add(self, frame: SessionFrame) -> None:
        """One more frame."""
        self.times.append(frame.at)
        self.places.append(frame.place)
        self.lengths.append(frame.length)
        self.flags.append(frame.flags)


class SessionFrame(NamedTuple):
    """One frame of a file."""

    flags: int
    at: float
    place: int
    """Of its payload."""
    length: int


class _Window:
    """A piece of the file, moved along as it is read."""

    def __init__(self, handle: int, size: int) -> None:
        self._handle, self.size = handle, size
        self.data, self.start = b"", 0

    def at(self, place: int, length: int) -> int:
        """Have so many bytes at this place, as far as the file goes; gives where in `data`."""
        if not self.start <= place or place + length > self.start + len(self.data):
            piece = max(min(_CHUNK, self.size - place), 0)
            self.data, self.start = os.pread(self._handle, piece, place), place
        return place - self.start


def index(handle: int, size: int) -> FrameIndex:
    """Find all frames and compare their checksums: a day of 8 GPUs takes a tenth of a second."""
    found, window, budget = FrameIndex(), _Window(handle, size), Budget("recording")
    place, lost, open_block = len(MAGIC), -1, False
    while place + HEAD.size <= size:
        frame = _frame(window, place)
        if frame is not None and (open_block or frame.flags & WHOLE):
            if lost >= 0:
                found.damaged.append((lost, place - lost))
            lost, open_block = -1, True
            found.add(frame)
            place = frame.place + frame.length
            if len(found) % 4096 == 0 and (budget.over or len(found) > MOST_FRAMES):
                found.cut_short = budget.why if budget.over else f"more than {MOST_FRAMES:,} frames"
                return found
            continue
        # What shares the stream of a damaged frame is lost with it: the next block is sought.
        lost, open_block = place if lost < 0 else lost, False
        place = _next_sign(window, place + 1)
        if budget.over:
            found.cut_short = budget.why
            break
    end = lost if lost >= 0 else place
    if end < size:
        found.damaged.append((end, size - end))
    return found


def _frame(window: _Window, place: int) -> SessionFrame | None:
    here = window.at(place, HEAD.size)
    if len(window.data) - here < HEAD.size:
        return None
    sign, flags, length, at, told = HEAD.unpack_from(window.data, here)
    if sign != SIGN or length > MOST_PAYLOAD or flags > WHOLE | NOTED or not _is_time(at):
        return None
    begins = place + HEAD.size
    if begins + length > window.size:
        return None
    here = window.at(begins, length)
    if _sum(flags, at, window.data[here : here + length]) != told:
        return None
    return SessionFrame(flags, at, begins, length)


def _is_time(at: float) -> bool:
    """Whether it is a time that calendars can hold."""
    return math.isfinite(at) and 0.0 <= at < 253_402_300_000.0


def _next_sign(window: _Window, place: int) -> int:
    """The next place where a block may begin; the end of the file where none does."""
    begins = SIGN + bytes([WHOLE]), SIGN + bytes([WHOLE | NOTED])
    while place < window.size:
        here = window.at(place, min(len(SIGN) + 1, window.size - place))
        found = [at for sign in begins if (at := window.data.find(sign, here)) >= 0]
        if found:
            return window.start + min(found)
        # A sign may lie over the edge of the piece.
        place = max(place + 1, window.start + len(window.data) - len(SIGN))
    return window.size


def payloads(handle: int, frames: FrameIndex, first: int, last: int) -> Iterator[bytes]:
    """The payloads from one frame to another. Raises RecordingError where the file has changed."""
    for number in range(first, last + 1):
        data = os.pread(handle, frames.lengths[number], frames.places[number])
        if len(data) < frames.lengths[number]:
            raise RecordingError("the file became shorter while it was read")
        yield data
