"""Records of one thing from several sources become one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from .record import Record

R = TypeVar("R", bound=Record)


def merge_records(records: Sequence[R]) -> R:
    """Field by field, the first record that knows a value wins; gaps remain for unknown fields."""
    if len(records) == 1:
        return records[0]
    first = records[0]
    values: dict[str, object] = {}
    for name in first.__struct_fields__:
        if name == "gaps":
            continue
        known = [
            value for value in (getattr(record, name) for record in records) if value is not None
        ]
        # An empty tuple says nothing where another source names members.
        filled = [value for value in known if value != ()]
        values[name] = filled[0] if filled else known[0] if known else None
    gaps: dict[str, object] = {}
    for record in records:
        for gap in record.gaps:
            if values.get(gap.field) in (None, ()):
                gaps.setdefault(gap.field, gap)
    return msgspec.structs.replace(first, **values, gaps=tuple(gaps.values()))


def merge_by(key: Callable[[R], object], groups: Iterable[Sequence[R]]) -> tuple[R, ...]:
    """Records of several sources, one per key, in the order in which keys appear."""
    found: dict[object, list[R]] = {}
    for group in groups:
        for record in group:
            found.setdefault(key(record), []).append(record)
    return tuple(merge_records(records) for records in found.values())
