"""Styles parsed once for all apps under test: each of them would parse the same text again."""

from __future__ import annotations

from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

parse_again = Stylesheet._parse_rules
_parsed: dict[tuple[Any, ...], list[RuleSet]] = {}


def parse_once(self: Stylesheet, css: str, *rest: Any, **named: Any) -> list[RuleSet]:
    """Rules of this text with these variables."""
    key = (css, rest, *named.items(), frozenset(self._variables.items()))
    rules = _parsed.get(key)
    if rules is None:
        rules = _parsed[key] = parse_again(self, css, *rest, **named)
    return rules
