"""Fields of one record out of one raw answer; a field without a value becomes a gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from ...model.part import Raw
from ...model.record import Gap
from .tree import clean

T = TypeVar("T")
_MOST_CHARACTERS = 200


class Missing(msgspec.Struct, frozen=True):
    """Stands where a value was expected."""

    why: str
    """Why there is none."""


@lru_cache(1024)
def _gap(field: str, why: str) -> Gap:
    # The same ones on all GPUs and every second.
    return Gap(field, clean(why))


class FieldReader:
    """Collects the gaps of one record. A subclass knows how its answers are written."""

    first_reason = False
    """Where several paths hold no value: whether the gap has the first reason, or the last."""

    def __init__(self, raw: Any, absent: str) -> None:
        self.raw = raw
        self.absent = absent
        """Why a field is unknown when the answer says nothing about it."""
        self._gaps: dict[str, Gap] = {}

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Why fields are None, in the order in which they were asked for."""
        return tuple(self._gaps.values())

    def gap(self, field: str, why: str) -> None:
        """Note why `field` is None; the first reason stands."""
        if field not in self._gaps:
            self._gaps[field] = _gap(field, why[:_MOST_CHARACTERS])

    def find(self, path: Any) -> Raw:
        """What stands at a path, or Missing."""
        raise NotImplementedError

    def first(
        self, field: str, paths: Sequence[Any], take: Callable[[Raw], T | Missing]
    ) -> T | None:
        """The first value at one of `paths` that `take` understands.

        Where there is none, the gap has the reason of a path that the answer says anything about.
        """
        why = self.absent
        for path in paths:
            found = self.find(path)
            value: T | Missing = found if isinstance(found, Missing) else take(found)
            if not isinstance(value, Missing):
                return value
            if why == self.absent or (value.why != self.absent and not self.first_reason):
                why = value.why
        self.gap(field, why)
        return None
