"""Things gathered under what they share, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def gathered(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """What stands second in the pairs, by what stands first."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def gathered_by(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """The values by a key of each."""
    return gathered((key(value), value) for value in values)
