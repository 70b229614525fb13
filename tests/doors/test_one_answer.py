"""One fact has one value, whichever door states it: command, JSON, screen or exit code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.demos import demo as demos
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.recorded.load import LoadError, load
from tests.grid import share
from tests.support import rule_cases
from tests.support.places import RECORDINGS

from .facts import FACTS, JOB_FACTS, LOG_FACTS
from .opening import JOB_COMMANDS, LOG_COMMANDS, Doors, commands, log_screen, of_node, screens
from .readings import Fact, contradictions, plants

TICK = 7
SAMPLE = ("sick-h100-8", "sick-mi300x-8")
"""Demos whose doors state every fact of the table."""
LOGS = sorted(
    path
    for folder in ("real-faults", "nccl-logs", "rccl-logs")
    for path in (RECORDINGS / folder).iterdir()
    if ".json" not in path.name
)
NO_NODES = {"nccl-logs", "rccl-logs", "real-faults", "amdsmi-signatures", "ras", "flight"}
SHARE = 24
"""The gate takes every 24th input of the long lists; the marker `grid` takes all."""


def demo(name: str) -> NodeSnapshot:
    return DemoFeed(name).at(TICK)


def untold(facts: Iterable[Fact], doors: Doors) -> set[tuple[str, str]]:
    """Doors of a fact where a planted difference is not found, or cannot be planted."""
    left = {(fact.name, door) for fact in facts for door in fact.readings}
    for fact in facts:
        for door, lying in plants(fact, doors):
            if contradictions([fact], lying):
                left.discard((fact.name, door))
    return left


async def doors_of_demo(name: str, folder: Path) -> Doors:
    folder.mkdir()
    return {
        **of_node(demo(name), folder),
        **commands(JOB_COMMANDS, ("--demo", name)),
        **await screens(demo(name)),
    }


async def test_all_doors_of_a_sick_node_agree_and_no_lie_passes(tmp_path: Path) -> None:
    facts = (*FACTS, *JOB_FACTS)
    left = []
    for name in SAMPLE:
        doors = await doors_of_demo(name, tmp_path / name)
        assert contradictions(facts, doors) == {}
        left.append(untold(facts, doors))
    assert set.intersection(*left) == set()


async def test_all_doors_of_a_log_agree_and_no_lie_passes() -> None:
    path = RECORDINGS / "real-faults" / "algo_one_rank.txt"
    doors = {**commands(LOG_COMMANDS, (str(path),)), **await log_screen(path)}
    assert contradictions(LOG_FACTS, doors) == {}
    assert untold(LOG_FACTS, doors) == set()


CASES = {case.name: case for case in rule_cases.cases()}
NODES = {
    str(path.relative_to(RECORDINGS)): path
    for folder in RECORDINGS.iterdir()
    if folder.name not in NO_NODES
    for path in sorted(folder.iterdir() if folder.is_dir() else ())
    if path.is_file() and not path.name.startswith(("README", "cases"))
}


@pytest.mark.parametrize("name", share(CASES, SHARE))
def test_commands_agree_on_a_rule_case(name: str, tmp_path: Path) -> None:
    assert contradictions(FACTS, of_node(CASES[name].snapshot, tmp_path)) == {}


@pytest.mark.parametrize("name", share(NODES, SHARE))
def test_commands_agree_on_a_recording(name: str, tmp_path: Path) -> None:
    try:
        snapshot = load([str(NODES[name])]).snapshot
    except LoadError:
        pytest.skip("no node alone")
    assert contradictions(FACTS, of_node(snapshot, tmp_path)) == {}


@pytest.mark.parametrize("path", share(LOGS, SHARE))
def test_commands_agree_on_a_log(path: Path) -> None:
    assert contradictions(LOG_FACTS, commands(LOG_COMMANDS, (str(path),))) == {}


@pytest.mark.grid
@pytest.mark.parametrize("name", demos.names())
async def test_all_doors_of_a_demo_agree(name: str, tmp_path: Path) -> None:
    assert contradictions((*FACTS, *JOB_FACTS), await doors_of_demo(name, tmp_path / name)) == {}


@pytest.mark.grid
@pytest.mark.parametrize("name", CASES)
async def test_all_doors_agree_on_a_rule_case(name: str, tmp_path: Path) -> None:
    snapshot = CASES[name].snapshot
    assert contradictions(FACTS, {**of_node(snapshot, tmp_path), **await screens(snapshot)}) == {}


@pytest.mark.grid
@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
async def test_all_doors_agree_on_a_log(path: Path) -> None:
    doors = {**commands(LOG_COMMANDS, (str(path),)), **await log_screen(path)}
    assert contradictions(LOG_FACTS, doors) == {}
