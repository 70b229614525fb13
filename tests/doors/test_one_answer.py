"""One fact has one value, whichever door states it: command, JSON, screen or exit code.

The facts are a table. Each has a reading for each door that states it, which finds the statements
in what the door said. A reading that finds none anywhere could never fail, and neither could one
whose subject no other door names: so in each sample a lie is planted in every reading of every
fact, and a reading where no lie of any sample is found fails the test. What rewords a door past
its reading is found like that too, as nothing is left to plant a lie in.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.demos import demo as demos
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.recorded.load import LoadError, load
from tests.grid import share
from tests.harness.outputs.inputs import captured
from tests.support import rule_cases
from tests.support.places import CAPTURES, RECORDINGS

from .facts import FACTS, JOB_FACTS, LOG_FACTS, PROBE_FACTS
from .opening import (
    JOB_COMMANDS,
    LOG_COMMANDS,
    PROBE_COMMANDS,
    Doors,
    commands,
    log_screen,
    of_node,
    screens,
)
from .readings import Fact, contradictions, plants

TICK = 7
ALL = (*FACTS, *JOB_FACTS, *PROBE_FACTS)
SAMPLE = ("sick-h100-8", "pcie-l40s-8")
"""Demos that together with the measured case state every fact of the table."""
MEASURED = "pair-low-one"
"""A rule case with figures, of which one pair is low."""
LOGS = sorted(
    path
    for folder in ("real-faults", "nccl-logs", "rccl-logs")
    for path in (RECORDINGS / folder).iterdir()
    if ".json" not in path.name
)
NO_NODES = {"nccl-logs", "rccl-logs", "real-faults", "amdsmi-signatures", "ras", "flight"}
SHARE = 96
"""The gate takes every 96th input of the long lists; the marker `grid` takes all."""


def demo(name: str) -> NodeSnapshot:
    return DemoFeed(name).at(TICK)


def readings_of(facts: Iterable[Fact]) -> set[tuple[str, str]]:
    return {(fact.name, reading) for fact in facts for reading in fact.readings}


def untold(
    facts: Iterable[Fact], doors: Doors, among: set[tuple[str, str]]
) -> set[tuple[str, str]]:
    """The readings among these where no planted lie is found, or none can be planted."""
    left = set(among)
    for fact in facts:
        for reading, lying in plants(fact, doors):
            if (fact.name, reading) in left and contradictions([fact], lying):
                left.discard((fact.name, reading))
    return left


async def doors_of_demo(name: str, folder: Path) -> Doors:
    folder.mkdir(exist_ok=True)
    return {
        **of_node(demo(name), folder),
        **await screens(folder, demo(name)),
        **commands(JOB_COMMANDS, ("--demo", name)),
        **commands(PROBE_COMMANDS, ("--demo", name)),
    }


async def doors_of(snapshot: NodeSnapshot, folder: Path) -> Doors:
    folder.mkdir(exist_ok=True)
    return {**of_node(snapshot, folder), **await screens(folder)}


async def test_all_doors_of_a_sick_node_agree_and_no_lie_passes(tmp_path: Path) -> None:
    samples = {name: await doors_of_demo(name, tmp_path / name) for name in SAMPLE}
    samples[MEASURED] = await doors_of(CASES[MEASURED].snapshot, tmp_path / MEASURED)
    left = readings_of(ALL)
    for doors in samples.values():
        assert contradictions(ALL, doors) == {}
        left = untold(ALL, doors, left)
    assert left == set()


async def test_all_doors_of_a_log_agree_and_no_lie_passes() -> None:
    path = RECORDINGS / "real-faults" / "algo_one_rank.txt"
    doors = {**commands(LOG_COMMANDS, (str(path),)), **await log_screen(path)}
    assert contradictions(LOG_FACTS, doors) == {}
    assert untold(LOG_FACTS, doors, readings_of(LOG_FACTS)) == set()


CASES = {case.name: case for case in rule_cases.cases()}
NODES = {
    str(path.relative_to(RECORDINGS)): path
    for folder in RECORDINGS.iterdir()
    if folder.name not in NO_NODES
    for path in sorted(folder.iterdir() if folder.is_dir() else ())
    if path.is_file() and not path.name.startswith(("README", "cases"))
}
CAPTURED = {
    one.name: Path(one.options[1])
    for one in (captured() if CAPTURES.is_dir() else ())
    if one.kind != "log"
}
"""What the captures hold of nodes, where they are on this machine."""


AT_REST = {
    "pcie-x8-refuted": {"lanes of a GPU 0"},
    "pcie-x8-under-load": {"lanes of a GPU 1"},
}
"""Rule cases whose sources differ on lanes, at rest and while a copy runs -> what doors then state
by one source each."""


def opened(path: Path) -> NodeSnapshot:
    """The node in a file; a file without one ends the test."""
    try:
        return load([str(path)]).snapshot
    except LoadError:
        pytest.skip("no node alone")


@pytest.mark.parametrize("name", share(CASES, SHARE))
def test_commands_agree_on_a_rule_case(name: str, tmp_path: Path) -> None:
    found = contradictions(FACTS, of_node(CASES[name].snapshot, tmp_path))
    assert found.keys() <= AT_REST.get(name, set())


@pytest.mark.parametrize("name", share(NODES, SHARE))
def test_commands_agree_on_a_recording(name: str, tmp_path: Path) -> None:
    assert contradictions(FACTS, of_node(opened(NODES[name]), tmp_path)) == {}


@pytest.mark.parametrize("path", share(LOGS, SHARE))
def test_commands_agree_on_a_log(path: Path) -> None:
    assert contradictions(LOG_FACTS, commands(LOG_COMMANDS, (str(path),))) == {}


@pytest.mark.grid
@pytest.mark.parametrize("name", demos.names())
async def test_all_doors_of_a_demo_agree(name: str, tmp_path: Path) -> None:
    assert contradictions(ALL, await doors_of_demo(name, tmp_path)) == {}


@pytest.mark.grid
@pytest.mark.parametrize("name", CASES)
async def test_all_doors_agree_on_a_rule_case(name: str, tmp_path: Path) -> None:
    found = contradictions(FACTS, await doors_of(CASES[name].snapshot, tmp_path))
    assert found.keys() == AT_REST.get(name, set())


@pytest.mark.grid
@pytest.mark.parametrize("name", NODES)
async def test_all_doors_agree_on_a_recording(name: str, tmp_path: Path) -> None:
    assert contradictions(FACTS, await doors_of(opened(NODES[name]), tmp_path)) == {}


@pytest.mark.captures
@pytest.mark.parametrize("name", CAPTURED)
async def test_all_doors_agree_on_a_capture(name: str, tmp_path: Path) -> None:
    assert contradictions(FACTS, await doors_of(opened(CAPTURED[name]), tmp_path)) == {}


@pytest.mark.grid
@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
async def test_all_doors_agree_on_a_log(path: Path) -> None:
    doors = {**commands(LOG_COMMANDS, (str(path),)), **await log_screen(path)}
    assert contradictions(LOG_FACTS, doors) == {}
