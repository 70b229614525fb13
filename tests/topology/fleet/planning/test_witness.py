"""A dead node of which no file ever comes is accused, and no round is planned for ever."""

from __future__ import annotations

from gputop.topology.fleet.planning.folder import FolderRead, PlanHead, PlanPair, silent
from gputop.topology.fleet.planning.looks import FINISHED, NetLook
from gputop.topology.fleet.planning.plan import FOUND, MORE, FleetPlan, Wish, plan
from tests.harness.fleet_plans.__main__ import measured
from tests.harness.fleet_plans.cluster import cluster


def _settled(dead: str, runs: frozenset[int] = frozenset(range(20))) -> tuple[FleetPlan, int]:
    """The last plan and its number, where the steps of a dead node never start; rounds that are
    not in `runs` are lost as a whole."""
    made = cluster(16, 5)
    wish, read = Wish(made.hosts, made.fabric), FolderRead()
    files: list[NetLook] = []
    for number in range(1, 12):
        planned = plan(wish, read.looks, read.last_round)
        if planned.verdict != MORE:
            return planned, number
        pairs = tuple(PlanPair(one.first, one.second) for one in planned.pairs)
        read.plans.append(PlanHead(planned.number, pairs=pairs))
        if number in runs:
            files += [look for look in measured(made, planned) if dead not in look.hosts]
        read.looks = list(files)
        read.looks += silent(read)
    raise AssertionError("it goes on and on")


def test_a_node_that_leaves_no_file_is_named() -> None:
    planned, _ = _settled("g00003")
    assert planned.verdict == FOUND
    assert [culprit.said for culprit in planned.culprits] == ["node g00003"]


def test_a_lost_round_accuses_nobody() -> None:
    planned, number = _settled("nobody", frozenset(range(20)) - {1, 3})
    assert planned.culprits == ()
    assert number > 3


def test_a_round_with_other_pairs_needs_no_witness() -> None:
    made = cluster(16, 5)
    first = plan(Wish(made.hosts, made.fabric), [])
    looks = [look for look in measured(made, first) if look.status == FINISHED]
    second = plan(Wish(made.hosts, made.fabric), looks)
    assert all("shows that the round ran" not in pair.why for pair in second.pairs)
