"""Rounds over made-up fleets: each kind of fault is named, and nobody else."""

from __future__ import annotations

import random

import pytest

from gputop.topology.fleet.planning.culprits import PATH, UPLINKS, Culprit
from gputop.topology.fleet.planning.fabric import fabric_of
from gputop.topology.fleet.planning.looks import ABSENT, FINISHED, NetFlow, NetLook
from gputop.topology.fleet.planning.plan import (
    CANNOT_TELL,
    CLEAR,
    FOUND,
    MORE,
    FleetPlan,
    Wish,
    plan,
)
from tests.harness.fleet_plans.__main__ import measured
from tests.harness.fleet_plans.cluster import NAMES, Cluster, cluster, faults


def settled(made: Cluster, looks: list[NetLook], *, scale: bool = False) -> FleetPlan:
    """The plan after as many rounds as it wants."""
    wish = Wish(made.hosts, made.fabric, scale=scale)
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
    wish, looks = Wish(made.hosts, made.fabric, looks=7), list[NetLook]()
    planned = plan(wish, looks)
    while planned.verdict == MORE:
        looks += measured(made, planned)
        planned = plan(wish, looks)
    (culprit,) = planned.culprits
    assert fault.named_by(culprit)


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
    wish = Wish(hosts, made.fabric, healthy_gbs=48.0)
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
    wish, looks = Wish(made.hosts, made.fabric), list[NetLook]()
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


def test_a_pair_whose_ends_are_well_with_others_is_a_path() -> None:
    made = cluster(64, 5)
    wish, looks = Wish(made.hosts, made.fabric), list[NetLook]()
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
    wish = Wish(("a", "b"))
    assert len(plan(wish, []).pairs) == 1
    flow = NetFlow(rail=0, source="a", target="b", bytes=1, gbs=20.0)
    look = NetLook(hosts=("a", "b"), status=FINISHED, round=1, results=(flow,))
    done = plan(wish, [look])
    assert done.verdict == CANNOT_TELL
    assert done.doubts


def test_ten_thousand_nodes_take_two_rounds() -> None:
    made = cluster(10_000, 1)
    first = plan(Wish(made.hosts, made.fabric), [])
    assert len(first.pairs) == 5_000
    assert first.idle == ()
    assert first.expected == (2, 400_000.0)
    assert all(made.fabric.leaf(p.first) != made.fabric.leaf(p.second) for p in first.pairs)
