"""A tar of a machine's files as a tree in memory; nothing of it is ever written to disk."""

from __future__ import annotations

import tarfile

from .tree import LIMIT_BYTES, LIMIT_NAMES, Unread, Unreadable, clean, plain, resolve
from .unpacking import ArchiveError, Unpacked

LIMIT_MEMBERS = 200_000
LIMIT_DEPTH = 64


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
        source = Unpacked(data)
        try:
            with tarfile.open(fileobj=source, mode="r|") as archive:
                self._load(archive)
        except (
            tarfile.TarError,
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
        if data is None:
            return Unreadable(Unread.ABSENT, self.absent)
        return data[offset : offset + count]

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
            parts = _parts(member.name)
            if not parts:
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


def _parts(name: str) -> list[str]:
    """The folders and the name of a member; none where it leads out of the archive."""
    parts = [part for part in clean(name).split("/") if part not in ("", ".")]
    return [] if ".." in parts or len(parts) > LIMIT_DEPTH else parts
