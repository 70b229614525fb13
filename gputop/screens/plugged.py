"""Screens that plugins add: the palette opens them, and no number key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gputop.answers import QUESTIONS
from gputop.screens import NAMES
from gputop.screens.view import View
from gputop.topology.plugins import PLUGINS, Plugin, PluginGroup, PluginRefused


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
    yield PluginView(plugin.name, thing.TITLE or plugin.name.capitalize(), thing)
