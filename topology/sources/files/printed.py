"""Values that a vendor's tool printed, field by field; a field without a value becomes a gap."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from .field_reader import FieldReader, Missing

PLAIN = {"": 1.0}
"""Units of a bare number."""
_TEXT_SHOWN = 40
_HEXADECIMAL = re.compile(r"(0x)?[0-9A-Fa-f]{1,16}")


class PrintedDialect(msgspec.Struct, frozen=True, kw_only=True):
    """How one tool writes a value, a unit, and the absence of a value."""

    tool: str
    """Its name in gaps: "nvidia-smi"."""
    absent: str
    """Why a field is unknown that is missing from the output."""
    find: Callable[[Any, str], str | None]
    """The text at a path, "" where something else stands there; None where nothing does."""
    nothing: re.Pattern[str]
    """A text that stands for no value: "N/A"."""
    number: re.Pattern[str]
    """A number and its unit, as two groups."""
    truth: Mapping[str, bool]
    """Words for yes and no, lower case."""
    sizes: Mapping[str, float]
    """Units of sizes, in bytes."""
    least: int = 0
    """Whole numbers below it are not understood."""


class Printed(FieldReader):
    """One object of a tool's output. Each method names the record field that it is for."""

    def __init__(self, raw: Any, dialect: PrintedDialect) -> None:
        super().__init__(raw, dialect.absent)
        self.dialect = dialect

    def find(self, path: str) -> str | Missing:
        """The text at a path, or Missing."""
        text = self.dialect.find(self.raw, path)
        if text is None:
            return Missing(self.absent)
        if text and not self.dialect.nothing.match(text):
            return text
        return Missing(f"{self.dialect.tool} prints {text or 'nothing'}")

    def text(self, field: str, *paths: str) -> str | None:
        """The first text under one of `paths` that says something."""
        return self.first(field, paths, str)

    def match(self, field: str, form: re.Pattern[str], *paths: str) -> re.Match[str] | None:
        """The first text that says something, where it has this form."""
        text = self.text(field, *paths)
        found = None if text is None else form.search(text)
        if text is not None and found is None:
            self._odd(field, text)
        return found

    def number(
        self, field: str, *paths: str, units: Mapping[str, float] = PLAIN, most: float | None = None
    ) -> float | None:
        """A number in the unit of the field: what is printed times the factor of its unit.

        With `most`, it is from 0 to that.
        """
        text = self.text(field, *paths)
        if text is None:
            return None
        value = scaled(text, units, self.dialect)
        if value is None or not (most is None or 0 <= value <= most):
            self._odd(field, text)
            return None
        return value

    def whole(
        self,
        field: str,
        *paths: str,
        units: Mapping[str, float] = PLAIN,
        least: int | None = None,
        most: int = 2**63,
    ) -> int | None:
        """A whole number from `least` to `most`.

        A fraction is rounded only where there are several units, and not understood elsewhere.
        """
        value = self.number(field, *paths, units=units)
        if value is None:
            return None
        low = self.dialect.least if least is None else least
        if not low <= value <= most or (len(units) == 1 and value != int(value)):
            self._odd(field, f"{value:g}")
            return None
        return round(value)

    def positive(self, field: str, *paths: str, units: Mapping[str, float] = PLAIN) -> int | None:
        """A whole number where 0 means that there is nothing to read."""
        value = self.whole(field, *paths, units=units)
        if value == 0:
            self.gap(field, f"{self.dialect.tool} prints 0")
        return value or None

    def size(self, field: str, *paths: str) -> int | None:
        """Bytes out of a size with one of the tool's units."""
        return self.whole(field, *paths, units=self.dialect.sizes, least=0)

    def flag(self, field: str, *paths: str) -> bool | None:
        """A truth value out of "Enabled", "Yes" and the like."""
        text = self.text(field, *paths)
        if text is None:
            return None
        truth = self.dialect.truth.get(text.lower())
        if truth is None:
            self._odd(field, text)
        return truth

    def word(self, field: str, words: Mapping[str, str], *paths: str) -> str | None:
        """Our word for the tool's word; an unfamiliar word becomes "unknown (X)"."""
        text = self.text(field, *paths)
        return None if text is None else words.get(text.lower(), f"unknown ({text[:_TEXT_SHOWN]})")

    def hexadecimal(self, field: str, *paths: str) -> int | None:
        """A number printed as "0x6"."""
        text = self.text(field, *paths)
        if text is None:
            return None
        if not _HEXADECIMAL.fullmatch(text):
            self._odd(field, text)
            return None
        return int(text, 16)

    def _odd(self, field: str, text: str) -> None:
        self.gap(field, f"not understood: {text[:_TEXT_SHOWN]}")


def scaled(text: str, units: Mapping[str, float], dialect: PrintedDialect) -> float | None:
    """The number in front times the factor of its unit; None for no number or another unit."""
    match = dialect.number.match(text)
    if match is None or match[2] not in units:
        return None
    return float(match[1]) * units[match[2]]
