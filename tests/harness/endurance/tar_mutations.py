"""Mutations of a tar: what its members hold, what they are called, where links lead."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from functools import lru_cache
from random import Random

from . import hostile
from .text_mutations import of_bytes, of_text

Member = tuple[tarfile.TarInfo, bytes]
_TARGETS = (
    "/",
    "..",
    "../../../../..",
    "/proc/self/root",
    ".",
    "",
    "loop",
    "a" * 5000,
    "/dev/zero",
)
_NAMES = ("/etc/x", "../x", "a/" * 100 + "x", "x" * 4000, "sys", "sys/bus/pci/devices/0000:00:00.0")
_KINDS = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)


def of_tar(data: bytes, rolls: Random) -> bytes:
    """Change one to thirty members, or the bytes before packing; what is no tar as bytes."""
    try:
        found = list(members(data))
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error):
        return of_bytes(data, rolls)
    if rolls.random() < 0.15:
        return gzip.compress(of_bytes(packed(found), rolls), 1, mtime=0)
    for _ in range(rolls.choice((1, 4, 30))):
        _change(found, rolls)
    made = packed(found)
    return gzip.compress(made, 1, mtime=0) if rolls.random() < 0.7 else made


@lru_cache(maxsize=16)
def members(data: bytes) -> tuple[Member, ...]:
    """What is in a tar."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return tuple((member, _content(archive, member)) for member in archive)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member) if member.isreg() else None
    return file.read() if file is not None else b""


def packed(members: list[Member]) -> bytes:
    """A tar of these, not compressed."""
    out = io.BytesIO()
    form = tarfile.GNU_FORMAT
    with tarfile.open(fileobj=out, mode="w", format=form, errors="surrogatepass") as archive:
        for member, content in members:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _change(members: list[Member], rolls: Random) -> None:
    if not members:
        return
    files = [place for place, (member, content) in enumerate(members) if content]
    place = rolls.choice(files) if files and rolls.random() < 0.8 else rolls.randrange(len(members))
    found, content = members[place]
    member = tarfile.TarInfo(found.name)
    member.type, member.linkname, member.mode = found.type, found.linkname, found.mode
    match rolls.randrange(12):
        case 0:
            del members[place]
            return
        case 1:
            member.name = rolls.choice(_NAMES)
        case 2:
            member.name += hostile.text(rolls).replace("\x00", "")[:300]
        case 3:
            member.type, member.linkname = rolls.choice(_KINDS), rolls.choice(_TARGETS)
        case 4:
            _, content = members[rolls.randrange(len(members))]
        case 5 | 6 | 7:
            content = hostile.number(rolls).encode() + b"\n"
        case 8:
            content = hostile.text(rolls).encode("utf-8", "surrogatepass")
        case 9:
            content = of_bytes(content, rolls)
        case _:
            content = of_text(content, rolls)
    if rolls.random() < 0.1:
        members.append((member, content))
    else:
        members[place] = (member, content)
