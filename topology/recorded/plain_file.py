"""Reads a file that the user names, without ever waiting for it."""

from __future__ import annotations

import codecs
import os
import stat
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from ..model.errors import GputopError

CHUNK_BYTES = 1 << 20
NOT_PLAIN = "not a regular file"


PACKED = {
    b"\xfd7zXZ": ("xz", "xz -dc"),
    b"BZh": ("bzip2", "bzip2 -dc"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -dc"),
    b"PK\x03\x04": ("zip", "unzip -p"),
}
"""First bytes -> the packing that gputop does not read, and what unpacks it."""
HEAD_BYTES = max(map(len, PACKED))


def packed_by(head: bytes, name: str, reader: str) -> str:
    """By what a file is packed, and the line that reads it all the same; "" for one that is not."""
    for sign, (packing, tool) in PACKED.items():
        if head.startswith(sign):
            return f"packed with {packing}; `{tool} {name} | gputop {reader}` reads it"
    return ""


class NotPlainError(GputopError, OSError):
    """A folder, pipe or device instead of a recording."""


def open_plain(path: Path) -> BinaryIO:
    """Open a file to be read piece by piece, without ever waiting for it.

    Raises NotPlainError, and OSError where it cannot be opened. A read may give less or, where the
    kernel would wait for news, raise BlockingIOError or give None.
    """
    # Opening a device may do something: a tape rewinds, a watchdog starts.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise NotPlainError(0, NOT_PLAIN)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotPlainError(0, NOT_PLAIN)
    return os.fdopen(handle, "rb")


def read_plain(path: Path, limit_bytes: int) -> bytes:
    """The content, or `limit_bytes` + 1 bytes of it where it is longer.

    Files of /proc and /sys say that they are plain and have a size of 0, and some of them wait for
    news or never end. Raises NotPlainError, and OSError where it cannot be read.
    """
    with open_plain(path) as file:
        content = BytesIO()
        while (left := limit_bytes + 1 - content.tell()) > 0:
            piece = os.read(file.fileno(), min(left, CHUNK_BYTES))
            if not piece:
                break
            content.write(piece)
        return content.getvalue()


def as_utf8(data: bytes) -> bytes:
    """Text as UTF-8: `>` of PowerShell writes UTF-16, and Windows editors add a byte order mark."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    return data.removeprefix(codecs.BOM_UTF8)
