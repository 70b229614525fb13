"""Questions that plugins add: each is a command of its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from gputop.answers import QUESTIONS
from gputop.answers.question import AnyQuestion, Question
from gputop.topology.plugins import PLUGINS, Plugin, PluginGroup, PluginRefused

NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
RESERVED = (
    "topo", "snapshot", "fleet", "completion", "help", "man", "diff", "record", "replay", "metrics",
    "events", "watch", "cost", "which", "schema", "mcp",
)  # fmt: skip
"""Commands that are no questions, or will be there."""


def plugged() -> tuple[AnyQuestion, ...]:
    """The questions of plugins."""
    return PLUGINS.of(PluginGroup.ANSWERS, _accept)


def summary_of(question: AnyQuestion) -> str:
    """Its line in `gputop --help`."""
    return (inspect.getdoc(question.request) or "A question of a plugin.").splitlines()[0]


def _accept(plugin: Plugin, thing: Any) -> Iterator[AnyQuestion]:
    if not isinstance(thing, Question):
        raise PluginRefused(f"a {type(thing).__name__} is no question")
    if not NAME.fullmatch(thing.name):
        raise PluginRefused(f"{thing.name[:40]!r} is no name of a command")
    if thing.name in (*QUESTIONS, *RESERVED):
        raise PluginRefused(f"there is a command {thing.name} already, which stays")
    yield thing
