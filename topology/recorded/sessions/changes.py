"""What changed between two trees of plain data, as numbers of places and their new values.

A place is named once in a block and has a number from then on: at 1 Hz the same figures move again
and again, and rows of equal numbers pack to nothing. Lists of another length and objects with other
keys are written whole.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...model.severity import OpenWord
from .frames import RecordingError

Path = tuple[str | int, ...]
Tree = dict[str, Any]
MOST_PLACES = 200_000
MOST_DEPTH = 16


class NoteKind(OpenWord):
    """What a note of a recorder is about."""

    EVENT = "event"
    VERDICT = "verdict"
    PROCESS = "process"
    CLOCK = "clock"
    COUNTER = "counter"
    RECORDER = "recorder"


class SessionNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that a recorder saw: an event, another verdict, a clock that jumped."""

    kind: NoteKind
    text: str
    harm: str = ""
    """"broken", "slow", "cannot-tell", "notice"; "" for what is none of these."""
    device: str = ""
    """PCI address; "" where it is about no single GPU."""


class WholeFrame(msgspec.Struct, frozen=True):
    """The text of the first frame of a block."""

    snapshot: Tree
    notes: tuple[SessionNote, ...] = ()


class Changed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The text of each other frame."""

    named: tuple[Path, ...] = ()
    """Places that get the next numbers."""
    places: tuple[int, ...] = ()
    values: tuple[Any, ...] = ()
    notes: tuple[SessionNote, ...] = ()


class Differences:
    """Compares each tree with the one before, inside one block."""

    def __init__(self, first: Tree) -> None:
        self._last = first
        self._numbers: dict[Path, int] = {}
        self._named: list[Path] = []
        self._found: list[tuple[int, Any]] = []

    def of(self, tree: Tree) -> Changed:
        """What is different in this tree; it is kept as the last one."""
        self._named, self._found = [], []
        self._objects((), self._last, tree)
        self._last = tree
        return Changed(
            tuple(self._named),
            tuple(number for number, _ in self._found),
            tuple(value for _, value in self._found),
        )

    def _objects(self, path: Path, old: Tree, new: Tree) -> None:
        for key, value in new.items():
            before = old[key]
            if before is not value and before != value:
                self._values((*path, key), before, value)

    def _values(self, path: Path, old: Any, new: Any) -> None:
        kind = type(new)
        if kind is dict and type(old) is dict and old.keys() == new.keys():
            self._objects(path, old, new)
        elif kind is tuple and type(old) is tuple and len(old) == len(new):
            for place, (before, value) in enumerate(zip(old, new, strict=True)):
                if before is not value and before != value:
                    self._values((*path, place), before, value)
        else:
            number = self._numbers.get(path)
            if number is None:
                number = self._numbers[path] = len(self._numbers)
                self._named.append(path)
            self._found.append((number, new))


class Replayed:
    """The tree of one block, brought forward frame by frame."""

    def __init__(self, whole: WholeFrame) -> None:
        self.tree = whole.snapshot
        self._places: list[Path] = []

    def take(self, changed: Changed) -> set[str]:
        """Put new values in their places; gives the keys of the tree below which some changed.

        Raises RecordingError for a place that there is not.
        """
        self._places += changed.named
        if len(self._places) > MOST_PLACES or len(changed.places) != len(changed.values):
            raise RecordingError("changes that do not fit")
        roots = set()
        for number, value in zip(changed.places, changed.values, strict=True):
            if not 0 <= number < len(self._places):
                raise RecordingError("a change of a place that has no name")
            path = self._places[number]
            self._put(path, value)
            roots.add(str(path[0]))
        return roots

    def _put(self, path: Path, value: Any) -> None:
        if not 0 < len(path) <= MOST_DEPTH:
            raise RecordingError("a place that is too deep")
        inside: Any = self.tree
        try:
            for key in path[:-1]:
                inside = inside[key]
            # An object gets no key that it does not have, and a list no item.
            _ = inside[path[-1]]
            inside[path[-1]] = value
        except (LookupError, TypeError) as error:
            raise RecordingError("a change of a place that is not there") from error


ENCODE = msgspec.json.Encoder().encode
DECODE_WHOLE = msgspec.json.Decoder(WholeFrame).decode
DECODE_CHANGED = msgspec.json.Decoder(Changed).decode
