"""Split a file or stream into lines in bounded memory. Compressed files are unpacked."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

CHUNK_BYTES = 1 << 20
LONGEST_LINE = 16384
"""Longest line in bytes; NCCL's own lines have a few KiB at most, and longer ones are cut."""
LARGEST_LOG = 16 << 30
"""Unpacked bytes after which reading stops: a small compressed file can unpack to any size."""

_GZIP = b"\x1f\x8b"


class LogUnreadable(Exception):  # noqa: N818 - says what is wrong with a file, in words
    """A compressed log that cannot be unpacked."""


class Readable(Protocol):
    """What a binary file offers."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; empty at the end."""


def chunks(source: Readable | Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of a file, a stream or an iterable of lines, unpacked where compressed.

    A compressed file that ends early gives what could be unpacked. Raises LogUnreadable when its
    data is damaged from the start.
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
    total = 0
    piece = first
    while piece:
        try:
            data = unpacker.decompress(piece, CHUNK_BYTES)
        except zlib.error as error:
            if not total:
                raise LogUnreadable(f"damaged gzip data: {error}") from error
            return
        total += len(data)
        if data:
            yield data
        if unpacker.eof:
            # Compressed files are often joined, so another member may follow.
            piece = unpacker.unused_data or next(pieces, b"")
            unpacker = zlib.decompressobj(wbits=31)
            if piece[:2] != _GZIP:
                return
        else:
            piece = unpacker.unconsumed_tail or next(pieces, b"")


class LineReader:
    """Splits chunks into lines and counts the bytes and the lines that were cut."""

    def __init__(
        self, source: Readable | Iterable[bytes], heard: Callable[[int], None] | None = None
    ) -> None:
        self.bytes = 0
        self.shortened = 0
        """Lines longer than LONGEST_LINE."""
        self.open_end = False
        """The last line has no line end: the log may be cut there."""
        self.stopped = False
        """The log is larger than LARGEST_LOG."""
        self._source = source
        self._heard = heard

    def batches(self) -> Iterator[list[bytes]]:
        """Lists of whole lines without line ends, in order."""
        rest = b""
        skipping = False
        for chunk in chunks(self._source):
            self.bytes += len(chunk)
            if self._heard is not None:
                self._heard(self.bytes)
            lines = chunk.split(b"\n")
            if skipping:
                if len(lines) == 1:
                    continue
                del lines[0]
                skipping = False
                rest = b""
            else:
                lines[0] = rest + lines[0]
            rest = lines.pop()
            if len(rest) > LONGEST_LINE:
                lines.append(rest)
                rest = b""
                skipping = True
            yield [self._short(line) if len(line) > LONGEST_LINE else line for line in lines]
            if self.bytes > LARGEST_LOG:
                self.stopped = True
                return
        if rest:
            self.open_end = True
            yield [rest]

    def _short(self, line: bytes) -> bytes:
        self.shortened += 1
        return line[:LONGEST_LINE]
