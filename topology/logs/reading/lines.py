"""Split a file or stream into lines in bounded memory. Compressed files are unpacked."""

import codecs
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Protocol

from ...model.budget import Budget
from ...model.errors import GputopError
from .prefix import MARK

CHUNK_BYTES = 1 << 20
LONGEST_LINE = 16384
"""Longest line in bytes; NCCL's own lines have a few KiB at most, and longer ones are cut."""
LONGEST_DOCUMENT = 4 << 20
"""Longest line in bytes that is a JSON document, such as an answer of RAS: they may have no line
end at all."""
LARGEST_LOG = 16 << 30
"""Unpacked bytes after which reading stops: a small compressed file can unpack to any size."""
MOST_UNPACKED = 100
"""Times its packed size that a log may unpack to, beyond FREELY_UNPACKED bytes.

Debug logs of NCCL shrink to a tenth or a thirtieth with gzip; what shrinks to less than a hundredth
says the same over and over.
"""
FREELY_UNPACKED = 64 << 20

MOST_ZEROS = 64 << 20
"""Bytes of zero in a row after which reading stops: a sparse file may have any size."""

_GZIP = b"\x1f\x8b"


class LogUnreadable(GputopError):  # noqa: N818 - says what is wrong with a file, in words
    """A compressed log that cannot be unpacked."""


class _UnpacksTooFar(GputopError):  # noqa: N818 - ends the reading; not an error of its own
    """The log unpacks to more than MOST_UNPACKED times its size."""


class _ZerosError(GputopError):
    """The log has more than MOST_ZEROS bytes of zero in a row."""


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
    if first[:2] == _GZIP:
        pieces = _unpacked(first, pieces)
        first = next(pieces, b"")
    yield from _in_lines(first, pieces)


def _in_lines(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """A text whose lines end in a newline: some terminals and editors end them in a return alone.

    `>` of PowerShell writes UTF-16.
    """
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decode = codecs.getincrementaldecoder("utf-16")("replace").decode
        yield from (decode(piece).encode("utf-8", "replace") for piece in chain((first,), pieces))
    elif b"\r" in first and b"\n" not in first:
        yield from (piece.replace(b"\r", b"\n") for piece in chain((first,), pieces))
    else:
        yield first
        yield from pieces


def _pieces(source: Readable | Iterable[bytes]) -> Iterator[bytes]:
    read: Callable[[int], bytes] | None = getattr(source, "read", None)
    if read is None:
        held: list[bytes] = []
        size = 0
        for line in source:  # type: ignore[union-attr]
            held += (line,) if line.endswith(b"\n") else (line, b"\n")
            size += len(line)
            if size > CHUNK_BYTES:  # what is done once a piece must not be done once a line
                yield b"".join(held)
                held, size = [], 0
        yield b"".join(held)
        return
    zeros = 0
    while piece := read(CHUNK_BYTES):
        zeros = 0 if piece.strip(b"\0") else zeros + len(piece)
        if zeros > MOST_ZEROS:
            raise _ZerosError
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


class LineReader:
    """Splits chunks into lines and counts the bytes and the lines that were cut."""

    def __init__(
        self, source: Readable | Iterable[bytes], heard: Callable[[int], None] | None = None
    ) -> None:
        self.bytes = 0
        self.shortened = 0
        """Lines longer than LONGEST_LINE."""
        self.documents = False
        """Some lines of the batch are documents longer than LONGEST_LINE."""
        self.open_end = False
        """The last line has no line end: the log may be cut there."""
        self.stopped = ""
        """Why the rest of the log was not read; empty where all of it was."""
        self._source = source
        self._heard = heard

    def batches(self) -> Iterator[list[bytes]]:
        """Whole lines without line ends, in order."""
        rest = b""
        skipping = False
        budget = Budget("log")
        for chunk in self._chunks():
            self.bytes += len(chunk)
            if self._heard is not None:
                self._heard(self.bytes)
            lines = chunk.split(b"\n")
            tail = lines.pop()
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
            if len(rest) > _most(rest):
                lines.append(rest)
                rest = b""
                skipping = True
            yield self._cut(lines)
            if self.bytes > LARGEST_LOG:
                self.stopped = "it is too large"
                return
            if budget.over:
                self.stopped = budget.why
                return
        if rest:
            self.open_end = True
            yield self._cut([rest])

    def _chunks(self) -> Iterator[bytes]:
        try:
            yield from chunks(self._source)
        except _UnpacksTooFar:
            self.stopped = f"it unpacks to over {MOST_UNPACKED} times its size"
        except _ZerosError:
            self.stopped = f"{MOST_ZEROS >> 20} MiB of it are zeros in a row, as in a sparse file"

    def _cut(self, lines: list[bytes]) -> list[bytes]:
        self.documents = False
        if max(map(len, lines), default=0) <= LONGEST_LINE:
            return lines
        return [self._short(line) if len(line) > LONGEST_LINE else line for line in lines]

    def _short(self, line: bytes) -> bytes:
        most = _most(line)
        self.documents = self.documents or most > LONGEST_LINE
        if len(line) <= most:
            return line
        self.shortened += 1
        return line[:LONGEST_LINE]


def _most(line: bytes) -> int:
    """How long a line may be; one that a container's log wraps in JSON is no document."""
    document = line.startswith(b"{") and line.find(MARK, 0, LONGEST_LINE) < 0
    return LONGEST_DOCUMENT if document else LONGEST_LINE
