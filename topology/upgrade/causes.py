"""Which rule makes a difference between two versions, found by taking single rules back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ..model.versions import numbers
from ..nccl.behaviour import Behaviour, rules_between
from ..nccl.changes import RuleChange
from .units import TUNED, Key, Unit

Units = Mapping[Key, Unit]
Aspect = Literal["decides", "fields"]
Question = tuple[Key, Aspect]
TOGETHER = "several rules of this version, none of them alone"


BY_NUMBER = "how it tunes, which is not told rule by rule"
NOT_SOUGHT = "a rule of this version, which was not sought"


class Cause(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One rule without which a difference would not be there."""

    since: str
    """The version from which on this node shows it, as gputop's tables have it: "nccl-2.26.2"."""
    rule: str
    """What that version does since."""
    source: str = ""
    """Place in the library's source; "" where several rules work together."""
    introduced: str = ""
    """The version that brought the rule, "nccl-2.26.2": for RCCL, NCCL's, from which it has it."""
    fields: tuple[str, ...] = ()
    """What of gputop's tables of versions holds the rule: "graph.c2c_link"."""

    @property
    def age(self) -> tuple[tuple[int, ...], str]:
        """What sorts causes, the oldest first."""
        return numbers(self.since), self.rule


class Causes:
    """The versions from one to another, each predicted once it is asked for.

    `figures`: seek the rule behind figures of the library's own too, not their version alone.
    """

    def __init__(
        self,
        steps: Sequence[Behaviour],
        predict: Callable[[Behaviour], Units],
        *,
        figures: bool = True,
    ) -> None:
        self._steps, self._predict, self._figures = steps, predict, figures
        self._made: dict[int, Units] = {}
        self._tried: dict[tuple[int, int, int], Units] = {}

    def of(self, questions: Iterable[Question]) -> dict[Question, tuple[Cause, ...]]:
        """The rules behind each difference, the oldest first."""
        found: dict[Question, list[Cause]] = {}
        self._between(0, len(self._steps) - 1, list(questions), found)
        return {
            question: tuple(sorted(causes, key=lambda cause: cause.age))
            for question, causes in found.items()
        }

    def ends(self) -> tuple[Units, Units]:
        """All pieces under the first version and under the last."""
        return self._units(0), self._units(len(self._steps) - 1)

    def _units(self, place: int) -> Units:
        if place not in self._made:
            self._made[place] = self._predict(self._steps[place])
        return self._made[place]

    def _between(
        self, low: int, high: int, asked: list[Question], found: dict[Question, list[Cause]]
    ) -> None:
        """Halve the way until the versions are found that make the difference."""
        before, after = self._units(low), self._units(high)
        left = [question for question in asked if value(before, question) != value(after, question)]
        if not left or low == high:
            return
        if high - low > 1:
            middle = (low + high) // 2
            self._between(low, middle, left, found)
            self._between(middle, high, left, found)
            return
        for question in left:
            found.setdefault(question, []).extend(self._causes(low, question))

    def _causes(self, low: int, question: Question) -> list[Cause]:
        """The rules that the step from one version to the next owes a difference to."""
        older, newer = sorted((low, low + 1), key=lambda place: numbers(self._steps[place].number))
        since = self._steps[newer].name
        if question[1] == "fields" and not self._figures:
            return [Cause(since=since, rule=NOT_SOUGHT)]
        rules = list(rules_between(self._steps[older], self._steps[newer]).items())
        every = range(len(rules))
        # The rules without which the newer version does not do it; else those that do it alone.
        needed = [
            rule for rule in every if self._matters(question, newer, older, rule, rules[rule][1])
        ] or [rule for rule in every if self._matters(question, older, newer, rule, rules[rule][1])]
        if needed:
            return [_cause(since, *rules[rule]) for rule in needed]
        if question[0][0] in TUNED and self._steps[newer].tuning is None:
            return [Cause(since=since, rule=BY_NUMBER)]
        fields = tuple(field for _, names in rules for field in names)
        return [Cause(since=since, rule=TOGETHER, fields=fields)] if fields else []

    def _matters(
        self, question: Question, base: int, other: int, rule: int, fields: tuple[str, ...]
    ) -> bool:
        """Whether one version answers otherwise with a rule of the other."""
        key = base, other, rule
        if key not in self._tried:
            values = self._steps[other].fields()
            mixed = self._steps[base].changed({name: values[name] for name in fields})
            self._tried[key] = self._predict(mixed)
        return bool(value(self._tried[key], question) != value(self._units(base), question))


def value(units: Units, question: Question) -> Any:
    """What a piece says, all of it or its decision alone; None where there is no such piece."""
    key, aspect = question
    unit = units.get(key)
    return None if unit is None else getattr(unit, aspect)


def _cause(since: str, rule: RuleChange, fields: tuple[str, ...]) -> Cause:
    return Cause(
        since=since, rule=rule.text, source=rule.source, introduced=rule.version, fields=fields
    )
