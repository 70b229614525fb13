"""The scoring of rounds gives the points that README.md promises, on made-up answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.topology.toml import tomllib
from tests.threads.rounds import RoundThread, round_score
from tests.threads.scoring import HERE, threads

ROUNDS = sorted(HERE.glob("round-*/*/thread.toml"))
THREAD = RoundThread(
    source="nobody/nothing #1",
    title="A job is slow",
    cause="The cable is bad.",
    cure="Replace it.",
    sure="confirmed",
    command="log",
    sick=True,
    cause_words=("(?i)bad cable",),
    cure_words=("(?i)replace",),
    also_words=("retries",),
)
INNOCENT = msgspec.structs.replace(THREAD, sick=False)


def finding(title: str, severity: str = "error", **rest: Any) -> dict[str, Any]:
    return {"severity": severity, "title": title, "cause": "", "sureness": "likely", **rest}


def answered(*findings: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"findings": list(findings), **rest}


FIX: dict[str, Any] = {"fix": [{"text": "replace it", "command": ""}]}
OTHER = finding("memory is full")
POSSIBLE = finding("no reply", sureness="possible")
CANDIDATE = {"cause": "a bad cable", "needs": "", "fix": FIX["fix"]}


@pytest.mark.parametrize(
    ("said", "points", "why"),
    [
        (answered(finding("a bad cable", **FIX)), 2, "cause and cure"),
        (answered(finding("a bad cable"), next="replace one part"), 2, "cause and cure"),
        (answered(finding("no reply", cause="A bad cable?", sureness="possible", **FIX)), 2, None),
        (answered({**POSSIBLE, "candidates": [CANDIDATE]}), 2, "cause and cure"),
        (answered(finding("a bad cable")), 1, "cause"),
        (answered(finding("many retries", look=["replace the NIC"])), 1, "cure"),
        (answered(finding("many retries")), 0, "missed"),
        (answered(), 0, "missed"),
        (None, 0, "refused"),
        (answered(OTHER, finding("a bad cable", **FIX)), -1, "misleads"),
        (answered(finding("it is slow", "slow")), -1, "misleads"),
        (answered(POSSIBLE, finding("a bad cable", **FIX)), 2, None),
        (answered(*4 * [finding("many retries")], finding("a bad cable", **FIX)), 0, "missed"),
        (answered(finding("bad cable", "cannot-tell", **FIX)), 0, "missed"),
        (answered(verdict="healthy"), -1, "all-clear"),
        (answered(verdict="cannot tell"), 0, "missed"),
    ],
)
def test_an_answer_about_a_sick_text(
    said: dict[str, Any] | None, points: int, why: str | None
) -> None:
    result = round_score(THREAD, said)
    assert result.points == points
    assert why in (None, result.why)


@pytest.mark.parametrize(
    ("said", "points"),
    [
        (answered(), 2),
        (answered(POSSIBLE, finding("worth knowing", "notice"), verdict="healthy"), 2),
        (answered(finding("a bad cable")), -1),
        (answered(finding("it is slow", "slow", sureness="")), -1),
        (None, 0),
    ],
)
def test_an_answer_about_an_innocent_text(said: dict[str, Any] | None, points: int) -> None:
    assert round_score(INNOCENT, said).points == points


@pytest.mark.parametrize("path", ROUNDS, ids=lambda path: path.parent.name)
def test_a_thread_of_a_round_has_its_parts(path: Path) -> None:
    thread = msgspec.convert(tomllib.loads(path.read_text()), RoundThread)
    assert (path.parent / "material.txt").read_text().strip()
    for pattern in (*thread.cause_words, *thread.cure_words, *thread.also_words):
        re.compile(pattern)
    if thread.sick:
        assert thread.cause_words
        assert thread.cure_words


def test_no_round_is_part_of_the_benchmark_and_no_thread_is_in_two() -> None:
    assert not any(name.startswith("round-") for name in threads())
    of_rounds = [tomllib.loads(path.read_text())["source"] for path in ROUNDS]
    sources = [*of_rounds, *(thread.source for thread in threads().values())]
    assert len(sources) == len(set(sources))
