"""Reads the debug logs of the ranks, cuts long ones and finds warnings."""

import os
import stat
from collections.abc import Iterator

from ..protocol.messages import Log
from ..protocol.plaintext import one_line
from .environment import log_path
from .own_diagnostics import printed_path

HEAD_BYTES = 6 << 20
TAIL_BYTES = 2 << 20
"""Bytes kept of each log: the start holds the decisions, the end what went wrong."""
_PIECE_BYTES = 128 << 10
"""Bytes in one message: in JSON a byte may take six, and a line is limited to 1 MiB."""
_MOST_WARNINGS = 12


def read_log(folder: str, rank: int) -> "tuple[bytes, int, bytes]":
    """First part, number of omitted bytes, last part; empty without a log."""
    return _read(log_path(folder, rank))


def _read(path: str) -> "tuple[bytes, int, bytes]":
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b"", 0, b""
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        return b"", 0, b""
    with os.fdopen(descriptor, "rb") as file:
        head = file.read(HEAD_BYTES)
        left = max(0, state.st_size - len(head))
        cut = max(0, left - TAIL_BYTES)
        file.seek(len(head) + cut)
        return head, cut, file.read(TAIL_BYTES)


def pieces(folder: str, rank: int) -> Iterator[Log]:
    """The log of a rank and what its library printed; one empty piece if it wrote nothing."""
    head, cut, rest = read_log(folder, rank)
    if not head:
        yield Log(rank, "")
    yield from _pieces(rank, head, cut, rest)
    yield from _pieces(rank, *_read(printed_path(folder, rank)))


def _pieces(rank: int, head: bytes, cut: int, rest: bytes) -> Iterator[Log]:
    for start in range(0, len(head), _PIECE_BYTES):
        yield Log(rank, head[start : start + _PIECE_BYTES].decode("utf-8", "replace"))
    for start in range(0, len(rest), _PIECE_BYTES):
        text = rest[start : start + _PIECE_BYTES].decode("utf-8", "replace")
        yield Log(rank, text, cut if start == 0 else 0)


def warnings(folder: str, ranks: int) -> "list[str]":
    """The last warnings of all ranks, each once, as plain lines."""
    found: dict[str, None] = {}
    for rank in range(ranks):
        head, _, rest = read_log(folder, rank)
        for line in (rest or head).splitlines():
            if b" NCCL WARN " in line:
                text = line.split(b" NCCL WARN ", 1)[1].decode("utf-8", "replace")
                found[f"rank {rank}: {one_line(text, 300)}"] = None
    return list(found)[-_MOST_WARNINGS:]
