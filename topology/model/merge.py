"""Records of one thing from several sources become one record."""

from collections.abc import Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from .record import NOT_ASKED, Gap, Record

R = TypeVar("R", bound=Record)


def merge_values(values: Sequence[Any]) -> Any:
    """One value from the values of several sources, earlier sources first.

    Records are merged by their identity. Other members of tuples are all kept, each once where they
    can be compared. Anything else is taken from the first source. `values` holds neither None nor
    ().
    """
    first = values[0]
    if isinstance(first, tuple):
        if isinstance(first[0], Record):
            return merge_groups(values)
        return tuple(dict.fromkeys(member for value in values for member in value))
    if isinstance(first, Record) and first.identity == ():
        return merge_records(values)
    return first


def merge_groups(groups: Iterable[Iterable[R]]) -> tuple[R, ...]:
    """Records of several sources, one for each thing, in the order of their first appearance.

    Records without an identity are all kept.
    """
    found: dict[object, list[R]] = {}
    records = tuple([record for group in groups for record in group])
    names = records[0].identity if records else None
    if not names:
        return records
    key = attrgetter(*names)
    keys = [*map(key, records)]
    if len(set(keys)) == len(keys):
        return records  # no two say anything of the same thing
    for name, record in zip(keys, records, strict=True):
        found.setdefault(name, []).append(record)
    return tuple(merge_records(records) for records in found.values())


def merge_records(records: Sequence[R]) -> R:
    """The first record that knows a field gives its value; gaps remain for unknown fields."""
    first = records[0]
    if len(records) == 1:
        return first
    values: dict[str, object] = {}
    for name in first.__struct_fields__:
        if name == "gaps":
            continue
        known = [
            value for value in (getattr(record, name) for record in records) if value is not None
        ]
        # An empty tuple says nothing where another source names members.
        filled = [value for value in known if value != ()]
        if len(filled) > 1 and _is_shared(filled[0]):
            values[name] = merge_values(filled)
        else:
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


def _is_shared(value: object) -> bool:
    """Whether several sources can each know a part of a field's value."""
    member = value[0] if isinstance(value, tuple) else value
    return isinstance(member, Record) and member.identity is not None


@cache
def _member_fields(kind: type[Record]) -> frozenset[str]:
    """Fields for which empty means unknown: where None is the default, it is an answer."""
    return frozenset(
        field.encode_name for field in msgspec.structs.fields(kind) if field.default == ()
    )


def _weak(gap: Gap) -> bool:
    """Whether a reason says only that a file or a call leaves the value out."""
    return gap.why == NOT_ASKED or gap.why.startswith("not in ")
