"""A packed tar as a stream: plain, gzip, bzip2 or xz, unpacked as asked for, up to a limit."""

from __future__ import annotations

import io
import zlib
from importlib import import_module
from typing import Any

from ...model.errors import GputopError

GZIP, BZIP2, XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"
LIMIT_UNPACKED_BYTES = 128 * 1024 * 1024
"""Most bytes that a compressed tar may unpack to; /sys of a large node has less than 50 MB."""
LIMIT_MEMORY_BYTES = 128 * 1024 * 1024
"""Most memory that unpacking xz may ask for; `xz -9` needs half of it."""
_CHUNK_BYTES = 64 * 1024
_MOST_STREAMS = 10_000
"""Parallel packers write one stream for each piece of 900 KB at most."""


class ArchiveError(GputopError, ValueError):
    """The tar is broken, or too large to be an honest one; the text says which."""


class _Gzip:
    """gzip with the interface that bz2 and lzma have."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, most: int) -> bytes:
        return self._inflate.decompress(data or self._inflate.unconsumed_tail, most)


def unpacker(head: bytes) -> Any:
    """What unpacks data that begins so; None for data that is not packed. Raises ArchiveError."""
    if head.startswith(GZIP):
        return _Gzip()
    try:
        if head.startswith(BZIP2):
            return import_module("bz2").BZ2Decompressor()
        if head.startswith(XZ):
            lzma = import_module("lzma")
            return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LIMIT_MEMORY_BYTES)
    except ImportError as error:
        raise ArchiveError(f"this Python cannot unpack it: {error}; pack it with gzip") from error
    return None


def beginning(head: bytes, most: int) -> bytes | None:
    """The first bytes of the unpacked data; None where `head` is too short to tell or broken."""
    try:
        found = unpacker(head)
        return head if found is None else found.decompress(head, most) or None
    except _failures():
        return None


def _failures() -> tuple[type[Exception], ...]:
    """What the packers raise for broken data; asked for only then."""
    try:
        of_xz: tuple[type[Exception], ...] = (import_module("lzma").LZMAError,)
    except ImportError:
        of_xz = ()
    return (zlib.error, OSError, EOFError, ValueError, *of_xz)


class Unpacked(io.RawIOBase):
    """The tar's bytes, unpacked as they are asked for, up to a limit."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.refusal: str | None = None
        self._data = memoryview(data)
        self._unpack = unpacker(data[:6])
        self._streams = 0
        self._buffer = bytearray()
        self._given = 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; fewer at the end. Raises ArchiveError past the limit."""
        if size < 0 or self._given + size > LIMIT_UNPACKED_BYTES:
            self.refusal = f"unpacks to more than {LIMIT_UNPACKED_BYTES} bytes"
            raise ArchiveError(self.refusal)
        while len(self._buffer) < size and self._fill():
            pass
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._given += len(piece)
        return piece

    def _fill(self) -> bool:
        if self._unpack is None:
            self._buffer += self._data[:_CHUNK_BYTES]
            empty = not len(self._data)
            self._data = self._data[_CHUNK_BYTES:]
            return not empty
        if self._unpack.eof and not self._another():
            return False
        packed = b""
        if self._unpack.needs_input:
            packed = bytes(self._data[:_CHUNK_BYTES])
            self._data = self._data[_CHUNK_BYTES:]
            if not packed:
                self.refusal = "ends in the middle: the file was cut off"
                raise ArchiveError(self.refusal)
        try:
            self._buffer += self._unpack.decompress(packed, _CHUNK_BYTES)
        except _failures() as error:
            self.refusal = f"broken: {error}"
            raise ArchiveError(self.refusal) from error
        return True

    def _another(self) -> bool:
        """Go on with the next stream where one follows, as parallel packers write them."""
        rest = self._unpack.unused_data + bytes(self._data[:6])
        self._streams += 1
        if not rest.startswith((GZIP, BZIP2, XZ)) or self._streams > _MOST_STREAMS:
            return False
        self._data = memoryview(self._unpack.unused_data + bytes(self._data))
        self._unpack = unpacker(rest[:6])
        return True
