"""What changes between two versions: all of it, nothing else, and by which rule."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from gputop.answers.explain import answer_of
from gputop.topology.flags.what_if.effects import untold
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.versions import UnknownVersionError
from gputop.topology.upgrade.causes import NOT_SOUGHT
from gputop.topology.upgrade.units import PieceTopic
from gputop.topology.upgrade.upgrade import (
    Difference,
    OtherLibraryError,
    Upgrade,
    pair_of_names,
    upgrade,
)
from tests.grid import share

from .made import RANDOM, machine, upgraded

REASONS = {"steps", "estimate"}
"""What is not compared: why, and how sure."""
RECORDS = re.compile(r"pairs|views|choices|views\[\d+\]\.nets")
TUNED = ("choices", "tuning", "coll_channels")
"""What is not compared where one of the versions is not followed in it."""
TOLD = ("pairs", "views", "graphs", "choices", "tuning", "coll_channels", "nodes", "failure")


def flat(value: Any, at: str = "") -> dict[str, Any]:
    """The leaves of a document by their places, as `at` names them; lists of figures are leaves."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for name, inner in value.items():
            if name not in REASONS:
                found.update(flat(inner, f"{at}.{name}" if at else name))
        return found
    if isinstance(value, list) and value and isinstance(value[0], dict):
        found = {}
        for number, inner in enumerate(value):
            key: object = number
            if "src" in inner:
                key = f"{inner['src']}-{inner['dst']}"
            elif "collective" in inner:
                key = f"{inner['collective']}-{inner['bytes']}"
            elif "net" in inner:
                key = f"{inner['rank']}-{inner['net']}-{inner['name']}"
            found.update(flat(inner, f"{at}[{key}]"))
        return found
    # No record is no value, as in another graph; no figure is one.
    return {} if value == [] and RECORDS.fullmatch(at) else {at: value}


def leaves(prediction: Prediction, names: Iterable[str] = TOLD) -> dict[str, Any]:
    """What a document of `explain --json` decides."""
    made = json.loads(msgspec.json.encode(answer_of(prediction, ())))
    found = flat({name: made[name] for name in names})
    found.update({f"ignored[{name}]": why for name, _, why in made["ignored"]})
    return found


def differing(found: Upgrade) -> set[str]:
    """The places in which the two documents differ, found without the code under test."""
    one_sided = untold(found.before) or untold(found.after)
    names = [name for name in TOLD if not (one_sided and name in TUNED)]
    before, after = leaves(found.before, names), leaves(found.after, names)
    absent = object()
    return {
        at for at in before.keys() | after.keys() if before.get(at, absent) != after.get(at, absent)
    }


def check_complete(found: Upgrade) -> None:
    """Every difference is told, and everything told is a difference."""
    told = [at for item in found.differences for at in item.at]
    assert len(told) == len(set(told)), "a place is told twice"
    places = differing(found)

    def covers(outer: str, inner: str) -> bool:
        return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))

    untold = {at for at in places if not any(covers(one, at) for one in told)}
    assert untold == set()
    invented = {one for one in told if not any(covers(one, at) for at in places)}
    assert invented == set()


CASES = [
    ("grace", "nccl-2.21.5", "nccl-2.30.7", 1),
    ("grace", "nccl-2.30.7", "nccl-2.18.6", 2),
    ("sockets", "nccl-2.21.5", "nccl-2.30.7", 1),
    ("sockets", "nccl-2.18.6", "nccl-2.29.7", 2),
    ("hgx-h100-8", "nccl-2.27.7", "nccl-2.30.7", 1),
    ("mi300x-8", "rccl-2.21.5", "rccl-2.30.4", 1),
    ("mi300x-8", "rccl-2.21.5", "rccl-2.28.3", 1),
]


@pytest.mark.parametrize(("name", "before", "after", "hosts"), share(CASES, 4))
def test_what_is_told_is_what_differs(name: str, before: str, after: str, hosts: int) -> None:
    found = upgraded(name, before, after, hosts)
    check_complete(found)
    for item in found.differences:
        assert item.causes, item
        assert item.at
        assert not item.decision or item.before != item.after, item


@pytest.mark.captures
@pytest.mark.parametrize("name", sorted(path.name for path in RANDOM.glob("*.xml")))
def test_what_is_told_is_what_differs_on_random_machines(name: str) -> None:
    for hosts in (1, 2):
        found = upgraded(name, "nccl-2.18.6", "nccl-2.32.3", hosts)
        check_complete(found)
        assert all(item.causes for item in found.differences)


@pytest.mark.parametrize(
    ("name", "version"),
    [("grace", "nccl-2.21.5"), ("hgx-h100-8", "nccl-2.30.7"), ("mi300x-8", "rccl-2.26.6")],
)
def test_a_version_against_itself_changes_nothing(name: str, version: str) -> None:
    found = upgraded(name, version, version)
    assert found.differences == ()
    assert found.topics == ()
    assert found.compared["pairs"] > 0


