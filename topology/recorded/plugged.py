"""Formats of `--from` that plugins add; they are asked after all of ours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from ..model.format import Format, FormatError
from ..model.part import PartialNode
from ..plugins import PLUGINS, Plugin, PluginGroup, PluginRefused
from .formats import NAMES

PARSE_SECONDS = 20.0
"""How long the format of a plugin may take for a file."""


def formats() -> tuple[Format, ...]:
    """Every format, in the order of precedence."""
    return (*_own(), *PLUGINS.of(PluginGroup.FORMATS, _accept))


@cache
def _own() -> tuple[Format, ...]:
    return tuple(import_module(f"{__package__}.formats.{name}").FORMAT for name in NAMES)


def _refuse_odd(thing: Format) -> None:
    """Raise PluginRefused for a format that cannot stand beside the others."""
    if not thing.id.strip() or not thing.id.isprintable():
        raise PluginRefused("a format needs a name")
    if thing.starts is not None or thing.finds is not None:
        raise PluginRefused("a format of a plugin fills a file: leave out `starts` and `finds`")
    if any(thing.id == own.id for own in _own()):
        raise PluginRefused(f"there is a format {thing.id} already, which stays")


def _accept(plugin: Plugin, thing: Any) -> Iterator[Format]:
    if not isinstance(thing, Format):
        raise PluginRefused(f"a {type(thing).__name__} is no format")
    _refuse_odd(thing)

    def recognises(head: bytes, path: Path) -> bool:
        if PLUGINS.refused(plugin):
            return False
        try:
            return bool(PLUGINS.asked(lambda: thing.recognises(head, path)))
        except Exception as error:  # noqa: BLE001 - a border: a plugin is foreign code
            PLUGINS.refuse(plugin, error)
            return False

    def parse(data: bytes, path: Path) -> PartialNode:
        try:
            part = PLUGINS.asked(lambda: thing.parse(data, path), PARSE_SECONDS)
            if not isinstance(part, PartialNode):
                raise PluginRefused(f"it gave a {type(part).__name__}, no part of a node")
        except FormatError:
            raise
        except Exception as error:
            raise FormatError(PLUGINS.refuse(plugin, error)) from error
        return part

    yield msgspec.structs.replace(thing, recognises=recognises, parse=parse)
