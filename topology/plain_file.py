"""A file that somebody names, read without ever waiting for it."""

from __future__ import annotations

import os
import stat
from io import BytesIO
from pathlib import Path

CHUNK_BYTES = 1 << 20
_NOT_PLAIN = "not a plain file"


class NotPlainError(OSError):
    """A folder, pipe or device: nothing that is a recording."""


def read_plain(path: Path, limit_bytes: int) -> bytes:
    """The content, or `limit_bytes` + 1 bytes of it where it is longer.

    Files of /proc and /sys say that they are plain and have a size of 0, and some of them wait for
    news or never end. Raises NotPlainError, and OSError where it cannot be read.
    """
    # A pipe's writer must not see a reader that leaves at once, nor a device that it was opened.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise NotPlainError(0, _NOT_PLAIN)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotPlainError(0, _NOT_PLAIN)
        content = BytesIO()
        while (left := limit_bytes + 1 - content.tell()) > 0:
            piece = os.read(handle, min(left, CHUNK_BYTES))
            if not piece:
                break
            content.write(piece)
        return content.getvalue()
    finally:
        os.close(handle)
