"""Who copies to whom at once, and what is read from the figures."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest

from gputop.probes.catalog.p2p.patterns import (
    IN_PHASES,
    PatternResult,
    patterns,
    phases,
    slots,
    wiring,
)


def test_flows_at_once_share_no_bytes() -> None:
    for pattern in patterns(8, "full"):
        places = slots(pattern.flows)
        sources = [(src, place[0]) for (src, _), place in zip(pattern.flows, places, strict=True)]
        targets = [(dst, place[1]) for (_, dst), place in zip(pattern.flows, places, strict=True)]
        assert len(set(sources)) == len(sources)
        assert len(set(targets)) == len(targets)
        assert max(max(place) for place in places) < 7


def test_levels_add_hubs_and_shifts() -> None:
    names = {level: [pattern.name for pattern in patterns(4, level)] for level in
             ("quick", "normal", "full")}  # fmt: skip
    assert names["quick"] == ["ring shift", "all to one", "one to all", "all to all"]
    assert names["normal"].count("all to one") == names["normal"].count("one to all") == 4
    assert {"ring shift", "ring shift by 2", "ring shift by 3"} < set(names["full"])
    for level in ("quick", "full"):
        for pattern in patterns(5, level):
            assert all(src != dst for src, dst in pattern.flows)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 8, 12, 16])
def test_in_a_phase_nobody_is_written_to_twice(count: int) -> None:
    plan = phases(count)
    assert len(plan) == count - 1
    for phase in plan:
        assert sorted(src for src, _ in phase) == list(range(count))
        assert sorted(dst for _, dst in phase) == list(range(count))
    every = [ends for phase in plan for ends in phase]
    assert sorted(every) == sorted(itertools.permutations(range(count), 2))
    if count % 2 == 0:  # halves: all or none cross
        for phase in plan:
            assert len({(src < count // 2) != (dst < count // 2) for src, dst in phase}) == 1


def ran(
    count: int, kept: dict[tuple[int, int], float], schedule: str = IN_PHASES
) -> list[PatternResult]:
    """One port for each; all to all as given, and 100 GB/s for a pair alone."""
    found = []
    for pattern in patterns(count, "quick"):
        whole = pattern.name == "all to all"
        each = tuple(100 * kept.get(ends, 1.0) if whole else 100.0 for ends in pattern.flows)
        found.append(PatternResult(pattern, each, 100.0, schedule if whole else "at once"))
    return found


def read(count: int, kept: dict[tuple[int, int], float], schedule: str = IN_PHASES) -> str:
    alone = dict.fromkeys(itertools.permutations(range(count), 2), 100.0)
    text, details = wiring(
        ran(count, kept, schedule), alone, [f"G{number}" for number in range(count)]
    )
    assert bool(details["groups"]) == ("the groups share" in text)
    return text


def across(*group: int) -> dict[tuple[int, int], float]:
    pairs = itertools.permutations(range(4), 2)
    return {(a, b): 0.5 for a, b in pairs if (a in group) != (b in group)}


def test_groups_are_reported_only_where_every_pair_agrees() -> None:
    whole = across(0, 1)
    assert "G0 G1 | G2 G3 fall behind" in read(4, whole)
    for ends in whole:
        assert "the groups" not in read(4, {**whole, ends: 1.0}), "one pair keeps its speed"
        assert "the groups" not in read(4, {**whole, ends: 0.7}), "one pair is in between"
    for ends in ((0, 1), (3, 2)):
        assert "the groups" not in read(4, {**whole, ends: 0.8}), "one within is slow, too"
    assert "the groups" not in read(4, whole, "at once"), "copy engines are not fair"
    one_way = {(a, b): kept for (a, b), kept in whole.items() if a < b}
    assert "G0 to G2 keeps 50 %" in read(4, one_way)
    assert "the groups" not in read(4, across(3)), "one slow GPU shares its path with nobody"


def test_chance_makes_no_groups() -> None:
    chance = random.Random(7)
    pairs = list(itertools.permutations(range(4), 2))
    for _ in range(500):
        text = read(4, {ends: chance.uniform(0.03, 1.0) for ends in pairs})
        assert "some pairs do not" in text
        assert "does not block" not in text


@pytest.mark.parametrize(
    ("slow", "said"),
    [
        ((0, 1, 2, 3), "a pair keeps 50 % of what it gets alone: the pairs share a path"),
        (
            (1, 2),
            "2 of 4 pairs fall behind (G1 to G2 keeps 50 % of what it gets alone), as pairs do",
        ),
        (
            (2,),
            "G2 to G3 alone falls behind and keeps 50 % of what it gets alone: what holds it up",
        ),
    ],
)
def test_one_pair_that_falls_behind_shares_no_path(slow: tuple[int, ...], said: str) -> None:
    figures = ran(4, {})
    ring = next(measured for measured in figures if measured.pattern.name == "ring shift")
    each = tuple(50.0 if src in slow else 100.0 for src, _ in ring.pattern.flows)
    figures[figures.index(ring)] = dataclasses.replace(ring, each=each)
    alone = dict.fromkeys(itertools.permutations(range(4), 2), 100.0)
    text, _ = wiring(figures, alone, [f"G{number}" for number in range(4)])
    assert said in text
    assert ("share a path" in text) == (len(slow) > 1)
