"""Lists of CPUs as the kernel writes them: "0-31,64-95"."""

from collections.abc import Iterable

LIMIT_CPUS = 65_536
"""Highest CPU number that is believed; Linux is built for 8192 at most."""


def members(text: str | None) -> frozenset[int] | None:
    """Give the CPUs in a list; an empty set for "", None for what is no such list."""
    if text is None:
        return None
    found: set[int] = set()
    for piece in text.strip().split(","):
        first, dash, last = piece.strip().partition("-")
        if not piece.strip():
            continue
        if not _is_number(first) or (dash and not _is_number(last)):
            return None
        start, end = int(first), int(last) if dash else int(first)
        if start > end or end >= LIMIT_CPUS:
            return None
        found.update(range(start, end + 1))
    return frozenset(found)


def written(cpus: Iterable[int]) -> str:
    """Write CPUs as a list: {0, 1, 2, 5} -> "0-2,5"."""
    pieces: list[str] = []
    start = last = -2
    for cpu in (*sorted(set(cpus)), -2):
        if cpu == last + 1:
            last = cpu
            continue
        if start >= 0:
            pieces.append(str(start) if start == last else f"{start}-{last}")
        start = last = cpu
    return ",".join(pieces)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 6
