"""What lines in unknown words speak of and who prints them, and what to fetch of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from ...logs.report.report import LogNote
from ...toml import tomllib

MOST_SUBJECTS = 2


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of subjects.toml: what lines may be about."""

    name: str
    any: tuple[str, ...]
    fetch: str


class Printer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of subjects.toml: a program by the form of the lines that it prints."""

    any: tuple[str, ...]
    fetch: str


class Subjects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of subjects.toml."""

    subject: tuple[Topic, ...]
    printer: tuple[Printer, ...]
    otherwise: str
    """What to fetch of lines whose printer nobody knows."""


@cache
def subjects() -> Subjects:
    """What lines in unknown words may be about, and who prints them."""
    text = Path(__file__).with_name("subjects.toml").read_bytes().decode()
    return msgspec.convert(tomllib.loads(text), Subjects)


def spoken_of(left: Sequence[LogNote]) -> tuple[Topic, ...]:
    """The subjects of these lines, in the order of the table."""
    found = (topic for topic in subjects().subject if _any(topic.any, left))
    return tuple(found)[:MOST_SUBJECTS]


def printed_by(lines: Sequence[LogNote]) -> str:
    """What to fetch of lines that speak of nothing known, by who prints such lines."""
    known = subjects()
    found = (printer.fetch for printer in known.printer if _any(printer.any, lines))
    return next(found, known.otherwise)


def _any(patterns: tuple[str, ...], lines: Sequence[LogNote]) -> bool:
    return any(re.search(pattern, note.text) for pattern in patterns for note in lines)
