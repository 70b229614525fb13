"""A root folder to read from: the live machine, a copied folder, or (archive.py) a tar.

Paths are relative to that root and have no leading slash: "sys/bus/pci/devices". A copy is
hostile: links are followed inside the root alone, and only plain files are opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from ...model.part import Raw
from ...model.severity import Word

LIMIT_BYTES = 64 * 1024
"""Most bytes that are read of one file unless the caller asks for more."""
LIMIT_LINKS = 40
"""Links followed in one path before it counts as a loop, as in the Linux kernel."""
LIMIT_NAMES = 100_000
"""Most entries of one folder that are listed."""


class Unread(Word):
    """Why a file could not be read, in one word."""

    ABSENT = "absent"
    DENIED = "denied"
    FAILED = "failed"


class Unreadable(msgspec.Struct, frozen=True):
    """Why a file could not be read."""

    kind: Unread
    why: str


class Tree(Protocol):
    """One root folder; nothing here raises."""

    live: bool
    """Whether this is the machine that gputop runs on."""
    absent: str
    """What a missing file means, in the words of a gap."""

    def text(self, path: str, limit: int = LIMIT_BYTES) -> str | Unreadable:
        """The first `limit` bytes of a file as text without blanks at its ends."""

    def octets(self, path: str, offset: int, count: int) -> bytes | Unreadable:
        """At most `count` bytes from `offset`; fewer where the file or the permission ends."""

    def names(self, folder: str) -> tuple[str, ...]:
        """Names in a folder, sorted; () when it is not there."""

    def link(self, path: str) -> str | None:
        """Where a symbolic link points, as it is written; None when it is none."""

    def resolved(self, path: str) -> str | None:
        """The path without links, relative to the root; None when it leads nowhere."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""

    def size(self, path: str) -> int | None:
        """Size of a plain file in bytes."""


def resolve(path: str, link: Callable[[str], str | None]) -> str | None:
    """Follow every link in `path` without leaving the root; None for a loop.

    `link` gives a link's target or None; ".." at the root stays there, as in a chroot.
    """
    waiting = [part for part in path.split("/") if part not in ("", ".")][::-1]
    done: list[str] = []
    followed = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            del done[-1:]
            continue
        target = link("/".join([*done, part]))
        if target is None:
            done.append(part)
            continue
        followed += 1
        if followed > LIMIT_LINKS or len(waiting) > 4 * LIMIT_LINKS:
            return None
        if target.startswith("/"):
            done.clear()
        waiting.extend(name for name in target.split("/")[::-1] if name not in ("", "."))
    return "/".join(done)


def joined(folder: str, target: str) -> str:
    """The target of a link in `folder`, by its text alone."""
    return resolve(f"{folder}/{target}", lambda _: None) or ""


def clean(data: bytes | str) -> str:
    """Text that JSON can hold: bytes that are no UTF-8 are replaced, and so are lone surrogates."""
    if isinstance(data, str):
        return data if data.isascii() else data.encode("utf-8", "replace").decode()
    return data.decode("utf-8", "replace")


def plain(data: bytes) -> str:
    """The text of a file without blanks at its ends.

    tar fills a file of sysfs up to the size that the kernel states, a page, with zero bytes.
    """
    return clean(data.rstrip(b"\0")).strip()


def answers(tree: Tree, folder: str, names: Iterable[str]) -> dict[str, Raw]:
    """Read files of one folder: name -> text or {"error": why}; absent ones are left out."""
    found: dict[str, Raw] = {}
    for name in names:
        answer = tree.text(f"{folder}/{name}" if folder else name)
        if isinstance(answer, str):
            found[name] = answer
        elif answer.kind is not Unread.ABSENT:
            found[name] = {"error": answer.why}
    return found


