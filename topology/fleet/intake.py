"""Takes the files of a folder in, each once, also while nodes still write into it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from ..model.budget import Budget
from .foreign import ForeignReport, read_text
from .reading import read_file, unusable
from .record import Beside, FileFault, Interned, NodeReport, Unusable

MOST_FILES = 1_000_000
MOST_TEXTS = 20_000
"""Files of other programs that are looked through; one takes as long as ten checks."""
PROGRESS_EVERY = 100
"""Files between two words about how many are read."""
_Signature = tuple[int, int, int]
_Item = NodeReport | Unusable | Beside | ForeignReport


class Intake:
    """The files of a folder and of the folders in it, one level deep.

    Names that begin with a dot are left out: they are of file systems, and of files that are being
    written. Folders behind links are not looked into.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._shared = Interned()
        self._texts = 0
        self._known: dict[str, tuple[_Signature, _Item]] = {}
        self._unseen: list[Unusable] = []
        """What was not looked into: folders that cannot be listed, and files beyond the limit."""

    def take(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Look at the folder and read what came or changed; whether something did.

        `progress` is told how many files of how many are read. Raises OSError where the folder
        itself cannot be listed.
        """
        gone = set(self._known)
        before_this, self._unseen = self._unseen, []
        listed = sorted(self._listed())
        changed = self._unseen != before_this
        budget = Budget("fleet")
        for count, (name, signature) in enumerate(listed):
            if progress is not None and count % PROGRESS_EVERY == 0:
                progress(count, len(listed))
            gone.discard(name)
            before = self._known.get(name)
            if before is not None and before[0] == signature:
                continue
            changed = True
            late = unusable(name, FileFault.UNREADABLE, budget.why) if budget.over else None
            self._known[name] = signature, late or self._read(name)
        for name in gone:
            changed = True
            del self._known[name]
        return changed

    def reports(self) -> Iterator[NodeReport]:
        """What nodes wrote."""
        return (item for _, item in self._known.values() if isinstance(item, NodeReport))

    def unusable(self) -> Iterator[Unusable]:
        """Files that tell nothing."""
        yield from (item for _, item in self._known.values() if isinstance(item, Unusable))
        yield from self._unseen

    def beside(self) -> Iterator[Beside]:
        """Other documents of gputop."""
        return (item for _, item in self._known.values() if isinstance(item, Beside))

    def foreign(self) -> list[ForeignReport]:
        """What the outputs of other programs tell."""
        return [item for _, item in self._known.values() if isinstance(item, ForeignReport)]

    def _read(self, name: str) -> _Item:
        item = read_file(self.folder, name, self._shared)
        if not isinstance(item, bytes):
            return item
        self._texts += 1
        if self._texts > MOST_TEXTS:
            why = f"not read: there are more than {MOST_TEXTS:,} texts of other programs"
            return unusable(name, FileFault.UNREADABLE, why)
        return read_text(name, item)

    def _listed(self) -> Iterator[tuple[str, _Signature]]:
        for count, (name, entry) in enumerate(self._files()):
            if count >= MOST_FILES:
                self._leave_out(name, f"not read: there are more than {MOST_FILES:,} files")
                return
            yield name, _signature(entry)

    def _files(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        for name, entry in _entries(self.folder, ""):
            if not entry.is_dir(follow_symlinks=False):
                yield name, entry
                continue
            try:
                below = list(_entries(entry.path, name + "/"))
            except OSError as error:
                self._leave_out(f"{name}/", f"the folder cannot be listed: {error.strerror}")
                continue
            yield from (each for each in below if not each[1].is_dir(follow_symlinks=False))

    def _leave_out(self, name: str, why: str) -> None:
        self._unseen.append(Unusable(path=name, kind=FileFault.UNREADABLE, why=why))


def _entries(folder: str, before: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                yield before + entry.name, entry


def _signature(entry: os.DirEntry[str]) -> _Signature:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
