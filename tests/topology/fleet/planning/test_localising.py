"""What stays open about a host beside what is proven."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gputop.topology.fleet.planning.culprits import LINK, NODE, PATH, RAIL, Culprit
from gputop.topology.fleet.planning.localising import _best, _HostRecord, _suspicion


def test_a_host_that_is_accused_is_no_suspect_beside() -> None:
    event: Any = SimpleNamespace(number=1, place=(1, 0), partner=lambda _: "b")
    case = _HostRecord("a", {0: [event]})
    found: Any = SimpleNamespace(by_host={"a": [1]}, looks={}, covers=lambda *_: True)
    for culprit, suspected in (
        (None, True),
        (Culprit(NODE, ("a",)), False),
        (Culprit(LINK, ("a",), rail=0), False),
        (Culprit(LINK, ("a",), rail=1), True),
        (Culprit(NODE, ("b",)), True),
        (Culprit(PATH, ("a", "b")), True),
        (Culprit(RAIL, ("a",), rail=0), True),
    ):
        accused = [] if culprit is None else [culprit]
        assert (_suspicion(case, found, set(), accused) is not None) is suspected, culprit


def test_a_partner_with_fewer_switches_above_it_is_no_error() -> None:
    chains = {"a": ("l1", "s1"), "b": ("l2",), "c": ()}
    fabric: Any = SimpleNamespace(above=chains.__getitem__)
    for ends in (("a", "b"), ("a", "c"), ("c", "b")):
        first, second = ends
        event: Any = SimpleNamespace(
            hosts=ends, blamed=ends, rail=0, partner={first: second, second: first}.__getitem__
        )
        assert _best([event], {}, fabric) is None, "one pair accuses no switch"