class FolderTree:
    """A folder on disk. The live machine is `live_tree()`; anything else is a copy of one."""

    def __init__(self, root: Path, *, live: bool = False) -> None:
        self.live = live
        self.absent = "no such file on this machine" if live else "not in this recording"
        self._root = str(root).rstrip("/")
        # A copy of /sys itself, without a folder "sys" around it.
        self._bare = not live and not (root / "sys").is_dir() and (root / "bus/pci").is_dir()

    def text(self, path: str, limit: int = LIMIT_BYTES) -> str | Unreadable:
        """The first `limit` bytes of a file as text without blanks at its ends."""
        data = self.octets(path, 0, limit)
        return plain(data) if isinstance(data, bytes) else data

    def octets(self, path: str, offset: int, count: int) -> bytes | Unreadable:
        """At most `count` bytes from `offset`; fewer where the file or the permission ends."""
        place = self._place(path)
        if place is None:
            return Unreadable(Unread.ABSENT, self.absent)
        try:
            # NONBLOCK: a pipe in a copied folder must not stop us.
            handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            return self._unreadable(error)
        except ValueError:
            return Unreadable(Unread.ABSENT, self.absent)
        try:
            if not self.live and not stat.S_ISREG(os.fstat(handle).st_mode):
                return Unreadable(Unread.FAILED, "not a regular file")
            return _read(handle, offset, count)
        except OSError as error:
            return self._unreadable(error)
        finally:
            os.close(handle)

    def names(self, folder: str) -> tuple[str, ...]:
        """Names in a folder, sorted; () when it is not there."""
        place = self._place(folder)
        try:
            found = sorted(os.listdir(place)) if place is not None else []
        except (OSError, ValueError):
            return ()
        return tuple(clean(name) for name in found[:LIMIT_NAMES])

    def link(self, path: str) -> str | None:
        """Where a symbolic link points, as it is written; None when it is none."""
        folder, _, name = path.rpartition("/")
        place = self._place(folder)
        return None if place is None else _target(f"{place}/{name}")

    def resolved(self, path: str) -> str | None:
        """The path without links, relative to the root; None when it leads nowhere."""
        if not self.live:
            inner = resolve(path, self._link_inside)
            return inner if inner is not None and self.exists(inner) else None
        try:
            return clean(os.path.realpath(f"/{path}", strict=True)).lstrip("/")
        except (OSError, ValueError):
            return None

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        place = self._place(path)
        try:
            return place is not None and os.path.lexists(place)
        except ValueError:
            return False

    def size(self, path: str) -> int | None:
        """Size of a plain file in bytes."""
        place = self._place(path)
        try:
            status = os.stat(place) if place is not None else None
        except (OSError, ValueError):
            return None
        return status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None

    def _place(self, path: str) -> str | None:
        """Path on this machine's disk; for a copy with every link followed inside its root."""
        if self.live:
            return f"{self._root}/{path}"
        inner = resolve(path, self._link_inside)
        return None if inner is None else self._outer(inner)

    def _outer(self, inner: str) -> str | None:
        if not self._bare:
            return f"{self._root}/{inner}"
        if inner in ("", "sys"):
            return self._root
        return f"{self._root}/{inner[4:]}" if inner.startswith("sys/") else None

    def _link_inside(self, inner: str) -> str | None:
        place = self._outer(inner)
        return None if place is None else _target(place)

    def _unreadable(self, error: OSError) -> Unreadable:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return Unreadable(Unread.ABSENT, self.absent)
        if isinstance(error, PermissionError):
            return Unreadable(Unread.DENIED, "no permission")
        return Unreadable(Unread.FAILED, error.strerror or type(error).__name__)


def live_tree() -> FolderTree:
    """The machine that gputop runs on."""
    return FolderTree(Path("/"), live=True)


def _read(handle: int, offset: int, count: int) -> bytes:
    """Read until `count` bytes are there or the file ends; /proc hands out a page at a time."""
    if offset:
        return os.pread(handle, count, offset)
    pieces: list[bytes] = []
    while count > 0:
        piece = os.read(handle, count)
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
        if len(piece) < 512:
            break  # a file of /sys has one short page; a second read would only say "end"
    return b"".join(pieces)


def _target(place: str) -> str | None:
    try:
        return clean(os.readlink(place))
    except (OSError, ValueError):
        return None
