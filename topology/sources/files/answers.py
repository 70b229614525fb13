"""Values out of raw answers of files: a text, {"error": why}, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model.part import Raw
from ...model.snapshot import Problem, ProblemKind
from .field_reader import FieldReader
from .tree import clean

LIMIT_CHARACTERS = 4096
LEFT_OUT = "left_out"
"""Key of a raw answer that was cut off."""
_LARGEST = 1 << 63


class FileAnswers(FieldReader):
    """Takes the fields of one record out of the texts of files."""

    raw: Mapping[str, Raw]

    def __init__(self, raw: Raw, absent: str) -> None:
        super().__init__(raw if isinstance(raw, dict) else {}, absent)

    def text(self, key: str, field: str | None = None, *, quiet: bool = False) -> str | None:
        """The text under `key`; `quiet`: its absence is normal and no gap."""
        answer = self.raw.get(key)
        if isinstance(answer, str) and answer:
            return clean(answer[:LIMIT_CHARACTERS])
        if field is not None and not (quiet and answer is None):
            self.gap(field, self._reason(answer))
        return None

    def number(
        self, key: str, field: str | None = None, *, base: int = 10, quiet: bool = False
    ) -> int | None:
        """The whole number under `key`; base 0 for "0x10"."""
        text = self.text(key, field, quiet=quiet)
        if text is None:
            return None
        value = whole(text, base)
        if value is None and field is not None:
            self.gap(field, f"not a number: {text[:40]!r}")
        return value

    def count(self, key: str, field: str) -> int | None:
        """The whole number under `key` that cannot be below 0."""
        value = self.number(key, field)
        if value is not None and value < 0:
            self.gap(field, f"the answer is {value}")
            return None
        return value

    def _reason(self, answer: Raw) -> str:
        if isinstance(answer, dict) and isinstance(answer.get("error"), str):
            return str(answer["error"])
        if answer is None:
            return self.absent
        return "empty" if answer == "" else "the answer is no text"


def under(raw: Raw, name: str) -> Raw:
    """What an answer has under a name; None for one without names."""
    return raw.get(name) if isinstance(raw, dict) else None


def items_of(raw: Raw) -> list[Raw]:
    """The items of an answer that is a list; none for another one."""
    return raw if isinstance(raw, list) else []


def whole(text: str | None, base: int = 10) -> int | None:
    """A whole number of at most 63 bits, or None."""
    if text is None or len(text) > 40:
        return None
    try:
        value = int(text, base)
    except ValueError:
        return None
    return value if -_LARGEST <= value < _LARGEST else None


def absent_text(raw: Raw) -> str:
    """What a raw answer says about files that are not there."""
    why = under(raw, "absent")
    return clean(why[:100]) if isinstance(why, str) and why else "not in the answer"


def left_out(names: Sequence[str], most: int) -> dict[str, Raw]:
    """What a raw answer says where a folder has more names than are read; else nothing."""
    if len(names) <= most:
        return {}
    return {LEFT_OUT: f"{len(names) - most} of {len(names)} were not read: the limit is {most}"}


def cut_off(raw: Raw, source: str, what: str) -> tuple[Problem, ...]:
    """The problem of an answer that was cut off; () for a whole one."""
    why = under(raw, LEFT_OUT)
    if not isinstance(why, str):
        return ()
    return (Problem(source=source, kind=ProblemKind.ERROR, text=f"{what}: {clean(why[:100])}"),)


def part(raw: Raw, key: str) -> dict[str, Raw]:
    """The dictionary under `key`; an empty one for anything else."""
    found = under(raw, key)
    if not isinstance(found, dict):
        return {}
    return {clean(name): value for name, value in found.items() if isinstance(name, str)}


def words(raw: Raw) -> tuple[str, ...]:
    """The texts in a list; () for anything else."""
    if not isinstance(raw, list):
        return ()
    return tuple(clean(word[:LIMIT_CHARACTERS]) for word in raw if isinstance(word, str))
