"""Screens that plugins add: the palette opens them, and no number key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from textual.widget import Widget
from textual.widgets import Static

from gputop.answers import QUESTIONS
from gputop.screens import NAMES
from gputop.screens.view import View
from gputop.terminal.clean import clean
from gputop.topology.plugins import PLUGINS, Plugin, PluginGroup, PluginRefused, foreign
from gputop.topology.report import Report


class PluginView(NamedTuple):
    """One screen of a plugin."""

    name: str
    title: str
    kind: type[View]


def plugged() -> tuple[PluginView, ...]:
    """The screens of plugins."""
    return PLUGINS.of(PluginGroup.SCREENS, _accept)


def _accept(plugin: Plugin, thing: Any) -> Iterator[PluginView]:
    if not isinstance(thing, type) or not issubclass(thing, View):
        raise PluginRefused("a screen is a class of View")
    if plugin.name in (*NAMES, *QUESTIONS):
        raise PluginRefused(f"there is a screen {plugin.name} already, which stays")
    title = clean(thing.TITLE, 40) or plugin.name.capitalize()
    yield PluginView(plugin.name, title, _guarded(plugin, thing))


def _guarded(plugin: Plugin, kind: type[View]) -> type[View]:
    """The same screen, on which a line says what of it could not be made; `draw` is guarded."""

    def body(self: View) -> Iterable[Widget]:
        try:
            with foreign():
                return tuple(kind.body(self))
        except Exception as error:  # noqa: BLE001 - a border: a plugin is foreign code
            return (Static(PLUGINS.refuse(plugin, error), markup=False),)

    def draw(self: View, report: Report) -> None:
        with foreign():
            kind.draw(self, report)

    return type(kind.__name__, (kind,), {"body": body, "draw": draw, "KEYS": kind.KEYS})
