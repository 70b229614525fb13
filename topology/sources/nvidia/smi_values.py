"""Values as nvidia-smi prints them: "143771 MiB", "79.81 W", "16x", "Enabled", "N/A"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from ...model.record import Gap

_NUMBER = re.compile(r"\A(-?\d{1,18}(?:\.\d{1,9})?)\s*(x|[A-Za-z%/]{0,12})\Z")
_NOTHING = re.compile(
    r"\A\[?(n/?a|not supported|unknown error|insufficient permissions|requested functionality has "
    r"been deprecated|gpu access blocked by the operating system|no data|error|none)\]?\Z",
    re.IGNORECASE,
)
_SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_TRUTH = {"enabled": True, "disabled": False, "yes": True, "no": False, "active": True,
          "not active": False}  # fmt: skip
_TEXT_LIMIT = 512
MAX_ITEMS = 4096
"""Most entries of a list that are read."""


class Values:
    """One element of the XML, read by path. Each method names the record field it is for."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self._gaps: dict[str, str] = {}

    def gaps(self) -> tuple[Gap, ...]:
        """All gaps noted so far, in order."""
        return tuple(Gap(field, why) for field, why in self._gaps.items())

    def miss(self, field: str, why: str) -> None:
        """Note why `field` is unknown; the first reason stands."""
        self._gaps.setdefault(field, why)

    def text(self, field: str, *paths: str) -> str | None:
        """Return the first text under one of `paths` that says something."""
        why = "not in this nvidia-smi -q -x"
        for path in paths:
            found = self.element.findtext(path)
            if found is None:
                continue
            text = " ".join(found.split())[:_TEXT_LIMIT]
            if text and not _NOTHING.match(text):
                return text
            why = f"nvidia-smi prints {text or 'nothing'}"
        self.miss(field, why)
        return None

    def number(self, field: str, *paths: str, unit: Sequence[str] = ("",)) -> float | None:
        """Return a number whose unit is one of `unit`."""
        text = self.text(field, *paths)
        if text is None:
            return None
        match = _NUMBER.match(text)
        if match is None or match[2] not in unit:
            self.miss(field, f"not understood: {text[:40]}")
            return None
        return float(match[1])

    def whole(self, field: str, *paths: str, unit: Sequence[str] = ("",)) -> int | None:
        """Return a whole number whose unit is one of `unit`; a fraction is not understood."""
        value = self.number(field, *paths, unit=unit)
        if value is not None and value != int(value):
            self.miss(field, f"not understood: {value}")
            return None
        return None if value is None else int(value)

    def positive(self, field: str, *paths: str, unit: Sequence[str] = ("",)) -> int | None:
        """Return a whole number where 0 means that there is nothing to read."""
        value = self.whole(field, *paths, unit=unit)
        if value == 0:
            self.miss(field, "nvidia-smi prints 0")
        return value or None

    def size(self, field: str, *paths: str) -> int | None:
        """Return bytes out of a size in binary units."""
        text = self.text(field, *paths)
        if text is None:
            return None
        match = _NUMBER.match(text)
        if match is None or match[2] not in _SIZES or match[1].startswith("-"):
            self.miss(field, f"not understood: {text[:40]}")
            return None
        return int(float(match[1]) * _SIZES[match[2]])

    def flag(self, field: str, *paths: str) -> bool | None:
        """Return a truth value out of "Enabled", "Yes" and the like."""
        text = self.text(field, *paths)
        if text is None:
            return None
        if text.lower() not in _TRUTH:
            self.miss(field, f"not understood: {text[:40]}")
            return None
        return _TRUTH[text.lower()]

    def word(self, field: str, words: dict[str, str], *paths: str) -> str | None:
        """Return our word for nvidia-smi's; one that is not known becomes "unknown (X)"."""
        text = self.text(field, *paths)
        return None if text is None else words.get(text.lower(), f"unknown ({text[:40]})")

    def hexadecimal(self, field: str, *paths: str) -> int | None:
        """Return a number printed as "0x6"."""
        text = self.text(field, *paths)
        if text is None:
            return None
        if not re.fullmatch(r"(0x)?[0-9A-Fa-f]{1,16}", text):
            self.miss(field, f"not understood: {text[:40]}")
            return None
        return int(text, 16)
