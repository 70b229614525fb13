"""Probes that plugins add; each runs where it is named, and in no suite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gputop.probes import catalog
from gputop.probes.protocol.spec import ProbeSpec
from gputop.topology.plugins import PLUGINS, Plugin, PluginGroup, PluginRefused


def plugged() -> tuple[str, ...]:
    """The names of the probes of plugins."""
    return PLUGINS.of(PluginGroup.PROBES, _accept)


def known() -> tuple[str, ...]:
    """The names of all probes that can be named."""
    return (*catalog.NAMES, *plugged())


def _accept(plugin: Plugin, path: Any) -> Iterator[str]:
    name = plugin.name
    if name in (*catalog.NAMES, *catalog.BETWEEN_NODES):
        raise PluginRefused(f"there is a probe {name} already, which stays")
    catalog.add(name, str(path))
    module = PLUGINS.asked(lambda: catalog.load(name))
    spec = getattr(module, "SPEC", None)
    if not isinstance(spec, ProbeSpec) or not callable(getattr(module, "run", None)):
        raise PluginRefused("a probe is a module with SPEC and run")
    if spec.name != name:
        raise PluginRefused(f"its SPEC is called {spec.name[:40]!r}")
    yield name
