"""Every rule of `gputop check`, with what it looks for and what it needs."""

from __future__ import annotations

import msgspec

from gputop.answers.question import Answer, Question, Request
from gputop.checking.runs import all_rules
from gputop.terminal.size import text_width
from gputop.topology.hardware.terms import terms_for
from gputop.topology.model.page import Block, Page, Text
from gputop.topology.model.units import size


class RulesRequest(Request, frozen=True, kw_only=True):
    """List the rules of `gputop check`."""


class ListedRule(msgspec.Struct, frozen=True, kw_only=True, rename={"family": "peers"}):
    """One rule: what it looks for, what it needs, and the limits that a site may set."""

    id: str
    family: str
    title: str
    evidence: str
    disproof: str
    thresholds: dict[str, float]
    sources: tuple[str, ...]


class RulesAnswer(Answer, frozen=True, kw_only=True, tag="gputop.check-rules/1"):
    """All rules, in the order of the registry."""

    rules: tuple[ListedRule, ...]


def answer(asked: RulesRequest) -> RulesAnswer:
    """Say of each rule what it is about, in words for any vendor."""
    words = terms_for(None)
    return RulesAnswer(
        source=(),
        rules=tuple(
            ListedRule(
                id=rule.id,
                family=rule.family,
                title=words.fill(rule.title),
                evidence=words.fill(rule.evidence),
                disproof=rule.disproof_for((), words),
                thresholds=dict(rule.thresholds),
                sources=rule.sources,
            )
            for rule in all_rules()
        ),
    )


def page(found: RulesAnswer) -> Page:
    """The id of each rule, and below it what it looks for and needs."""
    blocks: list[Block] = []
    for rule in found.rules:
        limits = "; ".join(_limit(*limit) for limit in rule.thresholds.items())
        blocks.append(Text(rule.id))
        texts = (rule.title, f"needs {rule.evidence}", limits and f"limits: {limits}")
        blocks += [Text(text, indent=4) for text in texts if text]
    return Page(title="rules", blocks=tuple(blocks))


def _limit(name: str, value: float) -> str:
    """A limit as the policy file sets it; of bytes in a unit too."""
    if name.endswith("_bytes"):
        return f"{name} = {value:.0f} ({size(value)})"
    return f"{name} = {value:g}"


RULES = Question(
    name="rules",
    request=RulesRequest,
    answer=answer,
    page=page,
    width=lambda: text_width(120),
)
