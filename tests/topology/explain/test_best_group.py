"""The search for the best GPUs: nothing better is overlooked, and large nodes take no longer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from math import comb
from typing import Any

import pytest

from gputop.topology.explain import best_group, group_wiring
from gputop.topology.explain.best_group import GpuGroup, best_groups
from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.recorded.demos.demo import names
from tests.grid import turns
from tests.harness.bench.nodes import MadeNode
from tests.support.places import RECORDINGS
from tests.support.snapshots import demo_node, gpus_of, recorded_node

EVERY = {8: 1000}
DEMOS = ("dgx-1v", "mi250x-8", "pcie-l40s-8", "hgx-a100-8", "sick-h100-8")


def worth(group: GpuGroup | None) -> tuple[float | None, ...]:
    assert group is not None
    return group.low_gbs, group.high_gbs, len(group.numa_nodes), len(group.nics)


@pytest.mark.parametrize(("demo", "count"), turns(DEMOS, range(2, 8)))
def test_the_few_that_are_predicted_hold_the_best_of_all(
    demo: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = demo_node(demo)
    few = best_groups(node, gpus_of(node), count)
    monkeypatch.setattr(best_group, "MOST_PREDICTED", EVERY)
    every = best_groups(node, gpus_of(node), count)
    assert every.possible == comb(8, count)
    assert worth(few.best) == worth(every.best)


def test_groups_of_one_kind_have_one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    node = demo_node("dgx-1v")
    whole = best_groups(node, gpus_of(node), 4)
    assert whole.best is not None
    figures = []
    for four in combinations(gpus_of(node), 4):
        one = best_groups(node, four, 4)
        assert one.best is not None
        figures.append(one.best.low_gbs)
    assert max(filter(None, figures)) == whole.best.low_gbs
    assert figures.count(whole.best.low_gbs) == whole.best.alike


def test_neighbouring_ranks_are_joined_best() -> None:
    node = demo_node("dgx-1v")
    found = best_groups(node, gpus_of(node), 8)
    assert found.best is not None
    ring = (*found.best.gpus, found.best.gpus[0])
    joined = [node.pairs.kind(*pair) for pair in pairwise(ring)]
    assert all(letters.startswith("NV") for letters in joined), joined
    assert joined[::2] == ["NV2"] * 4, "pairs of ranks have two links"


def test_a_way_over_other_gpus_is_none_for_a_ring() -> None:
    node = demo_node("mi250x-8")
    found = best_groups(node, gpus_of(node), 4)
    assert found.best is not None
    assert (found.best.low_gbs or 0) > 60, "15 where a pair has no link of its own"


def test_a_gpu_with_fewer_links_is_the_last_choice() -> None:
    node = demo_node("sick-h100-8")
    found = best_groups(node, gpus_of(node), 7)
    assert found.best is not None
    assert found.second is not None
    assert gpus_of(node)[3] not in found.best.gpus
    assert (found.second.link_gbs, found.best.link_gbs) == (400.0, 450.0)


@pytest.mark.parametrize("wiring", ["nvswitch", "pcie", "xgmi"])
def test_of_many_gpus_a_part_of_the_groups_is_looked_at(
    wiring: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = demo_node("hgx-h100-8").follow(MadeNode(wiring, 32).snapshot())
    predictions = []

    def counted(*given: Any, **more: Any) -> Any:
        predictions.append(more["gpus"])
        return predict_with_flags(*given, **more)

    monkeypatch.setattr(best_group, "predict_with_flags", counted)
    found = best_groups(node, gpus_of(node), 8)
    assert found.possible == comb(32, 8)
    assert found.best is not None
    assert found.best.numa_nodes == (0,)
    assert len(predictions) <= best_group.FEWEST
    monkeypatch.setattr(group_wiring, "MOST_GROUPS", 1)
    grown = best_groups(node, gpus_of(node), 8)
    assert not grown.whole
    assert worth(grown.best) == worth(found.best)


def test_what_is_known_to_be_free_comes_before_what_is_not() -> None:
    node = demo_node("hgx-h100-8")
    gpus = gpus_of(node)
    found = best_groups(node, gpus, 2, unsure=gpus[:6])
    assert found.best is not None
    assert set(found.best.gpus) == set(gpus[6:])
    ill = best_groups(node, gpus, 4, ailing=gpus[:2], busy=gpus[4:5])
    assert ill.best is not None
    assert not set(ill.best.gpus) & set(gpus[:2])


RECORDED = sorted(path.name for path in RECORDINGS.iterdir() if (path / "nvml.json").is_file())


@pytest.mark.parametrize("name", [*names(), *RECORDED])
def test_pairs_that_are_looked_at_once_have_what_each_of_them_has(name: str) -> None:
    node = demo_node(name) if name in names() else recorded_node(name)
    gpus = node.machine.gpus
    found = group_wiring.pairs_of_gpus(node, gpus)
    assert found.keys() == set(combinations(range(len(gpus)), 2))
    for (i, j), pair in found.items():
        letters = node.pairs.kind(gpus[i].address, gpus[j].address)
        assert pair == group_wiring.pair_of_gpus(node, gpus[i], gpus[j], letters)


@pytest.mark.parametrize(("wiring", "count"), turns(["nvswitch", "pcie"], [2, 120, 8, 64]))
def test_work_on_128_gpus_grows_with_their_kinds(
    wiring: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 8,128 pairs and more groups than anybody can count, a few of each are looked at."""
    node = demo_node("hgx-h100-8").follow(MadeNode(wiring, 128).snapshot())
    done: Counter[str] = Counter()

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            done[name] += 1
            return real(*given, **more)

        return call

    for place, name in (
        (group_wiring, "pair_of_gpus"),
        (best_group, "predict_with_flags"),
        (group_wiring.GroupWiring, "around"),
        (group_wiring.GroupWiring, "worth"),
        (group_wiring.GroupWiring, "order"),
    ):
        monkeypatch.setattr(place, name, counted(name, getattr(place, name)))
    found = best_groups(node, gpus_of(node), count)
    assert found.best is not None
    assert len(found.best.gpus) == count
    assert done["pair_of_gpus"] <= 2 * 16 * 17, "16 NUMA nodes, in both orders"
    assert done["around"] <= 4
    assert done["worth"] <= 8
    assert done["order"] <= best_group.FEWEST
    assert done["predict_with_flags"] <= best_group.FEWEST
