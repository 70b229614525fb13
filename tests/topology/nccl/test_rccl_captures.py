"""RCCL 2.27.7 and 2.28.3 against what their own graph code decided (tests/recordings/rccl-graph).

Every fourteenth topology, and every fourth of our own, runs every time, under one environment; all
of them with `-m captures`.
"""

from __future__ import annotations

import pytest

from gputop.topology.nccl.versions import versions
from tests.support.nccl.rccl_cases import FOLDER, VERSIONS, at_hand, compare, file_of

from ...support.nccl.version_cases import Miss

SAMPLED = 14
TWO_OF_A_NUMBER = "topo_8p_rome_n2_1"
"""Both NICs of this file have dev 0, which confuses RCCL over two hosts; not followed."""
GRAPH = {"paths", "transports", "nets", "ring", "tree", "orders", "two hosts"}
CASES = [(version, name) for version in VERSIONS for name in at_hand(version)]


def misses_of(version: str, name: str, every: int = 1, start: int = 0) -> list[Miss]:
    found = compare(version, name, every, start)
    odd = name == TWO_OF_A_NUMBER
    return [miss for miss in found.misses if not (odd and miss.column == "two hosts")]


@pytest.mark.parametrize("version", VERSIONS)
def test_some_machines(version: str) -> None:
    names = at_hand(version)
    own = sorted(path.stem for path in (FOLDER / "topologies").glob("*.xml"))
    assert set(own) <= set(names)
    chosen = {*names[::SAMPLED], *own[::4]}
    misses = [miss for i, name in enumerate(chosen) for miss in misses_of(version, name, 6, i)]
    assert not misses, "\n".join(map(str, misses[:5]))


def test_what_is_compared_is_called_tested() -> None:
    tested = {version.number for version in versions() if version.library == "rccl"}
    assert {"2.27.7", "2.28.3"} <= {*VERSIONS} <= tested


@pytest.mark.captures
@pytest.mark.parametrize(("version", "name"), CASES)
def test_every_machine(version: str, name: str) -> None:
    misses = misses_of(version, name)
    assert not misses, "\n".join(map(str, misses[:5]))
    assert {*compare(version, name, 6).counted} >= GRAPH


def test_only_one_file_has_two_nics_of_a_number() -> None:
    path = file_of(TWO_OF_A_NUMBER)
    if path is None:
        pytest.skip("the captures are not here")
    assert {miss.column for miss in compare("2.28.3", TWO_OF_A_NUMBER, 6).misses} == {"two hosts"}
