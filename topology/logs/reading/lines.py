"""Split a file or stream into lines in bounded memory. Compressed files are unpacked."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

CHUNK_BYTES = 1 << 20
LONGEST_LINE = 16384
"""Longest line in bytes; NCCL's own lines have a few KiB at most, and longer ones are cut."""
LARGEST_LOG = 16 << 30
"""Unpacked bytes after which reading stops: a small compressed file can unpack to any size."""
MOST_UNPACKED = 100
"""Times its packed size that a log may unpack to, beyond FREELY_UNPACKED bytes.

Debug logs of NCCL shrink to a tenth or a thirtieth with gzip; what shrinks to less than a hundredth
says the same over and over.
"""
FREELY_UNPACKED = 64 << 20

_GZIP = b"\x1f\x8b"


class LogUnreadable(Exception):  # noqa: N818 - says what is wrong with a file, in words
    """A compressed log that cannot be unpacked."""


class _UnpacksTooFar(Exception):  # noqa: N818 - ends the reading; not an error of its own
    """The log unpacks to more than MOST_UNPACKED times its size."""


class Readable(Protocol):
    """What a binary file offers."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; empty at the end."""


def chunks(source: Readable | Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of a file, a stream or an iterable of lines, unpacked where compressed.

    A compressed file that ends early gives what could be unpacked. Raises LogUnreadable when its
    data is damaged from the start, and _UnpacksTooFar where its size says that it is no log.
    """
    pieces = _pieces(source)
    first = next(pieces, b"")
    if len(first) == 1:
        first += next(pieces, b"")
    if first[:2] != _GZIP:
        yield first
        yield from pieces
        return
    yield from _unpacked(first, pieces)


def _pieces(source: Readable | Iterable[bytes]) -> Iterator[bytes]:
    read: Callable[[int], bytes] | None = getattr(source, "read", None)
    if read is None:
        for line in source:  # type: ignore[union-attr]
            yield line if line.endswith(b"\n") else line + b"\n"
        return
    while piece := read(CHUNK_BYTES):
        yield piece


def _unpacked(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    total, packed = 0, len(first)
    piece = first
    while piece:
        try:
            data = unpacker.decompress(piece, CHUNK_BYTES)
        except zlib.error as error:
            if not total:
                raise LogUnreadable(f"damaged gzip data: {error}") from error
            return
        total += len(data)
        if total > FREELY_UNPACKED and total > MOST_UNPACKED * packed:
            raise _UnpacksTooFar
        if data:
            yield data
        if unpacker.eof:
            # Compressed files are often joined, so another member may follow.
            piece = unpacker.unused_data
            if not piece:
                piece = next(pieces, b"")
                packed += len(piece)
            unpacker = zlib.decompressobj(wbits=31)
            if piece[:2] != _GZIP:
                return
        else:
            piece = unpacker.unconsumed_tail
            if not piece:
                piece = next(pieces, b"")
                packed += len(piece)


class Batch(NamedTuple):
    """Whole lines without line ends, and how many lines without a mark follow them."""

    lines: list[bytes]
    unmarked: int = 0
    chunk: bytes = b""
    """What the lines are made of, but for the start of the first one."""

    def present(self, marks: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Those of `marks` that stand in the lines; much faster than looking into each line."""
        first = self.lines[0] if self.lines else b""
        return tuple(mark for mark in marks if mark in self.chunk or mark in first)


class LineReader:
    """Splits chunks into lines and counts the bytes and the lines that were cut.

    Lines without any of `marks` may be counted instead of given; without marks all are given.
    """

    def __init__(
        self,
        source: Readable | Iterable[bytes],
        heard: Callable[[int], None] | None = None,
        marks: tuple[bytes, ...] = (b"",),
        keep: int = 0,
    ) -> None:
        """`keep`: how many bytes of the beginning are kept as `head`."""
        self.bytes = 0
        self.head = b""
        self._keep = keep
        self.shortened = 0
        """Lines longer than LONGEST_LINE."""
        self.open_end = False
        """The last line has no line end: the log may be cut there."""
        self.stopped = ""
        """Why the rest of the log was not read; empty where all of it was."""
        self._source = source
        self._heard = heard
        self._marks = marks

    def batches(self) -> Iterator[Batch]:
        """Whole lines, in order."""
        rest = b""
        skipping = False
        for chunk in self._chunks():
            if self.bytes < self._keep:
                self.head += chunk[: self._keep - self.bytes]
            self.bytes += len(chunk)
            if self._heard is not None:
                self._heard(self.bytes)
            # The first lines are wanted even where they say nothing: an answer quotes them.
            whole = self.bytes == len(chunk) or any(mark in chunk for mark in self._marks)
            lines, unmarked, tail = self._split(chunk, whole=whole)
            if skipping:
                if not lines:
                    continue
                del lines[0]
                skipping = False
            elif lines:
                lines[0] = rest + lines[0]
            else:
                tail = rest + tail
            rest = tail
            if len(rest) > LONGEST_LINE:
                # With lines in between, the open line is not the one after `lines`.
                if unmarked:
                    yield Batch(self._cut(lines), unmarked, chunk)
                    lines, unmarked = [], 0
                lines.append(rest)
                rest = b""
                skipping = True
            yield Batch(self._cut(lines), unmarked, chunk)
            if self.bytes > LARGEST_LOG:
                self.stopped = "it is too large"
                return
        if rest:
            self.open_end = True
            yield Batch([rest])

    def _chunks(self) -> Iterator[bytes]:
        try:
            yield from chunks(self._source)
        except _UnpacksTooFar:
            self.stopped = f"it unpacks to over {MOST_UNPACKED} times its size"

    def _split(self, chunk: bytes, *, whole: bool) -> tuple[list[bytes], int, bytes]:
        """Ended lines, how many unmarked ones follow, and the line that is still open.

        The first line belongs to the one that was open before, so it is always given.
        """
        if not whole and (ends := chunk.count(b"\n")):
            first, last = chunk.find(b"\n"), chunk.rfind(b"\n")
            return [chunk[:first]], ends - 1, chunk[last + 1 :]
        lines = chunk.split(b"\n")
        tail = lines.pop()
        return lines, 0, tail

    def _cut(self, lines: list[bytes]) -> list[bytes]:
        return [self._short(line) if len(line) > LONGEST_LINE else line for line in lines]

    def _short(self, line: bytes) -> bytes:
        self.shortened += 1
        return line[:LONGEST_LINE]
