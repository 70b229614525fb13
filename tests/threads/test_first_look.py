"""The cases of captures/first-look keep their score, and nothing misleads."""

from __future__ import annotations

import re

import pytest

from tests.threads.first_look import CASES, INNOCENT, first_look_expected, first_look_scores

WANTED = 0.85


@pytest.mark.parametrize("name", first_look_expected())
def test_what_is_expected_of_a_case_can_be_sought(name: str) -> None:
    expected = first_look_expected()[name]
    for pattern in (*expected.cause_words, *expected.cure_words, *expected.also_words):
        re.compile(pattern)
    assert bool(expected.cause_words) == bool(expected.cure_words) == expected.sick


@pytest.mark.captures
@pytest.mark.skipif(not CASES.is_dir(), reason="the captures are not here")
def test_the_cases_keep_their_score() -> None:
    scores = first_look_scores()
    cases = {name: one for name, one in scores.items() if not name.startswith(INNOCENT)}
    assert sum(one.points for one in cases.values()) >= WANTED * 2 * len(cases)
    assert {name: one for name, one in scores.items() if one.points < 0} == {}
    assert all(scores[name].points == 2 for name in scores if name not in cases)
