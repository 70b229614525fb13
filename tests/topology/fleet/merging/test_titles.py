"""What a culprit is called in a finding: each kind by what is known of it."""

from __future__ import annotations

from gputop.topology.fleet.merging.growing import _title
from gputop.topology.fleet.planning.culprits import LINK, NODE, PATH, RAIL, SWITCH, Culprit


def test_each_kind_of_culprit_has_its_own_title() -> None:
    slow, fails = "too slow", "measurements do not finish, or data arrives wrong"
    for culprit, said in (
        (Culprit(NODE, ("a",)), f"between nodes, with several partners: {slow}"),
        (Culprit(NODE, ("a",), fails=True), f"between nodes, with several partners: {fails}"),
        (
            Culprit(LINK, ("a",), rail=2),
            f"between nodes, rail 2 (NIC, cable or switch port): {slow}",
        ),
        (
            Culprit(SWITCH, ("a", "b"), switch="l1", rail=0),
            f"switch l1, rail 0, or what the nodes below it share: {slow}",
        ),
        (
            Culprit(SWITCH, ("a", "b"), switch="l1"),
            f"switch l1, or what the nodes below it share: {slow}",
        ),
        (
            Culprit(RAIL, (), rail=1),
            f"rail 1 of all nodes, its switches or how its NICs are set up: {slow}",
        ),
        (
            Culprit(PATH, ("a", "b"), fails=True),
            f"the path between these two, which are well with others: {fails}",
        ),
    ):
        assert _title(culprit) == said, culprit
