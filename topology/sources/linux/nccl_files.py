"""Which NCCL or RCCL a file is, and which one a process has loaded, without loading any.

The library carries its version as text, "NCCL version 2.30.7+cuda13.3" (debug.cc), among its
constants (elf(5)); the sections of GPU code, hundreds of megabytes, are not read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

import msgspec

from ..files.tree import Tree, Unreadable, clean

LIMIT_MAPS = 16 * 2**20
LIMIT_SECTION = 8 * 2**20
LIMIT_READ = 32 * 2**20
"""Bytes of all sections of one file."""
LIMIT_SECTIONS = 256
_CODE_OR_DATA, _ALLOCATED, _WRITABLE_OR_CODE = 1, 2, 1 | 4
_VERSION = re.compile(rb"[NR]CCL version (\d{1,3}(?:\.\d{1,4}){1,3})(?=[+ \0])")
_MAPPED = re.compile(rb" (/[^\n]{0,4000}/lib[nr]ccl\.so[.\d]{0,30})( \(deleted\))?$", re.MULTILINE)


class LoadedLibrary(msgspec.Struct, frozen=True, kw_only=True):
    """The library that a process has loaded."""

    path: str
    """As the process sees it; in a container below its own root."""
    version: str | None = None
    """From the file's own text; None where it cannot be read."""
    replaced: bool = False
    """The file was replaced or removed since the process loaded it."""


def version_inside(tree: Tree, path: str) -> str | None:
    """The version that a library's own text names; None for anything else.

    `path`: without a leading slash.
    """
    try:
        return _version(tree, path)
    except struct.error:
        return None


def loaded(tree: Tree, pids: Iterable[int]) -> dict[int, LoadedLibrary]:
    """The library of each process that has one and whose map may be read (/proc/PID/maps)."""
    found: dict[int, LoadedLibrary] = {}
    read: dict[tuple[str, int | None], str | None] = {}
    for pid in pids:
        data = tree.octets(f"proc/{pid}/maps", 0, LIMIT_MAPS)
        match = None if isinstance(data, Unreadable) else _MAPPED.search(data)
        if match is None:
            continue
        path, replaced = clean(match[1]), match[2] is not None
        # Through the root of the process, which is another one in a container.
        place = f"proc/{pid}/root{path}"
        same = path, tree.size(place)
        if not replaced and same not in read:
            read[same] = version_inside(tree, place)
        found[pid] = LoadedLibrary(
            path=path, version=None if replaced else read[same], replaced=replaced
        )
    return found


def _version(tree: Tree, path: str) -> str | None:
    head = tree.octets(path, 0, 64)
    if isinstance(head, Unreadable) or head[:6] != b"\x7fELF\x02\x01":
        return None
    (start,) = struct.unpack_from("<Q", head, 40)
    size, count = struct.unpack_from("<HH", head, 58)
    if size < 40 or not 0 < start < 1 << 62:
        return None
    table = tree.octets(path, start, size * min(count, LIMIT_SECTIONS))
    if isinstance(table, Unreadable):
        return None
    left = LIMIT_READ
    for at in range(0, len(table) - 39, size):
        _, kind, flags, _, offset, length = struct.unpack_from("<IIQQQQ", table, at)
        constant = kind == _CODE_OR_DATA and flags & _ALLOCATED and not flags & _WRITABLE_OR_CODE
        if not constant or length > min(LIMIT_SECTION, left) or offset >= 1 << 62:
            continue
        left -= length
        data = tree.octets(path, offset, length)
        named = None if isinstance(data, Unreadable) else _VERSION.search(data)
        if named is not None:
            return named[1].decode()
    return None
