"""Values out of raw answers of files: a text, {"error": why}, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model.part import Raw
from ...model.snapshot import Problem, ProblemKind
from .field_reader import FieldReader
from .tree import clean

LIMIT_CHARACTERS = 4096
LEFT_OUT = "left_out"
"""Key of a raw answer: sentences on what our own limits left out."""
_MOST_CUTS = 8
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


def left_out(what: str, names: Sequence[object], most: int) -> list[str]:
    """What `LEFT_OUT` says where there are more of something than are read: a sentence, or none."""
    if len(names) <= most:
        return []
    lost = len(names) - most
    return [f"{what}: {lost} of {len(names)} were not read: gputop reads {most} at most"]


def cut_off(raw: Raw, source: str) -> tuple[Problem, ...]:
    """The problems of an answer that was cut off; () for a whole one."""
    said = items_of(under(raw, LEFT_OUT))
    return left_out_of(source, [why for why in said if isinstance(why, str)])


def left_out_of(source: str, said: Sequence[str]) -> tuple[Problem, ...]:
    """These sentences of `left_out` as problems of a source."""
    return tuple(
        Problem(source=source, kind=ProblemKind.CUT, text=clean(why[:150]))
        for why in said[:_MOST_CUTS]
    )


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
