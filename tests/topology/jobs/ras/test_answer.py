"""Answers in JSON: states, errors, and documents that are none."""

import pytest

from gputop.topology.jobs.ras import text
from gputop.topology.jobs.ras.answer import MissingRank, RasError, parse
from tests.support.places import RECORDINGS
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


@pytest.mark.parametrize("seconds", [b"9" * 400, b"NaN", b"-1", b"Infinity", b'"1"'])
def test_a_time_that_no_clock_has_is_unknown(seconds: bytes) -> None:
    data = b'{"communicators": [], "ras": {"collection_time_sec": ' + seconds + b"}}"
    assert parse(data).seconds is None


@pytest.mark.parametrize("data", [b"", b"[]", b"[" * 100_000, b'{"communicators": {}}', b"\xff{"])
def test_what_is_no_answer(data: bytes) -> None:
    with pytest.raises(RasError):
        parse(data)


def test_a_healthy_job_as_nccl_2_28_9_answered() -> None:
    (one,) = parse((RECORDINGS / "ras/healthy.json").read_bytes()).communicators
    assert (one.size, one.state, one.missing) == (2, "RUNNING", ())
    assert [(each.rank, each.pid, dict(each.counts)["AllReduce"]) for each in one.ranks] == [
        (0, 453, 108),
        (1, 454, 108),
    ]


@pytest.mark.parametrize(
    ("name", "pids", "errors"),
    [
        ("stopped", (529, 530), ()),
        ("killed", (623, 624), ("remote process error while it ran",)),
    ],
)
def test_a_lost_rank_as_nccl_2_28_9_answered(
    name: str, pids: tuple[int, int], errors: tuple[str, ...]
) -> None:
    (one,) = parse((RECORDINGS / f"ras/{name}.json.txt").read_bytes()).communicators
    (left,) = one.ranks
    assert (left.pid, left.errors, dict(left.counts)["AllReduce"]) == (pids[0], errors, 24)
    place = {"host": "127.0.0.1", "cuda_device": 0, "nvml_device": 0}
    lost = MissingRank(rank=1, pid=pids[1], unresponsive=True, dead=False, **place)  # type: ignore[arg-type]
    assert one.missing == (lost,)


def test_a_lost_rank_in_the_text_of_nccl_2_28_9() -> None:
    (one,) = text.parse((RECORDINGS / "ras/killed.txt").read_bytes()).communicators
    assert (one.size, [lost.pid for lost in one.missing]) == (2, [624])
    assert "INCOMPLETE" in one.marks
