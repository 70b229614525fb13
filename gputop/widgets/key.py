"""A key, declared once: its binding, its place in the line of keys, its help, its command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from textual.app import SystemCommand
from textual.binding import Binding, BindingType

_WRITTEN = {
    "ampersand": "&",
    "delete": "Del",
    "enter": "Enter",
    "escape": "Esc",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "question_mark": "?",
    "slash": "/",
    "space": "Space",
}
"""Textual's name of a key -> what a person reads."""


def _written(name: str) -> str:
    return _WRITTEN.get(name, name)


class Key(NamedTuple):
    """One key, or several for the same action, and all that is said about it anywhere.

    A key without `key` is a command of the palette, or a note in the help, alone. `label`, `help`
    and what the palette says of common keys may hold "{library}" and other Words of the node.
    """

    key: str
    """Textual's names, separated by commas; the first stands in the line of keys."""
    action: str
    """Textual's action, such as "edit" or "app.probe_nccl(False)"."""
    label: str = ""
    """Its word in the line of keys; "" keeps it out of the line."""
    help: str = ""
    """What it does, for the help; "" keeps it out of the help."""
    written: str = ""
    """How the help writes it, where that is not the first of `key`.

    It may cover other keys too, each group behind two blanks: "↑ ↓  Home End".
    """
    command: str = ""
    """Its title in the palette; "" keeps it out of the palette."""
    about: str = ""
    """What the palette says about it; the key is added in brackets."""
    beside: bool = False
    """Whether its help stands in the row of the one before it."""

    @property
    def name(self) -> str:
        """The first key as a person reads it."""
        return _written(self.key.split(",")[0])

    @property
    def names(self) -> list[str]:
        """What the help writes before its meaning, each key by itself."""
        return (self.written or self.name).split("  ")


def note(where: str, meaning: str, *, beside: bool = False) -> Key:
    """A row of the help that explains a sign or a key of Textual's own."""
    return Key("", "", help=meaning, written=where, beside=beside)


def select_keys(meaning: str, written: str = "↑ ↓  Home End") -> tuple[Key, ...]:
    """The keys that move a cursor through a list, by the action `move`."""
    return (
        Key("up,k", "move(-1)", help=meaning, written=written),
        Key("down,j", "move(1)"),
        Key("home", "move(-10000)"),
        Key("end", "move(10000)"),
    )


def scroll_keys(action: str, lines: int, meaning: str, label: str = "") -> tuple[Key, ...]:
    """The keys that scroll a text; the argument of the action is the number of lines."""
    down = f"{action}({lines})"
    return (
        Key("pageup", f"{action}(-{lines})"),
        Key("pagedown", down, label, help=meaning, written="PgUp PgDn"),
    )


def bindings(keys: Iterable[Key]) -> list[BindingType]:
    """The bindings of these keys, for Textual."""
    return [Binding(key.key, key.action, show=False) for key in keys if key.key]


def help_rows(keys: Iterable[Key], own: Iterable[Key] = ()) -> list[tuple[str, str]]:
    """The rows of the help: keys, meaning; without what means something else in `own`."""
    taken = {name for key in own for name in (*key.names, *map(_written, key.key.split(",")))}
    rows: list[tuple[str, str]] = []
    led = False
    for key in (key for key in keys if key.help):
        names = "  ".join(name for name in key.names if name not in taken)
        if names and led and key.beside:
            before, meaning = rows.pop()
            rows.append((f"{before}  {names}", f"{meaning}; {key.help}"))
        elif names:
            rows.append((names, key.help))
        led = bool(names)
    return rows


def commands(
    keys: Iterable[Key], run: Callable[[str], Awaitable[object]]
) -> Iterator[SystemCommand]:
    """What the palette lists of these keys; `run` runs an action."""
    for key in keys:
        if key.command:
            about = f"{key.about} ({key.name})" if key.key else key.about
            yield SystemCommand(key.command, about, partial(run, key.action))
