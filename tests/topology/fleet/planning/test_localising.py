"""What stays open about a host beside what is proven."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gputop.topology.fleet.planning.culprits import LINK, NODE, PATH, RAIL, Culprit, Direction
from gputop.topology.fleet.planning.localising import (
    _bad_rails,
    _best,
    _direction,
    _HostRecord,
    _suspicion,
)


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


@pytest.mark.parametrize(
    ("senders", "direction"),
    [
        (["a", "a", "a"], Direction.SENDING),
        (["b", "b", "b"], Direction.RECEIVING),
        (["a", "b", "a"], None),
        (["a", None, "a"], None),
        ([None], None),
    ],
)
def test_a_direction_is_named_where_every_bad_figure_tells_who_sent(
    senders: list[str | None], direction: Direction | None
) -> None:
    events: Any = [SimpleNamespace(senders={sender}) for sender in senders]
    assert _direction(_HostRecord("a", {0: events}), 0) is direction


@pytest.mark.parametrize(
    ("bad", "accused"), [((8, 5), [0]), ((8, 6), []), ((7, 0), []), ((10, 8), [])]
)
def test_a_rail_is_accused_where_it_is_bad_nearly_everywhere_and_no_other_is(
    bad: tuple[int, int], accused: list[int]
) -> None:
    pairs = [(f"a{number}", f"b{number}") for number in range(10)]
    events = [
        SimpleNamespace(rail=rail, hosts=pair)
        for rail, count in enumerate(bad)
        for pair in pairs[:count]
    ]
    looks = [SimpleNamespace(rails={0, 1}, look=SimpleNamespace(hosts=pair)) for pair in pairs]
    found: Any = SimpleNamespace(rails=(0, 1), looks=looks, events=events)
    assert _bad_rails(found) == accused
