"""Answers in JSON: states, errors, and documents that are none."""

import pytest

from gputop.topology.jobs.ras.answer import RasError, parse
from tests.topology.jobs.ras.service import document, missing, rank


def test_states_and_errors_of_ranks() -> None:
    ranks = [rank(0, 11, 5, abort=True), rank(1, 12, 5, asynchronous=6)]
    (one,) = parse(document(ranks, [missing(2, 13, unresponsive=False)])).communicators
    assert [each.state for each in one.ranks] == ["ABORT", "RUNNING"]
    assert one.ranks[1].errors == ("remote process error while it ran",)
    assert (one.state, one.missing[0].unresponsive) == ("ABORT", False)


def test_fields_of_another_kind_are_left_out() -> None:
    (one,) = parse(
        b'{"communicators": [7, {"size": "x"}, {"size": 2, "ranks": [{"rank": -1}, {"rank": 0, '
        b'"pid": -1, "host": "unknown", "status": 3, "collective_counts": {"AllReduce": "x"}}]}]}'
    ).communicators
    (only,) = one.ranks
    assert (only.pid, only.host, only.state, only.counts) == (None, None, None, ())


@pytest.mark.parametrize("data", [b"", b"[]", b"[" * 100_000, b'{"communicators": {}}', b"\xff{"])
def test_what_is_no_answer(data: bytes) -> None:
    with pytest.raises(RasError):
        parse(data)
