"""Finds statements in what a door said, in a text, a table or a document, and plants lies there.

`where` of a statement is the span of its value in a text, or the way to it in a document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from .opening import Door, Doors

Where = tuple[int, int] | tuple[Any, ...]


class Statement(NamedTuple):
    """One fact as one door states it."""

    subject: str
    value: str
    where: Where
    """Span of the value in the text, or the keys that lead to it in the document."""


class Reading(NamedTuple):
    """Finds a fact in what a door said."""

    statements: Callable[[Door], Iterable[Statement]]
    planted: Callable[[Door, Statement, str], Door]
    """The door with another value in place of what a statement says."""


class Fact(NamedTuple):
    """A fact and its doors."""

    name: str
    readings: dict[str, Reading]
    others: tuple[str, ...]
    """Values of its kind, in the words of all doors: each is planted."""
    normal: Callable[[str], str] = str


def _plant_text(door: Door, at: Statement, value: str) -> Door:
    start, end = at.where
    return Door(door.text[:start] + value + door.text[end:])


def _plant_json(door: Door, at: Statement, value: str) -> Door:
    with suppress(ValueError):  # a word where a number stands is no lie of this door
        return Door(door.text, _with(door.document, at.where, value))
    return door


def _with(part: Any, way: tuple[Any, ...], value: str) -> Any:
    """A part of a document with another value where the way leads: the last step may be a word."""
    if not way:
        return type(part)(value) if isinstance(part, int | float) else value
    first, *rest = way
    if isinstance(part, str):
        words = part.split(" ")
        words[first] = value
        return " ".join(words)
    changed = dict(part) if isinstance(part, dict) else list(part)
    changed[first] = _with(part[first], tuple(rest), value)
    return changed


def text(pattern: str, *, within: str = "", about: str = "") -> Reading:
    """Every match of a pattern; its group `value`, and `key` or `about` for the subject.

    `within` cuts the text into parts first: its group `key` is the subject of what follows, with
    `to` that of a pair.
    """
    compiled = re.compile(pattern, re.MULTILINE)
    parts = re.compile(within, re.MULTILINE) if within else None

    def statements(door: Door) -> Iterator[Statement]:
        starts = [(0, "")]
        if parts:
            starts = [(match.end(), _subject(match)) for match in parts.finditer(door.text)]
        ends = [*(start for start, _ in starts[1:]), len(door.text)]
        for (start, outer), end in zip(starts, ends, strict=False):
            for match in compiled.finditer(door.text, start, end):
                inner = _subject(match) or about
                subject = f"{outer}: {inner}" if outer and inner else outer or inner
                yield Statement(subject, match["value"], match.span("value"))

    return Reading(statements, _plant_text)


def _subject(match: re.Match[str]) -> str:
    groups = match.groupdict()
    key, to = groups.get("key") or "", groups.get("to")
    return " ".join(f"{key}>{to}".split()) if to else " ".join(key.split())


def flow(pattern: str, *, within: str = "", about: str = "") -> Reading:
    """The same for words that may be broken into lines anywhere."""
    return text(pattern.replace(" ", r"\s+"), within=within, about=about)


def matrix(head: str, row: str, cell: str, *, label: str = "") -> Reading:
    """A table of pairs: a line of column names, then rows of cells.

    head: pattern of the heading line. row: pattern whose group `key` names the row; what follows
    are its cells. cell: pattern of one cell, its group `value`.
    """
    heading = re.compile(head, re.MULTILINE)
    names = re.compile(label or r"\d+")
    line, one = re.compile(row), re.compile(cell)

    def statements(door: Door) -> Iterator[Statement]:
        found = heading.search(door.text)
        if found is None:
            return
        columns = names.findall(found.group())
        at = found.end() + 1
        blank, seen = 0, set[str]()
        while blank < 3 and at < len(door.text):
            end = door.text.find("\n", at)
            end = len(door.text) if end < 0 else end
            begins = line.match(door.text, at, end)
            blank = 0 if begins else blank + 1
            if begins and begins["key"] in seen:
                return
            if begins:
                seen.add(begins["key"])
                cells = one.finditer(door.text, begins.end(), end)
                for column, match in zip(columns, cells, strict=False):
                    if column != begins["key"] and match["value"]:
                        subject = f"{begins['key']}>{column}"
                        yield Statement(subject, match["value"], match.span("value"))
            at = end + 1

    return Reading(statements, _plant_text)


def document(find: Callable[[Any], Iterable[tuple[str, Any, tuple[Any, ...]]]]) -> Reading:
    """Statements of a JSON document: (subject, value, way to it)."""

    def statements(door: Door) -> Iterator[Statement]:
        if door.document is not None:
            for subject, value, way in find(door.document):
                yield Statement(subject, str(value), way)

    return Reading(statements, _plant_json)


def _said(reading: str, doors: Doors) -> tuple[str, Door | None]:
    """The door of a reading: of two readings of one door, one is called "door: place"."""
    name = reading.partition(": ")[0]
    return name, doors.get(name)


def stated(fact: Fact, doors: Doors) -> dict[str, dict[str, list[str]]]:
    """Subject -> the values that the doors give it -> the doors."""
    by_door: dict[str, dict[str, set[str]]] = {}
    for name, reading in fact.readings.items():
        _, door = _said(name, doors)
        for statement in reading.statements(door) if door else ():
            values = by_door.setdefault(statement.subject.lower(), {}).setdefault(name, set())
            values.add(fact.normal(statement.value))
    found: dict[str, dict[str, list[str]]] = {}
    for subject, said in by_door.items():
        for name, values in said.items():
            found.setdefault(subject, {}).setdefault(" and ".join(sorted(values)), []).append(name)
    return found


def contradictions(facts: Iterable[Fact], doors: Doors) -> dict[str, dict[str, list[str]]]:
    """The facts and subjects of which doors state different values."""
    return {
        f"{fact.name} {subject}".strip(): values
        for fact in facts
        for subject, values in stated(fact, doors).items()
        if len(values) > 1
    }


def plants(fact: Fact, doors: Doors) -> Iterator[tuple[str, Doors]]:
    """Each reading of what another states too, and the doors with a lie in its place."""
    shared = {
        subject
        for subject, values in stated(fact, doors).items()
        if sum(map(len, values.values())) > 1
    }
    for reading_name, reading in fact.readings.items():
        name, door = _said(reading_name, doors)
        if door is None:
            continue
        for statement in reading.statements(door):
            if statement.subject.lower() in shared:
                for lie in fact.others:
                    yield reading_name, {**doors, name: reading.planted(door, statement, lie)}
                break
