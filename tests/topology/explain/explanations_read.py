"""Parts of an explanation, as the tests of reasons ask for them."""

from __future__ import annotations

from gputop.topology.model.page import Page


def answer(why: Page, question: str) -> str:
    return next(fact.value for fact in why.facts if question in fact.what)


def because(why: Page, question: str) -> str:
    return next(fact.because for fact in why.facts if question in fact.what)


def asked(why: Page) -> set[str]:
    return {fact.what for fact in why.facts}
