"""Sources that plugins add; a value of ours comes before theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ..model.part import PartialNode, Raw
from ..model.source import Source
from ..plugins import PLUGINS, Plugin, PluginGroup, PluginRefused, foreign
from . import NAMES


def plugged() -> tuple[Source, ...]:
    """The sources of plugins."""
    return PLUGINS.of(PluginGroup.SOURCES, _accept)


class _Guarded:
    """A reader of a plugin, with the attributes that hints are given to."""

    def __init__(self, read: Callable[[], Raw]) -> None:
        self.__dict__["_read"] = read

    def __call__(self) -> Raw:
        with foreign():
            return self.__dict__["_read"]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_read"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.__dict__["_read"], name, value)


def _accept(plugin: Plugin, thing: Any) -> Iterator[Source]:
    if not isinstance(thing, Source):
        raise PluginRefused(f"a {type(thing).__name__} is no source")
    if not thing.id.isprintable() or not thing.id.strip() or thing.id in NAMES:
        raise PluginRefused(f"{thing.id[:40]!r} is no name for a source, or one of ours")

    def reader() -> Callable[[], Raw]:
        with foreign():
            return _Guarded(thing.reader())

    def parse(raw: Raw) -> PartialNode:
        with foreign():
            part = thing.parse(raw)
        if not isinstance(part, PartialNode):
            raise PluginRefused(f"it gave a {type(part).__name__}, no part of a node")
        return part

    # What the first picture needs is asked by ours alone.
    yield msgspec.structs.replace(thing, reader=reader, parse=parse, opening=False)
