"""Every version of NCCL against what its own graph code decided (shared/captures).

A few cases of each version run every time; all of them with `-m captures`.
"""

from __future__ import annotations

import pytest

from gputop.topology.nccl.versions import versions
from tests.support.nccl.version_cases import COLUMNS, FOLDER, cases, compare

CASES = cases()
GROUPS = list(dict.fromkeys((case.version, case.kind) for case in CASES))
SAMPLED = 80
"""Of so many topologies one is compared every time, under one environment."""

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="captures are not here")


def test_a_few_cases_of_every_version() -> None:
    sample = [(number, case) for number, case in enumerate(CASES) if number % SAMPLED == 0]
    assert {case.version for _, case in sample} == {case.version for case in CASES}
    misses = [miss for number, case in sample for miss in compare(case, 13, number).misses]
    assert not misses, "\n".join(map(str, misses[:5]))


def test_what_is_compared_is_called_tested() -> None:
    tested = {version.number for version in versions() if version.tested}
    assert {case.version for case in CASES} <= tested


@pytest.mark.captures
@pytest.mark.parametrize(("version", "kind"), GROUPS)
def test_every_case(version: str, kind: str) -> None:
    chosen = [case for case in CASES if (case.version, case.kind) == (version, kind)]
    found = [compare(case) for case in chosen]
    misses = [miss for one in found for miss in one.misses]
    assert not misses, "\n".join(map(str, misses[:5]))
    counted = {column for one in found for column in one.counted}
    assert counted >= {*COLUMNS} - {"refused"}
