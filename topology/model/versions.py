"""Version numbers that compare."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*")


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version: "2.28.9", "nccl-2.28.9", "2.30.7+cuda13.0"; () when it has none."""
    found = _NUMBERS.search(version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
