"""Version numbers that compare."""

from __future__ import annotations


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers: "2.28.9", "nccl-2.28.9", "2.30.7+cuda13.0"; () when it has none."""
    digits: list[int] = []
    for part in version.rpartition("-")[2].split("+")[0].split("."):
        if not part.isdecimal():
            break
        digits.append(int(part))
    return tuple(digits)
