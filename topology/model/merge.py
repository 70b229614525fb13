"""Records of one thing from several sources become one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import TypeVar

import msgspec

from .record import NOT_ASKED, Gap, Record

R = TypeVar("R", bound=Record)
MEMBERS = {"xgmi": "remote_address", "ecc_blocks": "block"}
"""Fields whose members are told by several sources, each a part, and what names a member."""

NESTED = ("ecc",)
"""Fields that hold a record of which several sources tell a part each."""


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
        if name in NESTED and len(known) > 1:
            values[name] = merge_records([value for value in known if isinstance(value, Record)])
            continue
        # An empty tuple says nothing where another source names members.
        filled = [value for value in known if value != ()]
        if name in MEMBERS and len(filled) > 1:
            values[name] = merge_by(attrgetter(MEMBERS[name]), filled)
            continue
        values[name] = filled[0] if filled else known[0] if known else None
    gaps: dict[str, Gap] = {}
    for record in records:
        for gap in record.gaps:
            value = values.get(gap.field)
            if value is None or (value == () and gap.field in _member_fields(type(first))):
                before = gaps.get(gap.field)
                if before is None or (_weak(before) and not _weak(gap)):
                    gaps[gap.field] = gap
    return msgspec.structs.replace(first, **values, gaps=tuple(gaps.values()))


@cache
def _member_fields(kind: type[Record]) -> frozenset[str]:
    """Fields for which an empty tuple is no answer: where None is the default, it is one."""
    return frozenset(
        field.encode_name for field in msgspec.structs.fields(kind) if field.default == ()
    )


def _weak(gap: Gap) -> bool:
    """Whether a reason says only that a file or a call leaves the value out."""
    return gap.why == NOT_ASKED or gap.why.startswith("not in ")


def merge_by(key: Callable[[R], object], groups: Iterable[Sequence[R]]) -> tuple[R, ...]:
    """Records of several sources, one per key, in the order in which keys appear."""
    found: dict[object, list[R]] = {}
    for group in groups:
        for record in group:
            found.setdefault(key(record), []).append(record)
    return tuple(merge_records(records) for records in found.values())
