"""The list of flags: what is set and changed first, then the catalogue; a cursor on one name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from gputop.terminal.clean import clean
from gputop.topology.flags.catalogue.catalogue import SHELVES, Catalogue, Flag
from gputop.topology.flags.values.values import for_library, overridden, read_value
from gputop.topology.flags.what_if.changes import LIBRARIES
from gputop.topology.model.versions import Library, numbers
from gputop.widgets.named_list import NamedList
from gputop.widgets.spans import Line, left

NAME_WIDTH, VALUE_WIDTH, SHELF_WIDTH = 32, 16, 10
WIDE, NARROW_VALUE = 110, 8
SET, VERSION = "set", "version"
MARK_WIDTH = 2
MISSING = "(not set)"


class FlagRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    name: str
    mark: str = " "
    """"*" set, "+" changed here, "!" set and without effect, "?" a name nobody reads."""
    value: str = ""
    ink: str = ""
    shelf: str = ""
    """The group: "set" for what is set or changed, else where the catalogue has it."""
    short: str = ""
    """What it does, in a few words."""


def rows_of(
    known: Catalogue,
    library: Library,
    values: Mapping[str, str],
    changes: Mapping[str, str | None],
    words: str = "",
    origins: Mapping[str, str] | None = None,
) -> tuple[FlagRow, ...]:
    """The rows that hold every word of a filter: what is set, the version, the catalogue."""
    origins = origins or {}
    version = _version(library, changes)
    changes = {name: value for name, value in changes.items() if name not in LIBRARIES}
    found = {flag.name: flag for flag in known.search(words)}
    now = {**values, **{name: value for name, value in changes.items() if value is not None}}
    void = overridden(now)
    first = sorted({*values, *changes})
    if words:
        asked = words.lower().split()
        first = [n for n in first if n in found or all(w in n.lower() for w in asked)]
    rows = [replace(_set(known, library, name, values, changes, void), shelf=SET) for name in first]
    rows = [
        replace(row, value=f"{row.value}  ({origins[row.name]})")
        if row.name in origins and row.name not in changes
        else row
        for row in rows
    ]
    rest = [flag for flag in found.values() if flag.name not in first]
    if not words:
        # The best match of a filter stays first.
        rest.sort(key=lambda flag: SHELVES.index(flag.shelf))
    rows += [
        FlagRow(name=flag.name, value=_default(flag, library), ink="muted", shelf=flag.shelf)
        for flag in rest
    ]
    shorts = {flag.name: for_library(flag, library).in_short for flag in known.flags}
    rows = [replace(row, short=shorts.get(row.name, "")) for row in rows]
    words_of = f"{version.name} {version.short}".lower()
    if all(word in words_of for word in words.lower().split()):
        rows.insert(len(first), version)
    return tuple(rows)


def _version(library: Library, changes: Mapping[str, str | None]) -> FlagRow:
    """The version of the library, which is a value like any other."""
    name = library.name.upper()
    tried = changes.get(name)
    return FlagRow(
        name=name,
        mark="+" if tried else " ",
        value=f"{library.version} → {tried}" if tried else library.version,
        ink="strong" if tried else "muted",
        shelf=VERSION,
        short="another version: what an upgrade would change",
    )


def _set(
    known: Catalogue,
    library: Library,
    name: str,
    values: Mapping[str, str],
    changes: Mapping[str, str | None],
    void: Mapping[str, str],
) -> FlagRow:
    flag = known.flag(name)
    after = changes[name] if name in changes else values.get(name)
    shown = MISSING if after is None else after
    if name in changes:
        shown = f"{values.get(name, MISSING)} → {shown}"
    if flag is None:
        return FlagRow(name=name, mark="?", value=shown, ink="bad")
    reading = None if after is None else read_value(flag, after, library)
    if reading is not None and (reading.ignored or reading.fatal or name in void):
        return FlagRow(name=name, mark="!", value=shown, ink="warn")
    return FlagRow(name=name, mark="+" if name in changes else "*", value=shown, ink="strong")


def _default(flag: Flag, library: Library) -> str:
    default = flag.default
    if flag.of_library:
        default = flag.default_of(library.name, numbers(library.version))
    return default.split(";")[0]


class FlagList(NamedList):
    """The rows; a double click changes a flag."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._rows: tuple[FlagRow, ...] = ()

    def show_rows(self, rows: Sequence[FlagRow], *, first: bool = False) -> None:
        """Put these rows on screen; `first`: with the cursor on the first of them."""
        self._rows = tuple(rows)
        moved = self.take_names((row.name for row in rows), first=first)
        self.draw()
        if rows and moved:
            self.call_after_refresh(self.reveal_cursor)

    def draw(self) -> None:
        """Draw the rows."""
        width = self.scrollable_content_region.width or 78
        shelf, lines = "", list[Line]()
        for row in self._rows:
            lines.append(self._line(row, width, row.shelf if row.shelf != shelf else ""))
            shelf = row.shelf
        self.show(lines or (((" nothing matches", "muted"),),), self.marks_at(width))

    def _line(self, row: FlagRow, width: int, shelf: str) -> Line:
        """Group where it begins, name, value, what it does."""
        name_width = min(NAME_WIDTH, max(12, width - SHELF_WIDTH - MARK_WIDTH - 10))
        room = max(0, width - SHELF_WIDTH - MARK_WIDTH - name_width - 1)
        usual = VALUE_WIDTH if width >= WIDE else NARROW_VALUE
        # What is set is shown whole.
        value_width = min(room, usual if row.mark == " " else max(usual, len(row.value) + 2))
        value = left(clean(row.value, 200), value_width - 1) + " " if value_width else ""
        ink = row.ink if row.mark != " " else ""
        return (
            (left(shelf, SHELF_WIDTH), "key bold"),
            (row.mark, row.ink),
            ("›" if row.name == self.selected else " ", "strong"),
            (left(clean(row.name, 80), name_width) + " ", ink),
            (value, row.ink),
            (left(clean(row.short, 100), max(0, room - value_width)), ""),
        )
