"""Parts of an explanation, as the tests of reasons ask for them."""

from __future__ import annotations

from gputop.topology.model.page import Page


def answer(why: Page, question: str) -> str:
    return next(fact.answer for fact in why.facts if question in fact.question)


def because(why: Page, question: str) -> str:
    return next(fact.because for fact in why.facts if question in fact.question)


def asked(why: Page) -> set[str]:
    return {fact.question for fact in why.facts}
