"""A tar of a machine's files as a tree in memory; nothing of it is ever written to disk."""

from __future__ import annotations

import io
import tarfile
import zlib

from .tree import LIMIT_BYTES, LIMIT_NAMES, Unreadable, clean, plain, resolve

LIMIT_MEMBERS = 200_000
LIMIT_UNPACKED_BYTES = 128 * 1024 * 1024
"""Most bytes that a compressed tar may unpack to; /sys of a large node has less than 50 MB."""
LIMIT_DEPTH = 64
_CHUNK_BYTES = 64 * 1024


class ArchiveError(ValueError):
    """The tar is broken, or too large to be an honest one; the text says which."""


class TarTree:
    """The members of one tar. Device nodes, pipes and names with ".." are skipped."""

    live = False
    absent = "not in this recording"

    def __init__(self, data: bytes) -> None:
        """Read all members. Raises ArchiveError."""
        self._files: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}
        self._links: dict[str, str] = {}
        self._folders: dict[str, set[str]] = {"": set()}
        source = _Unpacked(data)
        try:
            with tarfile.open(fileobj=source, mode="r|") as archive:
                self._load(archive)
        except (
            tarfile.TarError,
            zlib.error,
            EOFError,
            OSError,
            ValueError,
            OverflowError,
        ) as error:
            if isinstance(error, ArchiveError):
                raise
            # tarfile wraps our own refusals too.
            raise ArchiveError(source.refusal or f"broken tar: {error}") from error
        self._prefix = self._find_root()

    def text(self, path: str, limit: int = LIMIT_BYTES) -> str | Unreadable:
        """The first `limit` bytes of a file as text without blanks at its ends."""
        data = self.octets(path, 0, limit)
        return plain(data) if isinstance(data, bytes) else data

    def octets(self, path: str, offset: int, count: int) -> bytes | Unreadable:
        """At most `count` bytes from `offset`."""
        place = self._place(path)
        data = None if place is None else self._files.get(place)
        return Unreadable("absent", self.absent) if data is None else data[offset : offset + count]

    def names(self, folder: str) -> tuple[str, ...]:
        """Names in a folder, sorted; () when it is not there."""
        place = self._place(folder)
        return tuple(sorted(self._folders.get(place, ()))) if place is not None else ()

    def link(self, path: str) -> str | None:
        """The target of a symbolic link as it is written; None for anything else."""
        folder, _, name = path.rpartition("/")
        place = self._place(folder)
        return None if place is None else self._links.get(f"{place}/{name}" if place else name)

    def resolved(self, path: str) -> str | None:
        """The path without links, relative to the root; None when it leads nowhere."""
        place = self._place(path)
        if place is None or not (place in self._files or place in self._folders):
            return None
        return place.removeprefix(self._prefix)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return self.resolved(path) is not None or self.link(path) is not None

    def size(self, path: str) -> int | None:
        """Size of a plain file in bytes."""
        place = self._place(path)
        return None if place is None else self._sizes.get(place)

    def _load(self, archive: tarfile.TarFile) -> None:
        for count, member in enumerate(archive):
            if count >= LIMIT_MEMBERS:
                raise ArchiveError(f"more than {LIMIT_MEMBERS} members")
            if member.size < 0:
                raise ArchiveError("a member of negative size")
            parts = [part for part in clean(member.name).split("/") if part not in ("", ".")]
            if not parts or ".." in parts or len(parts) > LIMIT_DEPTH:
                continue
            path = "/".join(parts)
            if member.isdir():
                self._folders.setdefault(path, set())
            elif member.issym():
                self._links[path] = clean(member.linkname)
            elif member.islnk():
                self._links[path] = "/" + clean(member.linkname)
            elif member.isreg():
                content = archive.extractfile(member)
                self._files[path] = content.read(LIMIT_BYTES) if content else b""
                self._sizes[path] = member.size
            else:
                continue
            self._enter(parts)

    def _enter(self, parts: list[str]) -> None:
        for depth in range(len(parts), 0, -1):
            folder = self._folders.setdefault("/".join(parts[: depth - 1]), set())
            known = parts[depth - 1] in folder
            if len(folder) < LIMIT_NAMES:
                folder.add(parts[depth - 1])
            if known:
                break

    def _find_root(self) -> str:
        """The folder in the tar that stands for "/": the nearest one that holds sys or proc."""
        roots = [
            path.rpartition("/")[0]
            for path in self._folders
            if path.rpartition("/")[2] in ("sys", "proc")
        ]
        root = min(roots, key=lambda path: (path.count("/") + bool(path), path), default="")
        return f"{root}/" if root else ""

    def _place(self, path: str) -> str | None:
        # Links are relative, or absolute from the machine's root: both stay below the prefix.
        inner = resolve(path, lambda name: self._links.get(self._prefix + name))
        return None if inner is None else (self._prefix + inner).rstrip("/")


class _Unpacked(io.RawIOBase):
    """The tar's bytes, unpacked as they are asked for, up to a limit."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.refusal: str | None = None
        self._data = memoryview(data)
        self._inflate = zlib.decompressobj(wbits=31) if data[:2] == b"\x1f\x8b" else None
        self._buffer = bytearray()
        self._given = 0

    def readable(self) -> bool:
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
        if self._inflate is None:
            self._buffer += self._data[:_CHUNK_BYTES]
            empty = not len(self._data)
            self._data = self._data[_CHUNK_BYTES:]
            return not empty
        if self._inflate.eof:
            return False
        packed = self._inflate.unconsumed_tail or bytes(self._data[:_CHUNK_BYTES])
        if packed and not self._inflate.unconsumed_tail:
            self._data = self._data[_CHUNK_BYTES:]
        if not packed:
            self.refusal = "ends in the middle: the file was cut off"
            raise ArchiveError(self.refusal)
        self._buffer += self._inflate.decompress(packed, _CHUNK_BYTES)
        return True