def test_the_rule_that_makes_the_difference_is_named() -> None:
    (pairs,) = _pairs(upgraded("grace", "nccl-2.25.1", "nccl-2.26.2"))
    assert (pairs.before, pairs.after) == ("P2P/CUMEM over NVL", "P2P/CUMEM over C2C")
    (cause,) = pairs.causes
    assert (cause.since, cause.introduced) == ("nccl-2.26.2", "nccl-2.26.2")
    assert cause.source == "graph/topo.cc:ncclTopoAddC2c"
    assert "graph.c2c_link" in cause.fields


def test_a_way_back_has_the_same_rule() -> None:
    there = upgraded("sockets", "nccl-2.21.5", "nccl-2.30.7")
    back = upgraded("sockets", "nccl-2.30.7", "nccl-2.21.5")
    one, other = ({(item.topic, item.causes) for item in way.decisions} for way in (there, back))
    assert one == other


def test_of_many_versions_the_one_that_makes_the_difference_is_named() -> None:
    found = _pairs(upgraded("sockets", "nccl-2.21.5", "nccl-2.30.7"))
    assert [(item.before, item.after) for item in found] == [
        ("NET/IB over NET", "SHM/direct over SYS")
    ]
    assert [cause.since for item in found for cause in item.causes] == ["nccl-2.26.2"]


def test_figures_of_the_library_are_no_decisions() -> None:
    found = upgraded("hgx-h100-8", "nccl-2.27.7", "nccl-2.30.7")
    assert found.topics == ()
    topics = {item.topic for item in found.differences}
    assert "pairs" in topics  # two more hops in its graph: the same way, and the same transport


def test_a_tray_of_gb200_gains_blackwells_speeds_and_direct_nics() -> None:
    alone = upgraded("gb200-nvl72-tray", "nccl-2.24.3", "nccl-2.25.1")
    graphs = {item.topic: (item.before, item.after) for item in alone.decisions}
    assert graphs[PieceTopic.RING] == ("12 x 30 NVL", "16 x 45 NVL")
    assert graphs[PieceTopic.NVLS] == ("4 x 60 NVL", "4 x 90 NVL")
    sources = {cause.source for item in alone.decisions for cause in item.causes}
    assert "graph/topo.h:SM100_NVLINK_BW" in sources
    two = upgraded("gb200-nvl72-tray", "nccl-2.26.2", "nccl-2.27.3", 2)
    (nics,) = (item for item in two.decisions if item.topic == "NICs")
    assert (nics.before, nics.after) == ("PHB, no GDR", "P2C, GDR")
    assert nics.pieces == 8
    assert [cause.since for cause in nics.causes] == ["nccl-2.27.3"]


def test_the_rules_behind_figures_are_sought_where_somebody_asks() -> None:
    node, versions = machine("grace"), ("nccl-2.25.1", "nccl-2.26.2")
    every, some = upgrade(node, *versions), upgrade(node, *versions, figures=False)
    assert every.decisions == some.decisions
    places = [{at for item in found.differences for at in item.at} for found in (every, some)]
    assert places[0] == places[1]
    figures = [item for item in some.differences if not item.decision]
    assert figures
    assert {cause.rule for item in figures for cause in item.causes} == {NOT_SOUGHT}
    assert NOT_SOUGHT not in {cause.rule for item in every.differences for cause in item.causes}


def _pairs(found: Upgrade) -> list[Difference]:
    return [item for item in found.decisions if item.topic == "pairs"]


@pytest.mark.parametrize(
    ("name", "first", "second", "names"),
    [
        ("hgx-h100-8", None, "2.30.7", ("nccl-2.28.9", "nccl-2.30.7")),
        ("hgx-h100-8", "v2.21.5", "NCCL-2.30.7", ("nccl-2.21.5", "nccl-2.30.7")),
        ("mi300x-8", "2.21.5", "2.26.6", ("rccl-2.21.5", "rccl-2.26.6")),
        ("mi300x-8", "nccl-2.21.5", "2.26.6", ("nccl-2.21.5", "nccl-2.26.6")),
        ("hgx-h100-8", "2.21.5", "rccl-2.26.6", ("rccl-2.21.5", "rccl-2.26.6")),
    ],
)
def test_a_bare_number_takes_the_library_of_the_other_or_of_the_node(
    name: str, first: str | None, second: str, names: tuple[str, str]
) -> None:
    assert pair_of_names(machine(name), first, second) == names


def test_two_libraries_and_text_that_is_no_version_are_refused() -> None:
    with pytest.raises(OtherLibraryError, match="versions of one library"):
        pair_of_names(machine("grace"), "nccl-2.21.5", "rccl-2.26.6")
    with pytest.raises(UnknownVersionError):
        pair_of_names(machine("grace"), "2.21.5", "newest")
