"""Pairs of a round: each host once, a new partner each time, across leaves or inside them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.topology.fleet.planning.fabric import SwitchFabric, fabric_of
from gputop.topology.fleet.planning.pairing import LEAF, RAIL, STRATEGIES, paired, with_good


def fabric(*sizes: int) -> SwitchFabric:
    nodes = {
        f"leaf{leaf}": [f"g{leaf}-{host}" for host in range(size)]
        for leaf, size in enumerate(sizes)
    }
    return fabric_of("", nodes, {"spine": list(nodes)})


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    strategy=st.sampled_from(STRATEGIES),
    seed=st.integers(0, 9),
)
def test_every_host_is_in_one_pair_or_left_over(sizes: list[int], strategy: str, seed: int) -> None:
    made = fabric(*sizes)
    pairs, left = paired(made.leaf_of, made, strategy, {}, seed)
    seen = [host for pair in pairs for host in pair] + left
    assert sorted(seen) == sorted(made.leaf_of)
    if strategy != RAIL:
        assert len(left) == len(made.leaf_of) % 2
    assert (pairs, left) == paired(made.leaf_of, made, strategy, {}, seed)


def test_ten_rounds_go_across_leaves_with_other_partners() -> None:
    made = fabric(*[8] * 8)
    before: dict[str, set[str]] = {}
    for number in range(10):
        pairs, _ = paired(made.leaf_of, made, LEAF, before, number)
        for one, other in pairs:
            assert made.leaf(one) != made.leaf(other)
            assert other not in before.get(one, ())
            before.setdefault(one, set()).add(other)
            before.setdefault(other, set()).add(one)


def test_the_nodes_of_one_leaf_meet_many_leaves() -> None:
    made = fabric(*[8] * 8)
    pairs, _ = paired(made.leaf_of, made, LEAF, {}, 1)
    met: dict[str | None, set[str | None]] = {}
    for one, other in pairs:
        met.setdefault(made.leaf(one), set()).add(made.leaf(other))
        met.setdefault(made.leaf(other), set()).add(made.leaf(one))
    assert all(len(others) >= 3 for others in met.values())


def test_rail_pairs_stay_below_one_leaf() -> None:
    made = fabric(6, 5)
    pairs, left = paired(made.leaf_of, made, RAIL, {}, 1)
    assert all(made.leaf(one) == made.leaf(other) for one, other in pairs)
    assert len(left) == 1


@pytest.mark.parametrize(("good", "partner"), [(["g0-1", "g1-0"], "g1-0"), (["g0-1"], "g0-1")])
def test_a_suspect_gets_a_good_partner_elsewhere_if_there_is_one(
    good: list[str], partner: str
) -> None:
    assert with_good(["g0-0"], good, fabric(2, 2), {}, 1) == [("g0-0", partner)]
    assert with_good(["g0-0"], good, fabric(2, 2), {"g0-0": good}, 1) == []
