"""Rounds over made-up fleets: each kind of fault is named, and nobody else."""

from __future__ import annotations

import random

import pytest

from gputop.topology.fleet.planning.culprits import PATH, UPLINKS, Culprit
from gputop.topology.fleet.planning.fabric import fabric_of
from gputop.topology.fleet.planning.folder import FolderRead, PlanHead, PlanPair, silent
from gputop.topology.fleet.planning.looks import ABSENT, FINISHED, NetFlow, NetLook
from gputop.topology.fleet.planning.plan import (
    CANNOT_TELL,
    CLEAR,
    FOUND,
    MORE,
    FleetPlan,
    PlanRequest,
    plan,
)
from tests.harness.fleet_plans.__main__ import measured
from tests.harness.fleet_plans.cluster import NAMES, Cluster, cluster, faults


def settled(made: Cluster, looks: list[NetLook], *, scale: bool = False) -> FleetPlan:
    """The plan after as many rounds as it wants."""
    wish = PlanRequest(made.hosts, made.fabric, scale=scale)
    for _ in range(20):
        planned = plan(wish, looks)
        if planned.verdict != MORE:
            return planned
        looks += measured(made, planned)
    raise AssertionError("it goes on and on")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "flapping 30 %"])
def test_a_fault_is_named_and_nothing_else(name: str) -> None:
    made = cluster(64, 7)
    (fault,) = faults(made, name)
    made.plant([fault])
    looks: list[NetLook] = []
    planned = settled(made, looks)
    if name == "only at scale":
        assert planned.verdict == CLEAR
        planned = settled(made, looks, scale=True)
    assert planned.verdict == FOUND
    (culprit,) = planned.culprits
    assert fault.named_by(culprit), culprit


def test_a_flapping_link_that_was_seen_once_is_looked_at_until_it_is_proven() -> None:
    made = cluster(64, 3)
    (fault,) = faults(made, "flapping 30 %")
    made.plant([fault])
    wish, looks = PlanRequest(made.hosts, made.fabric, looks=7), list[NetLook]()
    planned = plan(wish, looks)
    while planned.verdict == MORE:
        looks += measured(made, planned)
        planned = plan(wish, looks)
    (culprit,) = planned.culprits
    assert fault.named_by(culprit)
    assert culprit.hosts not in {(one.host,) for one in planned.found.suspects}, "it is accused"


def test_noise_alone_ends_clear() -> None:
    made = cluster(64, 11)
    assert settled(made, []).verdict == CLEAR


def test_two_leaves_cannot_tell_whose_uplinks_are_bad() -> None:
    hosts = tuple(f"g{n}" for n in range(16))
    made = Cluster(hosts, fabric_of("", {"l1": hosts[:8], "l2": hosts[8:]}, {}), random.Random(1))
    made.speeds = dict.fromkeys(hosts, 1.0)
    (fault,) = faults(made, "uplink")
    fault.switch, fault.group = "l1", frozenset(hosts[:8])
    made.plant([fault])
    wish = PlanRequest(hosts, made.fabric, healthy_gbs=48.0)
    looks = measured(made, plan(wish, []))
    second = plan(wish, looks)
    assert all(made.fabric.leaf(p.first) == made.fabric.leaf(p.second) for p in second.pairs)
    looks += measured(made, second)
    done = plan(wish, looks)
    assert [(c.kind, sorted(c.switch.split(" or "))) for c in done.culprits] == [
        (UPLINKS, ["l1", "l2"])
    ]


def test_a_dead_node_is_named_and_its_partners_are_not() -> None:
    made = cluster(64, 5)
    wish, looks = PlanRequest(made.hosts, made.fabric), list[NetLook]()
    dead = "g00009"
    planned = plan(wish, looks)
    while planned.verdict == MORE:
        looks += [
            NetLook(hosts=look.hosts, status=ABSENT, missing=(dead,), round=planned.number)
            if dead in look.hosts
            else look
            for look in measured(made, planned)
        ]
        planned = plan(wish, looks)
    assert [culprit.said for culprit in planned.culprits] == [f"node {dead}"]
    assert dead not in {one.host for one in planned.found.suspects}, "it is accused"


def test_a_pair_whose_ends_are_well_with_others_is_a_path() -> None:
    made = cluster(64, 5)
    wish, looks = PlanRequest(made.hosts, made.fabric), list[NetLook]()
    planned = plan(wish, looks)
    first = planned.pairs[0]
    ends = {first.first, first.second}
    while planned.verdict == MORE:
        looks += [slowed(one) if ends == set(one.hosts) else one for one in measured(made, planned)]
        planned = plan(wish, looks)
    assert planned.culprits == (
        Culprit(PATH, tuple(sorted(ends)), because=planned.culprits[0].because),
    )


def slowed(look: NetLook) -> NetLook:
    flows = tuple(
        NetFlow(
            what=flow.what, rail=flow.rail, source=flow.source, target=flow.target,
            bytes=flow.bytes, gbs=(flow.gbs or 0.0) / 2,
        )
        for flow in look.results
    )  # fmt: skip
    return NetLook(hosts=look.hosts, status=FINISHED, round=look.round, results=flows)


def test_two_nodes_cannot_tell() -> None:
    wish = PlanRequest(("a", "b"))
    assert len(plan(wish, []).pairs) == 1
    flow = NetFlow(rail=0, source="a", target="b", bytes=1, gbs=20.0)
    look = NetLook(hosts=("a", "b"), status=FINISHED, round=1, results=(flow,))
    done = plan(wish, [look])
    assert done.verdict == CANNOT_TELL
    assert done.doubts


def test_all_nodes_suspected_and_none_good_is_a_doubt() -> None:
    flow = NetFlow(rail=0, source="a", target="b", bytes=1, gbs=20.0)
    look = NetLook(hosts=("a", "b"), status=FINISHED, round=1, results=(flow,))
    done = plan(PlanRequest(("a", "b"), healthy_gbs=48.0), [look])
    assert len(done.found.suspects) == 2
    assert any(doubt.startswith("every node is suspected") for doubt in done.doubts)


def test_ten_thousand_nodes_take_two_rounds() -> None:
    made = cluster(10_000, 1)
    first = plan(PlanRequest(made.hosts, made.fabric), [])
    assert len(first.pairs) == 5_000
    assert first.idle == ()
    assert first.expected == (2, 400_000.0)
    assert all(made.fabric.leaf(p.first) != made.fabric.leaf(p.second) for p in first.pairs)


# A dead node of which no file ever comes is accused, and no round is planned for ever.
def _settled(dead: str, runs: frozenset[int] = frozenset(range(20))) -> tuple[FleetPlan, int]:
    """The last plan and its number, where the steps of a dead node never start; rounds that are
    not in `runs` are lost as a whole."""
    made = cluster(16, 5)
    wish, read = PlanRequest(made.hosts, made.fabric), FolderRead()
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
    first = plan(PlanRequest(made.hosts, made.fabric), [])
    looks = [look for look in measured(made, first) if look.status == FINISHED]
    second = plan(PlanRequest(made.hosts, made.fabric), looks)
    assert all("shows that the round ran" not in pair.why for pair in second.pairs)


def test_one_round_remains_where_all_nodes_run_together() -> None:
    made = cluster(8, 1)
    planned = plan(PlanRequest(made.hosts, made.fabric, scale=True), [])
    assert planned.sets
    assert planned.expected == (1, planned.node_seconds)
