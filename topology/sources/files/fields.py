"""Tables that say from which answer each field of a record comes.

    MIG_INSTANCE = Fields(MigInstance, uuid=text("nvmlDeviceGetUUID"), ...)
    MIG_INSTANCE.read(answers, index=0)

A reader (`Answers`, `Printed`) knows how its library or tool writes a value. A field whose name the
record lacks is an error when the table is made. The fields are read in the order of the table, and
so are their gaps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from ...model.record import Record

R = TypeVar("R", bound=Record)

Take = Callable[[Any, str], Any]
"""Reads a field, whose name is the second argument, with a reader; notes a gap where it is None."""


class Fields(Generic[R]):
    """Where the fields of one kind of record are read."""

    def __init__(self, record: type[R], /, **fields: Take) -> None:
        if unknown := fields.keys() - set(record.__struct_fields__):
            raise TypeError(f"{record.__name__} has no field {', '.join(sorted(unknown))}")
        self._record = record
        self._fields = tuple(fields.items())

    def __iter__(self) -> Iterator[str]:
        """The names of the fields, in the order in which they are read."""
        return (field for field, _ in self._fields)

    def read(self, reader: Any, /, **others: Any) -> R:
        """A record with the values and the gaps of `reader`, and with `others` as they are."""
        values = {field: take(reader, field) for field, take in self._fields}
        return self._record(**{"gaps": reader.gaps, **values, **others})


def text(*paths: Any) -> Take:
    """The first text under one of `paths` that says something."""
    return lambda reader, field: reader.text(field, *paths)


def whole(*paths: Any, **limits: Any) -> Take:
    """A whole number; `limits` are those of the reader's method `whole`."""
    return lambda reader, field: reader.whole(field, *paths, **limits)


def number(*paths: Any, **limits: Any) -> Take:
    """A number that may have a fraction, in the unit of the field."""
    return lambda reader, field: reader.number(field, *paths, **limits)


def scaled(factor: float, *paths: Any) -> Take:
    """A whole number times `factor`."""
    return lambda reader, field: reader.scaled(field, factor, *paths)


def positive(*paths: Any, **limits: Any) -> Take:
    """A whole number that is never 0: a 0 says nothing."""
    return lambda reader, field: reader.positive(field, *paths, **limits)


def size(*paths: Any) -> Take:
    """Bytes out of a size with a unit."""
    return lambda reader, field: reader.size(field, *paths)


def hexadecimal(*paths: Any) -> Take:
    """A number printed as "0x6"."""
    return lambda reader, field: reader.hexadecimal(field, *paths)


def flag(*paths: Any) -> Take:
    """A truth value."""
    return lambda reader, field: reader.flag(field, *paths)


def word(words: Mapping[Any, str], *paths: Any) -> Take:
    """Our word for a number or word of the driver; "unknown (X)" where there is none."""
    return lambda reader, field: reader.word(field, words, *paths)


def matching(form: re.Pattern[str], read: Callable[[re.Match[str]], Any], *paths: Any) -> Take:
    """What `read` makes of a text of this form."""

    def take(reader: Any, field: str) -> Any:
        found = reader.match(field, form, *paths)
        return None if found is None else read(found)

    return take


def file_text(key: str) -> Take:
    """The text of a file; the reader is a `FileAnswers`."""
    return lambda reader, field: reader.text(key, field)


def file_count(key: str) -> Take:
    """The whole number in a file, which is never below 0."""
    return lambda reader, field: reader.count(key, field)


def made(read: Callable[[Any], Any]) -> Take:
    """What a function reads that knows its field."""
    return lambda reader, field: read(reader)


def by(read: Callable[..., Any], *arguments: Any) -> Take:
    """What a function reads that takes the reader, the field, and these arguments."""
    return lambda reader, field: read(reader, field, *arguments)
