"""Parts of an explanation, as the tests of reasons ask for them."""

from __future__ import annotations

from gputop.topology.explain.why import Explanation


def answer(why: Explanation, question: str) -> str:
    return next(fact.answer for fact in why.facts if question in fact.question)


def because(why: Explanation, question: str) -> str:
    return next(fact.because for fact in why.facts if question in fact.question)


def asked(why: Explanation) -> set[str]:
    return {fact.question for fact in why.facts}
