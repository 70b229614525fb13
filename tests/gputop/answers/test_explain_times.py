"""`gputop explain --collectives`: its table, its document, and other communicators beside it."""

from __future__ import annotations

import json

from gputop.exits import USAGE
from gputop.topology.expectation.calls.kinds import CollectiveKind
from tests.support.command import gputop


def _times(*more: str) -> dict[tuple[str, int], dict[str, object]]:
    run = gputop("explain", "--demo", "hgx-h100-8", "--collectives", "--json", *more)
    assert run.returncode == 0
    return {(row["collective"], row["bytes"]): row for row in json.loads(run.stdout)["collectives"]}


def test_every_collective_stands_in_the_table() -> None:
    run = gputop("explain", "--demo", "hgx-h100-8", "--collectives")
    assert run.returncode == 0
    _, _, table = run.stdout.partition("Times of collectives over 8 GPUs")
    assert all(f"\n  {collective} " in table for collective in CollectiveKind)
    assert "share of the links' rate" in table


def test_the_document_has_them_only_where_somebody_asked() -> None:
    plain = gputop("explain", "--demo", "hgx-h100-8", "--json")
    assert "collectives" not in json.loads(plain.stdout)
    found = _times()
    assert len(found) == 6 * len(CollectiveKind)
    assert {row["source"] for row in found.values()} - {""}


def test_another_communicator_over_the_same_pair_halves_it() -> None:
    alone = _times("--gpus", "0,1")
    beside = _times("--gpus", "0,1", "--at-once", "0,1")
    apart = _times("--gpus", "0,1", "--at-once", "2,3", "--at-once", "4,5")
    large = ("all-reduce", 1 << 30)
    assert 1.7 < float(str(beside[large]["us"])) / float(str(alone[large]["us"])) < 2.05
    assert beside[large]["shared"] == "the links of GPU0"
    assert apart[large]["us"] == alone[large]["us"]
    assert apart[large]["communicators"] == 3


def test_other_communicators_without_times_are_refused() -> None:
    run = gputop("explain", "--demo", "hgx-h100-8", "--at-once", "0,1")
    assert run.returncode == USAGE
    assert "--at-once needs --collectives" in run.stderr
