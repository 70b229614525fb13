"""Reads files that were opened not to wait: some of /proc say that they are plain, and do."""

from __future__ import annotations

import errno
from typing import BinaryIO


def read_now(file: BinaryIO, most: int) -> bytes:
    """At most so many bytes of what is there. Raises BlockingIOError where one would wait."""
    data: bytes | None = file.read(most)
    if data is None:  # so says a buffered file; others raise
        raise BlockingIOError(errno.EAGAIN, "It has nothing yet, and would wait")
    return data
