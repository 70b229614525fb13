"""Logs of faults that were made on purpose on real GPUs name the cause that is known."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.toml import tomllib
from tests.support.places import RECORDINGS
from tests.support.whole import whole

UNHEARD = ("*",)
LOGS = RECORDINGS / "real-faults"
EXPECTED: dict[str, list[str]] = tomllib.loads(
    Path(__file__).with_name("real_faults.toml").read_text()
)


@cache
def read(name: str) -> ReadLog:
    with (LOGS / f"{name}.txt").open("rb") as log:
        return examine(read_log(log, name=name, signs=known_signs()), None)


def test_every_log_has_an_answer() -> None:
    assert {path.stem for path in LOGS.glob("*.txt")} == set(EXPECTED)


@pytest.mark.parametrize("name", [name for name, answer in EXPECTED.items() if answer])
def test_the_known_cause_stands_first_with_its_lines(name: str) -> None:
    row, words = EXPECTED[name]
    answer = read(name)
    first = answer.findings[0]
    assert first.id == row
    assert any(words in proof.value for proof in first.evidence)
    lines = (LOGS / f"{name}.txt").read_text().splitlines()
    for proof in first.evidence:
        assert proof.line is not None
        assert 1 <= proof.line <= len(lines)


@pytest.mark.parametrize("name", EXPECTED)
def test_all_that_is_said_of_a_log(name: str, snapshot: SnapshotAssertion) -> None:
    assert whole(read(name), without=("log", "overlay", "sources")) == snapshot


@pytest.mark.parametrize("name", [name for name, answer in EXPECTED.items() if not answer])
def test_a_run_that_went_well_gives_no_finding(name: str) -> None:
    answer = read(name)
    assert not answer.findings
    assert not answer.unexplained
