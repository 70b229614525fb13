"""One rule: what it does, why that is bad, proof, disproof, an example, and its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

from gputop.answers.question import Answer, Option, Question, Request
from gputop.answers.rules import WIDEST, RuleEntry, entry_of, harm_of, limits_of
from gputop.checking.runs import all_rules
from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.nearest import instead
from gputop.terminal.size import text_width
from gputop.topology.diagnosis.symptoms.explain import table
from gputop.topology.model.page import Block, Bullets, Facts, Heading, Page, Role, Text


class RuleRequest(Request, frozen=True, kw_only=True):
    """Say what a rule looks for, why that is bad, what proves and what disproves it.

    ID is what stands in brackets behind a finding of `gputop check`; `gputop rules` lists all.
    """

    id: Annotated[str, Option("ID", "", completes="rules")]


class RuleAnswer(Answer, frozen=True, kw_only=True, tag="gputop.rule/1"):
    """What is known of one rule."""

    rule: RuleEntry


def answer(asked: RuleRequest) -> RuleAnswer:
    """Find the rule. Raises Exit, with what is like it."""
    known = {rule.id: rule for rule in all_rules()}
    wanted = asked.id.strip().lower().replace("_", "-")
    if wanted not in known:
        for row in table():
            if row.id == wanted:
                said = f"{row.title}. {row.cause.strip()} (docs/symptoms.md)"
                raise Exit(f"{wanted} is no rule: it is a symptom in a log. {said}", USAGE)
        hint = instead(wanted, known, "gputop rules")
        raise Exit(f"no rule {clean(asked.id, 60)!r}{hint}", USAGE)
    return RuleAnswer(source=(), rule=entry_of(known[wanted]))


def page(found: RuleAnswer) -> Page:
    """One part for each thing that is to be said."""
    rule = found.rule
    return Page(
        title=rule.id, blocks=(Text(f"{rule.id}: {rule.title}", role=Role.STRONG), *_parts(rule))
    )


def _harms(rule: RuleEntry) -> list[str]:
    others = " or ".join(severity.word for severity in rule.severities[1:])
    return [harm_of(rule) + (f", or {others}" if others else "")]


PARTS: tuple[tuple[str, Callable[[RuleEntry], Iterable[str]]], ...] = (
    ("How bad", _harms),
    ("Added by", lambda rule: [rule.plugin]),
    ("Only GPUs of", lambda rule: [rule.vendor]),
    ("Why it is bad", lambda rule: [rule.example.consequence] if rule.example else []),
    ("What proves it", lambda rule: [rule.evidence]),
    ("What would disprove it", lambda rule: [rule.disproof]),
    ("Not told where one of these explains it", lambda rule: [", ".join(rule.implied_by)]),
    ("A site may set", limits_of),
)
"""What is said of a rule: a label, and its texts; an empty one is left out."""


def _parts(rule: RuleEntry) -> Iterator[Block]:
    for label, texts in PARTS:
        yield from (Text(text, label=label) for text in texts(rule) if text)
    if rule.example is not None:
        yield Heading(f"For example: {rule.example.machine}", mark=rule.example.severity)
        yield Text(rule.example.title)
        yield Facts(rule.example.evidence, indent=2)
    yield Heading("Sources")
    yield Bullets(rule.sources)


QUESTION = Question(
    name="rule",
    request=RuleRequest,
    answer=answer,
    page=page,
    width=lambda: text_width(WIDEST),
)
