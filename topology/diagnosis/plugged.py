"""Rules that plugins add: checked, and asked before a deadline, so that none stops a check."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..hardware.terms import terms_for
from ..model.finding import Finding
from ..model.severity import Severity
from ..plugins import PLUGINS, Plugin, PluginGroup, PluginRefused
from .rule import Found, NotRead, Rule, RuleEnds

if TYPE_CHECKING:
    from .case import Case

MOST = 1000
"""Rules of one entry point, and findings of one rule."""
T = TypeVar("T")
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def plugged(own: Collection[str]) -> tuple[Rule, ...]:
    """The rules of plugins, without those whose id is one of ours."""
    taken = set(own)

    def accept(plugin: Plugin, thing: Any) -> Iterator[Rule]:
        for rule in (thing,) if isinstance(thing, Rule) else PLUGINS.asked(lambda: _several(thing)):
            if not isinstance(rule, Rule):
                raise PluginRefused(f"a {type(rule).__name__} is no rule")
            _check(rule)
            if rule.id in taken:
                PLUGINS.refuse(plugin, f"there is a rule {rule.id} already, which stays")
                continue
            taken.add(rule.id)
            yield msgspec.structs.replace(rule, check=_Guarded(plugin, rule))

    return PLUGINS.of(PluginGroup.RULES, accept)


def _several(things: Iterable[T]) -> tuple[T, ...]:
    """All of them; an endless row would take the memory of the machine."""
    found = tuple(islice(things, MOST + 1))
    if len(found) > MOST:
        raise PluginRefused(f"more than {MOST} at once")
    return found


def origin_of(rule: Rule) -> str:
    """The distribution that adds a rule, with its version; "" for one of ours."""
    if not isinstance(rule.check, _Guarded):
        return ""
    plugin = rule.check.plugin
    return f"{plugin.distribution} {plugin.version}"


def _check(rule: Rule) -> None:
    """Refuse what the pages about rules could not show."""
    if not KEBAB.fullmatch(rule.id):
        raise PluginRefused(f"{rule.id[:40]!r} is no id of a rule: words of a-z and 0-9, with -")
    if not all((rule.title, rule.evidence, rule.sources)):
        raise PluginRefused(f"the rule {rule.id} lacks a title, evidence or sources")
    if not all(isinstance(one, Severity) for one in rule.severities):
        raise PluginRefused(f"the severities of the rule {rule.id} are none")
    words = terms_for(None)
    words.fill(rule.title)
    words.fill(rule.evidence)
    if not rule.disproof_for((), words):
        raise PluginRefused(f"the rule {rule.id} does not say what would disprove it")


class _Guarded:
    """Asks the rule of a plugin; what goes wrong is said once, and then it is not asked again."""

    def __init__(self, plugin: Plugin, rule: Rule) -> None:
        self.plugin, self._rule = plugin, rule
        self._failed = ""

    def __call__(self, case: Case) -> Found:
        if self._failed:
            raise NotRead(self._rule.id, self._failed)
        try:
            return PLUGINS.asked(lambda: self._asked(case))
        except RuleEnds:
            raise
        except Exception as error:  # noqa: BLE001 - a border: a plugin is foreign code
            self._failed = PLUGINS.refuse(self.plugin, error)
            raise NotRead(self._rule.id, self._failed) from None

    def _asked(self, case: Case) -> Found:
        found = self._rule.check(case)
        if found is None:
            return None
        several: tuple[Finding, ...] = (found,) if isinstance(found, Finding) else _several(found)
        for finding in several:
            if not isinstance(finding, Finding) or finding.id != self._rule.id:
                raise PluginRefused(f"the rule {self._rule.id} gave something else than findings")
        return several
