"""Every rule: what it looks for, what proves and what disproves it, and an example."""

from __future__ import annotations

import msgspec

from gputop.answers.question import Answer, Question, Request
from gputop.checking.runs import all_rules
from gputop.terminal.size import text_width
from gputop.topology.diagnosis.examples import RuleExample, examples
from gputop.topology.diagnosis.plugged import origin_of
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.hardware.terms import terms_for
from gputop.topology.model.page import Block, Column, Page, Table, Text
from gputop.topology.model.severity import Severity
from gputop.topology.model.units import size

WIDEST = 120


class RulesRequest(Request, frozen=True, kw_only=True):
    """List what is checked: id, how harmful it can be, and what is looked for.

    `gputop rule ID` says more of one.
    """


class ListedRule(msgspec.Struct, frozen=True, kw_only=True, rename={"family": "peers"}):
    """One rule: what it looks for, what it needs, and the limits that a site may set."""

    id: str
    family: str
    title: str
    evidence: str
    disproof: str
    thresholds: dict[str, float]
    sources: tuple[str, ...]


class RuleEntry(ListedRule, frozen=True, kw_only=True):
    """The same, with how harmful it can be and an example."""

    severities: tuple[Severity, ...]
    """The worst first; () where a plugin does not say it."""
    vendor: str
    """"" for a rule about any vendor."""
    implied_by: tuple[str, ...]
    """Rules that explain it: then it is not told."""
    example: RuleExample | None
    plugin: str
    """The distribution that adds it; "" for a rule of gputop."""


class CheckRulesAnswer(Answer, frozen=True, kw_only=True, tag="gputop.check-rules/1"):
    """What `gputop check --list` prints: all rules, in the order of the registry."""

    rules: tuple[ListedRule, ...]


class RulesAnswer(Answer, frozen=True, kw_only=True, tag="gputop.rules/1"):
    """All rules, in the order of the registry."""

    rules: tuple[RuleEntry, ...]


def entries() -> tuple[RuleEntry, ...]:
    """Every rule in words for any vendor."""
    return tuple(map(entry_of, all_rules()))


def entry_of(rule: Rule) -> RuleEntry:
    """A rule in words for any vendor."""
    words, example = terms_for(None), examples().get(rule.id)
    said = tuple(sorted(rule.severities, key=lambda severity: severity.order))
    return RuleEntry(
        id=rule.id,
        family=rule.family,
        title=words.fill(rule.title),
        evidence=words.fill(rule.evidence),
        disproof=rule.disproof_for((), words),
        thresholds=dict(rule.thresholds),
        sources=rule.sources,
        severities=said if example is None else example.severities,
        vendor=rule.vendor,
        implied_by=rule.implied_by,
        example=example,
        plugin=origin_of(rule),
    )


def answer(asked: RulesRequest) -> RulesAnswer:
    """All rules."""
    return RulesAnswer(source=(), rules=entries())


def page(found: RulesAnswer) -> Page:
    """A row for each rule, in the colour of the worst that it says."""
    rows = tuple((rule.id, harm_of(rule), rule.title) for rule in found.rules)
    marks = tuple(rule.severities[0] if rule.severities else None for rule in found.rules)
    heads = (Column("rule", least=20), Column("at worst"), Column("what is looked for"))
    return Page(title="rules", blocks=(Table(heads, rows, marks, indent=0),))


def harm_of(rule: RuleEntry) -> str:
    """The word for the worst that a rule says."""
    return rule.severities[0].word if rule.severities else "not said"


def listed(asked: RulesRequest) -> CheckRulesAnswer:
    """What each rule is about and needs."""
    names = ListedRule.__struct_fields__
    rules = ({name: getattr(rule, name) for name in names} for rule in entries())
    return CheckRulesAnswer(source=(), rules=tuple(ListedRule(**fields) for fields in rules))


def listing(found: CheckRulesAnswer) -> Page:
    """The id of each rule, and below it what it looks for and needs."""
    blocks: list[Block] = []
    for rule in found.rules:
        limits = "; ".join(limits_of(rule))
        blocks.append(Text(rule.id))
        texts = (rule.title, f"needs {rule.evidence}", limits and f"limits: {limits}")
        blocks += [Text(text, indent=4) for text in texts if text]
    return Page(title="rules", blocks=tuple(blocks))


def limits_of(rule: ListedRule) -> tuple[str, ...]:
    """Its limits as the policy file sets them; of bytes in a unit too."""
    return tuple(
        f"{name} = {value:.0f} ({size(value)})"
        if name.endswith("_bytes")
        else f"{name} = {value:g}"
        for name, value in rule.thresholds.items()
    )


QUESTION = Question(
    name="rules",
    request=RulesRequest,
    answer=answer,
    page=page,
    width=lambda: text_width(WIDEST),
)
RULES = Question(
    name="rules",
    request=RulesRequest,
    answer=listed,
    page=listing,
    width=lambda: text_width(WIDEST),
)
"""`gputop check --list`."""
