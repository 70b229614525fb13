"""Sources that plugins add; a value of ours comes before theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..model.part import PartialNode, Raw
from ..model.source import Source
from ..plugins import PLUGINS, Plugin, PluginGroup, PluginRefused
from . import NAMES


def plugged() -> tuple[Source, ...]:
    """The sources of plugins."""
    return PLUGINS.of(PluginGroup.SOURCES, _accept)


def _accept(plugin: Plugin, thing: Any) -> Iterator[Source]:
    if not isinstance(thing, Source):
        raise PluginRefused(f"a {type(thing).__name__} is no source")
    if not thing.id.isprintable() or not thing.id.strip() or thing.id in NAMES:
        raise PluginRefused(f"{thing.id[:40]!r} is no name for a source, or one of ours")

    def parse(raw: Raw) -> PartialNode:
        part = thing.parse(raw)
        if not isinstance(part, PartialNode):
            raise PluginRefused(f"it gave a {type(part).__name__}, no part of a node")
        return part

    # What the first picture needs is asked by ours alone.
    yield msgspec.structs.replace(thing, parse=parse, opening=False)
