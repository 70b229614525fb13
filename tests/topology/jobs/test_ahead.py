"""Ranks that ran ahead of their GPUs, and ranks that called different collectives."""

from __future__ import annotations

from gputop.topology.model.severity import JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from tests.topology.jobs.ras.service import document, rank
from tests.topology.jobs.test_standing import PIDS, activities, asked, counts, snapshot, told

__all__ = ["snapshot"]


def test_ranks_that_ran_ahead_of_their_gpus_by_less_are_not_behind(snapshot: NodeSnapshot) -> None:
    """All but one wait in 7: what they launched after it says nothing."""
    job = told(snapshot, activities(), asked(counts(10, 12, 6, 12, 9, 12)))
    assert "5 wait in all-reduce 7, rank 2 (pid 41002, GPU2) has not launched it" in job.sentence
    assert [rank.rank for rank in job.ranks if rank.trouble] == [2]
    assert "5 launched all-reduce 9 to 12; 6 by rank 2" in str(job.findings)


def answered(*broadcasts: int) -> bytes:
    """Each rank launched 13 collectives in all, so many broadcasts among them."""
    ranks = [rank(n, PIDS[n], 13 - count) for n, count in enumerate(broadcasts)]
    for each, count in zip(ranks, broadcasts, strict=True):
        each["collective_counts"]["Broadcast"] = count
    return document(ranks)


def test_ranks_that_go_on_are_read_while_their_counts_grow(snapshot: NodeSnapshot) -> None:
    moving = asked(answered(3, 3, 3, 3, 3, 3), answered(3, 3, 4, 3, 3, 3))
    job = told(snapshot, activities(), moving)
    assert "different" not in job.sentence
    assert not any(each.trouble for each in job.ranks)


def test_ranks_that_called_different_collectives_are_told_apart_and_none_is_behind(
    snapshot: NodeSnapshot,
) -> None:
    job = told(snapshot, activities(), asked(answered(3, 3, 4, 3, 3, 3)))
    assert job.verdict == JobVerdict.HANGS
    assert job.sentence == (
        "train.py: 6 ranks, ranks launched collectives in another order, and each waits for one "
        "that the other did not: broadcast 4 by rank 2 and all-reduce 10 by rank 0"
    )
    assert not any(each.trouble for each in job.ranks)
