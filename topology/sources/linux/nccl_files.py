"""Which NCCL or RCCL a file is, and which one a process has loaded, without loading any.

The library carries its version as text, "NCCL version 2.30.7+cuda13.3" (debug.cc), among its
constants (elf(5)); the sections of GPU code, hundreds of megabytes, are not read.
"""

from __future__ import annotations

import re
import struct

from ...model.versions import LoadedLibrary
from ..files.tree import Tree, Unreadable, clean

LIMIT_MAPS = 16 * 2**20
LIMIT_SECTION = 8 * 2**20
LIMIT_READ = 32 * 2**20
"""Bytes of all sections of one file."""
LIMIT_SECTIONS = 256
LIMIT_VERSIONS = 64
_CODE_OR_DATA, _ALLOCATED, _WRITABLE_OR_CODE = 1, 2, 1 | 4
_VERSION = re.compile(rb"[NR]CCL version (\d{1,3}(?:\.\d{1,4}){1,3})(?=[+ \0])")
_MAPPED = re.compile(rb" (/[^\n]{0,4000}/lib[nr]ccl\.so[.\d]{0,30})( \(deleted\))?$", re.MULTILINE)


VersionsRead = dict[tuple[str, int | None], str | None]
"""What files named themselves, by path and size: the ranks of a job load the same one."""


def version_inside(tree: Tree, path: str) -> str | None:
    """The version that a library's own text names; None for anything else.

    `path`: without a leading slash.
    """
    try:
        return _version(tree, path)
    except struct.error:
        return None


def loaded_by(tree: Tree, pid: int, read: VersionsRead) -> LoadedLibrary | Unreadable | None:
    """The library of one process by its map, or why that is not readable; None where it has none.

    `read`: versions that are known already, and takes new ones.
    """
    data = tree.octets(f"proc/{pid}/maps", 0, LIMIT_MAPS)
    if isinstance(data, Unreadable):
        return data
    match = _MAPPED.search(data)
    if match is None:
        return None
    path, replaced = clean(match[1]), match[2] is not None
    if replaced:
        return LoadedLibrary(path=path, replaced=True)
    # Through the root of the process, which is another one in a container.
    place = f"proc/{pid}/root{path}"
    same = path, tree.size(place)
    if same not in read:
        if len(read) >= LIMIT_VERSIONS:
            read.clear()
        read[same] = version_inside(tree, place)
    return LoadedLibrary(path=path, version=read[same])


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
