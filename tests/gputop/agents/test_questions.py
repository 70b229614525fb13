"""Public questions whose answer is known: the tools say all of them rightly."""

from __future__ import annotations

import pytest

from gputop.topology.toml import tomllib
from tests.harness.questions.__main__ import TABLE, score

QUESTIONS = tomllib.loads(TABLE.read_text("utf-8"))["question"]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one["asked"][:40])
def test_a_public_question_is_answered_rightly(question: dict[str, object]) -> None:
    assert score(question) == 1
