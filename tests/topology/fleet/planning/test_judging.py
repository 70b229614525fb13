"""Which figures are bad: with noise nobody, with a slow link that link alone."""

from __future__ import annotations

import random

import pytest

from gputop.topology.fleet.planning.fabric import SwitchFabric, fabric_of
from gputop.topology.fleet.planning.judging import judge, main_group
from gputop.topology.fleet.planning.looks import FINISHED, NetFlow, NetLook

NOWHERE = SwitchFabric()


def look(first: str, second: str, *figures: float, what: str = "send_recv") -> NetLook:
    flows = tuple(
        NetFlow(what=what, rail=rail, source=first, target=second, bytes=1, gbs=gbs)
        for rail, gbs in enumerate(figures)
    )
    return NetLook(hosts=(first, second), status=FINISHED, results=flows)


def fleet(count: int, chance: random.Random, *, low: int = 0) -> list[NetLook]:
    """Pairs with eight rails; of the first `low` pairs, all rails give two thirds."""
    return [
        look(f"a{n}", f"b{n}", *(chance.gauss(48, 0.7) * share for _ in range(8)))
        for n in range(count)
        for share in (2 / 3 if n < low else 1.0,)
    ]


def test_noise_accuses_nobody() -> None:
    found = judge(fleet(200, random.Random(1)), NOWHERE)
    assert [judged for judged in found.looks if judged.bad] == []
    (norm,) = found.norms.values()
    assert norm.median == pytest.approx(48, rel=0.01)
    assert norm.mad == pytest.approx(0.67 * 0.7, rel=0.2)


@pytest.mark.parametrize("low", [1, 20, 50])
def test_up_to_half_of_the_pairs_may_be_slow(low: int) -> None:
    found = judge(fleet(100, random.Random(2), low=low), NOWHERE)
    assert [len(judged.bad) for judged in found.looks] == [8] * low + [0] * (100 - low)


def test_a_slow_majority_is_no_verdict_without_the_healthy_figure() -> None:
    looks = fleet(100, random.Random(3), low=70)
    found = judge(looks, NOWHERE)
    assert not any(judged.bad for judged in found.looks)
    assert "over half" in found.doubts[0]
    told = judge(looks, NOWHERE, healthy_gbs=48.0)
    assert sum(bool(judged.bad) for judged in told.looks) == 70


def test_few_figures_prove_nothing() -> None:
    found = judge([look("a", "b", 48.0), look("c", "d", 20.0)], NOWHERE)
    assert not any(judged.bad for judged in found.looks)
    assert found.doubts == ("2 figures have too few equals to be judged",)


def test_unlike_hardware_is_not_compared() -> None:
    chance = random.Random(4)
    looks = fleet(20, chance)
    slow = [look(f"c{n}", f"d{n}", *(chance.gauss(24, 0.3) for _ in range(8))) for n in range(9)]
    kinds = {host: kind for kind, them in (("old", slow), ("new", looks))
             for one in them for host in one.hosts}  # fmt: skip
    assert any(judged.bad for judged in judge([*looks, *slow], NOWHERE).looks)
    assert not any(judged.bad for judged in judge([*looks, *slow], NOWHERE, kinds).looks)


def test_a_near_pair_gives_what_far_ones_give() -> None:
    hosts = [f"a{n}" for n in range(20)] + [f"b{n}" for n in range(20)]
    fabric = fabric_of("", {"l1": hosts[:20], "l2": hosts[20:]}, {"s": ["l1", "l2"]})
    looks = [*fleet(18, random.Random(5)), look("a18", "a19", 24.0), look("b18", "b19", 49.0)]
    found = judge(looks, fabric)
    assert [bool(judged.bad) for judged in found.looks[-2:]] == [True, False]


def test_wrong_data_counts_as_no_bandwidth_and_one_rail_explains_all() -> None:
    looks = fleet(20, random.Random(6))
    whole = NetFlow(what="all_reduce", bytes=1, gbs=300.0)
    low = NetFlow(what="all_reduce", bytes=1, gbs=150.0)
    with_whole = [
        NetLook(hosts=one.hosts, status=FINISHED, results=(*one.results, whole)) for one in looks
    ]
    sick = look("x", "y", 20.0, *[48.0] * 7)
    both = NetLook(hosts=sick.hosts, status=FINISHED, results=(*sick.results, low))
    judged = judge([*with_whole, both], NOWHERE).looks[-1]
    assert [flow.rail for flow in judged.bad] == [0]


def test_the_main_group_is_the_healthy_one() -> None:
    assert main_group([10.0] * 40 + [20.0] * 60)[0] == 20.0
    assert main_group([10.0] * 60 + [20.0] * 40)[0] == 20.0
    assert main_group([19.0, 20.0, 21.0])[0] == 20.0


def test_a_figure_is_bad_from_six_deviations_on() -> None:
    """With a median of 100 and deviations of 3, by figures that lie evenly around it."""
    sound = [100 + 3 * 0.6745 * step / 10 for step in range(-20, 21)]
    for value, bad in ((84.5, False), (83.0, False), (81.0, True), (79.5, True)):
        pairs = [look(f"a{n}", f"b{n}", gbs) for n, gbs in enumerate((*sound, value))]
        found = judge(pairs, NOWHERE)
        assert [judged.look.hosts for judged in found.looks if judged.bad] == (
            [(f"a{len(sound)}", f"b{len(sound)}")] if bad else []
        ), value
