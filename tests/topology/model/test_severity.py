"""Signs, order and words of severities and verdicts."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest

from gputop.topology.model.severity import (
    FigureVerdict,
    FlagStatus,
    JobVerdict,
    Mark,
    NodeState,
    RungState,
    Severity,
    Verdict,
)
from gputop.topology.model.snapshot import Problem, ProblemKind


@pytest.mark.parametrize("kind", [Severity, Verdict, NodeState, JobVerdict, RungState])
def test_no_two_words_look_alike(kind: type[Mark]) -> None:
    assert len({(mark.sign, mark.word) for mark in kind}) == len(kind)
    assert all(len(mark.sign) == 1 for mark in kind)


@pytest.mark.parametrize("kind", [Severity, FigureVerdict, FlagStatus])
def test_a_member_is_its_value_wherever_it_is_written(kind: type[Mark]) -> None:
    for mark in kind:
        assert f"{mark}" == str(mark) == mark.value == mark
        assert msgspec.json.decode(msgspec.json.encode(mark), type=kind) is mark


def test_the_worst_finding_gives_the_verdict() -> None:
    assert Verdict.of([]) is Verdict.HEALTHY
    assert Verdict.of([Severity.NOTICE, Severity.BY_DESIGN]) is Verdict.HEALTHY
    assert Verdict.of([Severity.NOTICE, Severity.CANNOT_TELL]) is Verdict.CANNOT_TELL
    assert Verdict.of([Severity.CANNOT_TELL, Severity.SLOW]) is Verdict.SLOW
    assert Verdict.of(Severity) is Verdict.BROKEN
    assert [verdict.exit_code for verdict in Verdict] == [2, 1, 3, 0]


def test_a_word_of_a_newer_version_is_read_and_written_as_it_stands() -> None:
    written = b'{"source":"nvml","text":"lost","kind":"asleep"}'
    problem = msgspec.json.decode(written, type=Problem)
    assert isinstance(problem.kind, ProblemKind)
    assert problem.kind.value == "asleep"
    assert problem.kind is not ProblemKind.LOST
    assert msgspec.json.decode(msgspec.json.encode(problem))["kind"] == "asleep"
    assert copy.deepcopy(problem) == pickle.loads(pickle.dumps(problem)) == problem
    assert msgspec.json.decode(b'"lost"', type=ProblemKind) is ProblemKind.LOST
    with pytest.raises(ValueError, match="7"):
        ProblemKind(7)
