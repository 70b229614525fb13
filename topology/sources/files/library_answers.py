"""Values out of the answers of a vendor's library: numbers, texts, lists and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import msgspec

from ...model.part import Raw
from ...model.record import NOT_ASKED
from .answers import items_of
from .field_reader import FieldReader, Missing

Path = str | tuple[str | int, ...]
"""The key of an answer; or that key, and keys and places inside the answer."""


class LibraryDialect(msgspec.Struct, frozen=True):
    """How one library writes a value, and that there is none."""

    find: Callable[[dict[str, Raw], tuple[Any, ...]], Raw]
    """What stands at a path, or Missing: refused, not asked, not in this version's answer."""
    whole: Callable[[Raw], int | Missing]
    """A whole number that the library does not use for "unknown"."""
    fast_int: Callable[[dict[str, Raw], Path], int | None]
    """What `find` and `whole` give where an answer is as nearly all are, at once; None for others.
    """
    text: Callable[[Raw], str | Missing]
    """A text that says something."""
    first_reason: bool
    """Of several paths without a value, whether the first or the last gives the reason."""


class Answers(FieldReader):
    """A dict of answers. Each method names the record field it is for, and notes its gap."""

    raw: dict[str, Raw]

    def __init__(self, raw: Raw, dialect: LibraryDialect) -> None:
        super().__init__(raw if isinstance(raw, dict) else {}, NOT_ASKED)
        self.dialect = dialect
        self.first_reason = dialect.first_reason

    def find(self, path: Path) -> Raw:
        """What stands at a path, or Missing."""
        return self.dialect.find(self.raw, (path,) if isinstance(path, str) else path)

    def look(self, path: Path) -> tuple[Raw, str | None]:
        """What stands at a path: (value, None), or (None, why there is none)."""
        found = self.find(path)
        return (None, found.why) if isinstance(found, Missing) else (found, None)

    def get(self, field: str, *paths: Path) -> Raw:
        """The first answer that is a value of any kind."""
        return self.first(field, paths, lambda value: value)

    def whole(self, field: str, *paths: Path) -> int | None:
        """The first whole number."""
        value = self.dialect.fast_int(self.raw, paths[0])
        return self.first(field, paths, self.dialect.whole) if value is None else value

    def scaled(self, field: str, factor: float, *paths: Path) -> float | None:
        """A number times `factor`, for milliwatts and the like."""
        number = self.whole(field, *paths)
        return None if number is None else number * factor

    def text(self, field: str, *paths: Path) -> str | None:
        """The first text that says something."""
        return self.first(field, paths, self.dialect.text)

    def word(self, field: str, words: Mapping[int, str], *paths: Path) -> str | None:
        """The word for an enumeration value; one without a word becomes "unknown (N)"."""
        number = self.whole(field, *paths)
        return None if number is None else words.get(number, f"unknown ({number})")

    def flag(self, field: str, *paths: Path) -> bool | None:
        """A truth value, given as such or as 0 or 1."""
        value = self.dialect.fast_int(self.raw, paths[0])
        return value == 1 if value in (0, 1) else self.first(field, paths, self._truth)

    def numbers(self, field: str, path: Path) -> list[int] | None:
        """A list of whole numbers that are not below 0."""
        return self.first(field, (path,), _numbers)

    def items(self, path: Path) -> list[Raw]:
        """A list; an empty one where there is none."""
        found = self.find(path)
        return found if isinstance(found, list) else []

    def _truth(self, value: Raw) -> bool | Missing:
        if isinstance(value, bool):
            return value
        number = self.dialect.whole(value)
        if isinstance(number, Missing):
            return number
        return number == 1 if number in (0, 1) else Missing(f"unknown ({number})")


def _numbers(value: Raw) -> list[int] | Missing:
    if isinstance(value, list) and all(is_whole(n) and 0 <= n < 2**64 for n in value):
        return value
    return Missing(wrong_shape(value))


def wrong_shape(value: object) -> str:
    """Name an answer that has the wrong shape."""
    return f"not understood: {type(value).__name__}"


def is_whole(value: object) -> TypeGuard[int]:
    """Whether this is a whole number and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def dicts(value: Raw) -> list[dict[str, Raw]]:
    """The dicts of a list; anything else is left out."""
    return [item for item in items_of(value) if isinstance(item, dict)]
