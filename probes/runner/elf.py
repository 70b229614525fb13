"""Which libraries a shared object asks for, and where it has them looked for: elf(5), ld.so(8)."""

import errno
import os
import stat
import struct
from dataclasses import dataclass
from typing import BinaryIO, Optional

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_MOST_HEADERS, _MOST_ENTRIES, _LONGEST = 64, 1024, 4096


@dataclass(frozen=True)
class Linked:
    """What the loader reads of a file."""

    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    """Folders before LD_LIBRARY_PATH; empty beside a runpath, which the loader prefers."""
    runpath: tuple[str, ...]
    """Folders after it."""


def open_regular(path: str) -> BinaryIO:
    """Open a regular file, never waiting as for the writer of a pipe; OSError for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.fdopen(descriptor, "rb")


def linked(path: str) -> Optional[Linked]:
    """Read it; None if it is no shared object of 64 bits and this byte order."""
    try:
        with open_regular(path) as file:
            # Where a file is a link, the loader's $ORIGIN is the folder of the link.
            return _linked(file, os.path.dirname(os.path.abspath(path)))
    except (OSError, OverflowError, ValueError, struct.error):
        return None  # a place in a damaged file may lie beyond what any file has


def _linked(file: BinaryIO, folder: str) -> Optional[Linked]:
    head = file.read(64)
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    (start,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    loads, dynamic = [], None
    for place in range(min(count, _MOST_HEADERS)):
        file.seek(start + place * size)
        kind, _, offset, address, _, length = struct.unpack("<IIQQQQ", file.read(40))
        if kind == _LOAD:
            loads.append((address, offset, length))
        elif kind == _DYNAMIC:
            dynamic = offset, length
    if dynamic is None:
        return None
    file.seek(dynamic[0])
    entries = file.read(16 * min(dynamic[1] // 16, _MOST_ENTRIES))
    found: dict[int, list[int]] = {}
    for tag, value in struct.iter_unpack("<QQ", entries):
        found.setdefault(tag, []).append(value)
        if tag == 0:
            break
    strings = found.get(_STRINGS, [0])[0]
    table = next((o + strings - a for a, o, size in loads if a <= strings < a + size), None)
    if table is None:
        return None

    def texts(tag: int) -> "list[str]":
        return [_text(file, table + place) for place in found.get(tag, [])]

    runpath = _folders(texts(_RUNPATH), folder)
    rpath = () if runpath else _folders(texts(_RPATH), folder)
    return Linked(tuple(texts(_NEEDED)), rpath, runpath)


def _text(file: BinaryIO, place: int) -> str:
    file.seek(place)
    return file.read(_LONGEST).split(b"\0")[0].decode("utf-8", "replace")


def _folders(lists: "list[str]", origin: str) -> "tuple[str, ...]":
    found = [folder for text in lists for folder in text.split(":") if folder]
    named = (each.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for each in found)
    return tuple(map(os.path.realpath, named))  # as the kernel takes ".." behind a link
