"""Scores what the tools for agents answer to questions that people asked in public."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from gputop.agents.tools import answer_text
from gputop.topology.model.errors import GputopError
from gputop.topology.toml import tomllib

TABLE = Path(__file__).parent / "questions.toml"


def said(question: dict[str, Any]) -> str:
    """What the tool says by itself: without what it quotes; "" where it refuses."""
    try:
        text = answer_text(question["tool"], question["arguments"])
    except GputopError:
        return ""
    document = json.loads(text)
    facts = [{**fact, "quoted": []} for fact in document["facts"]]
    return json.dumps(facts, ensure_ascii=False)


def score(question: dict[str, Any]) -> int:
    """1 for a right answer, 0 for none, -1 for a wrong one."""
    text = said(question)

    def has(pattern: str) -> bool:
        return re.search(pattern, text, re.IGNORECASE) is not None

    if any(map(has, question["false"])):
        return -1
    return int(bool(text) and all(map(has, question["truth"])))


def main() -> int:
    """Print a line for each question, and the sum."""
    questions = tomllib.loads(TABLE.read_text("utf-8"))["question"]
    scores = [score(question) for question in questions]
    for points, question in zip(scores, questions, strict=True):
        print(f"{points:2} {question['kind']:<9} {question['asked']}")
    print(f"{scores.count(1)} of {len(scores)} right, {scores.count(-1)} wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
