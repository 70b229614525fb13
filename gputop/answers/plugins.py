"""The plugins that are installed, and why some of them cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import msgspec

from gputop.answers.plugged import plugged as questions
from gputop.measuring.plugged import plugged as probes
from gputop.topology.diagnosis.engine import load as rules
from gputop.topology.hardware.specs import skus
from gputop.topology.plugins import PLUGINS, PluginGroup
from gputop.topology.recorded.plugged import formats
from gputop.topology.sources.plugged import plugged as sources


def _themes() -> object:
    # Only where there is one: it takes Textual.
    ask: Callable[[], object] = import_module("gputop.theming").plugged
    return ask()


ASKED: dict[PluginGroup, Callable[[], object]] = {
    PluginGroup.RULES: rules,
    PluginGroup.FORMATS: formats,
    PluginGroup.SOURCES: sources,
    PluginGroup.PROBES: probes,
    PluginGroup.ANSWERS: questions,
    PluginGroup.SCREENS: lambda: PLUGINS.try_out(PluginGroup.SCREENS),  # the app's own to judge
    PluginGroup.THEMES: _themes,
    PluginGroup.FIGURES: skus,
}
"""What adds the plugins of each group to ours."""


class FoundPlugin(msgspec.Struct, frozen=True):
    """One entry point of an installed distribution."""

    group: PluginGroup
    name: str
    distribution: str
    version: str
    trouble: str = ""
    """Why it is not used, wholly or in part; "" where it is."""


def plugins() -> tuple[FoundPlugin, ...]:
    """All plugins, after each registry has asked for its own."""
    for group in dict.fromkeys(plugin.group for plugin, _ in PLUGINS.listed()):
        ASKED[group]()
    return tuple(FoundPlugin(*plugin, trouble=why) for plugin, why in PLUGINS.listed())


def line(found: tuple[FoundPlugin, ...]) -> str:
    """One line: each distribution with what it adds, then what cannot be used."""
    adds: dict[str, list[str]] = {}
    for one in found:
        adds.setdefault(f"{one.distribution} {one.version}", []).append(f"{one.group} {one.name}")
    told = [f"{who}: {', '.join(what)}" for who, what in adds.items()]
    told += [f"not used: {one.group} {one.name}: {one.trouble}" for one in found if one.trouble]
    return f"plugins: {'; '.join(told)}" if told else "no plugins"
