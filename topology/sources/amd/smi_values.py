"""Values as amd-smi prints them: {"value": 750, "unit": "W"}, "750 W", 750, "N/A"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ..files.printed import PrintedDialect
from ..files.tree import clean

PERCENT = {"": 1.0, "%": 1.0}
WATTS = {"": 1.0, "W": 1.0}
CELSIUS = {"": 1.0, "C": 1.0, "°C": 1.0}
MEGAHERTZ = {"": 1.0, "MHz": 1.0, "Mhz": 1.0}
GIGATRANSFERS = {"": 1.0, "GT/s": 1.0, "Gb/s": 1.0}
MEGABYTES = {"": 2.0**20, "B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30}
"""amd-smi divides by 1024 and writes MB; a figure without a unit was MB in its first releases."""
KILOBYTES = {"": 2.0**10, "B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30}
BYTES = {"": 1.0, "B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30}


def at(raw: Any, path: str) -> Any:
    """The value under "section/name"; None when it is not there."""
    value = raw
    for name in path.split("/"):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _find(raw: Any, path: str) -> str | None:
    value = at(raw, path)
    return None if value is None else joined(value) or ""


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


def nothing(text: str) -> bool:
    """Whether the text stands for no value: "N/A", ""."""
    return AMD_SMI.nothing.match(text) is not None


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


def _dialect(tool: str) -> PrintedDialect:
    return PrintedDialect(
        tool=tool,
        absent=f"not in this output of {tool}",
        find=_find,
        nothing=re.compile(
            r"\A(n/?a(?: \(.*\))?|none|null|not supported.*|unknown|unsupported|error|)\Z",
            re.IGNORECASE,
        ),
        number=re.compile(r"\A(-?\d{1,18}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?)\s*([A-Za-z%/°]{0,8})\Z"),
        sizes=BYTES,
        truth={"enabled": True, "disabled": False, "true": True, "false": False},
    )


AMD_SMI = _dialect("amd-smi")
ROCM_SMI = _dialect("rocm-smi")
