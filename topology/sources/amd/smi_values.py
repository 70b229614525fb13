"""Values as amd-smi prints them: {"value": 750, "unit": "W"}, "750 W", 750, "N/A"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ...model.record import Gap
from ..files.tree import clean

_NUMBER = re.compile(r"\A(-?\d{1,18}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?)\s*([A-Za-z%/°]{0,8})\Z")
_NOTHING = re.compile(
    r"\A(n/?a(?: \(.*\))?|none|null|not supported.*|unknown|unsupported|error|)\Z", re.IGNORECASE
)
PLAIN = {"": 1.0}
PERCENT = {"": 1.0, "%": 1.0}
WATTS = {"": 1.0, "W": 1.0}
CELSIUS = {"": 1.0, "C": 1.0, "°C": 1.0}
MEGAHERTZ = {"": 1.0, "MHz": 1.0, "Mhz": 1.0}
GIGATRANSFERS = {"": 1.0, "GT/s": 1.0, "Gb/s": 1.0}
MEGABYTES = {"": 2.0**20, "B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30}
"""amd-smi divides by 1024 and writes MB; a figure without a unit was MB in its first releases."""
KILOBYTES = {"": 2.0**10, "B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30}
BYTES = {"": 1.0, "B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30}
_TRUTH = {"enabled": True, "disabled": False, "true": True, "false": False}


class Values:
    """One object of the output, read by path. Each method names the record field it is for."""

    def __init__(self, found: Mapping[str, Any], tool: str = "amd-smi") -> None:
        self.found = found
        self.tool = tool
        self._gaps: dict[str, str] = {}

    def gaps(self) -> tuple[Gap, ...]:
        """All gaps noted so far, in order."""
        return tuple(Gap(field, why) for field, why in self._gaps.items())

    def miss(self, field: str, why: str) -> None:
        """Note why `field` is unknown; the first reason stands."""
        self._gaps.setdefault(field, why)

    def at(self, path: str) -> Any:
        """What stands under "section/name"; None when it is not there."""
        value: Any = self.found
        for name in path.split("/"):
            if not isinstance(value, Mapping) or name not in value:
                return None
            value = value[name]
        return value

    def text(self, field: str, *paths: str) -> str | None:
        """The first text under one of `paths` that says something."""
        why = f"not in this output of {self.tool}"
        for path in paths:
            value = self.at(path)
            if value is None:
                continue
            text = joined(value)
            if text and not _NOTHING.match(text):
                return text
            why = f"{self.tool} prints {text or 'nothing'}"
        self.miss(field, why)
        return None

    def number(self, field: str, *paths: str, units: Mapping[str, float]) -> float | None:
        """A number in the unit of the field: what is printed times the factor of its unit."""
        text = self.text(field, *paths)
        if text is None:
            return None
        value = scaled(text, units)
        if value is None:
            self.miss(field, f"not understood: {text[:40]}")
        return value

    def whole(
        self, field: str, *paths: str, units: Mapping[str, float] = PLAIN, most: int = 2**63
    ) -> int | None:
        """A whole number from 0 to `most`; a fraction is rounded only where a unit was scaled."""
        value = self.number(field, *paths, units=units)
        if value is None:
            return None
        if not 0 <= value <= most or (len(units) == 1 and value != int(value)):
            self.miss(field, f"not understood: {value:g}")
            return None
        return round(value)

    def flag(self, field: str, *paths: str) -> bool | None:
        """A truth value out of "ENABLED" and the like."""
        text = self.text(field, *paths)
        if text is None:
            return None
        if text.lower() not in _TRUTH:
            self.miss(field, f"not understood: {text[:40]}")
            return None
        return _TRUTH[text.lower()]


def joined(value: Any) -> str | None:
    """{"value": 4, "unit": "W"} as "4 W"; a plain value as its text; None for other objects."""
    if isinstance(value, Mapping):
        if "value" not in value:
            return None
        number, unit = plain(value["value"]), plain(value.get("unit")) or ""
        if number is None or nothing(number):
            return number
        return f"{number} {unit}".strip()
    return plain(value)


def scaled(text: str, units: Mapping[str, float]) -> float | None:
    """The number in front times the factor of its unit; None for no number or another unit."""
    match = _NUMBER.match(text)
    if match is None or match[2] not in units:
        return None
    return float(match[1]) * units[match[2]]


def nothing(text: str) -> bool:
    """Whether the text stands for no value: "N/A", ""."""
    return _NOTHING.match(text) is not None


def plain(value: Any) -> str | None:
    """A text, number or truth value as one line of text; None for what is none of them."""
    if isinstance(value, str):
        text = value[:4096]
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, int):
        if abs(value) >= 2**64:
            return None
        text = str(value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            return None
        text = f"{value:.15g}"
    else:
        return None
    printable = "".join(letter if letter.isprintable() else " " for letter in clean(text))
    return " ".join(printable.split())[:512]
