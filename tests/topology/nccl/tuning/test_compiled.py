"""The tuning model against NCCL's own tuning code, compiled for the CPU, version by version.

A few communicators of each version run every time; all of them with `-m captures`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.topology.nccl.tuning.version import tuning_versions
from tests.support.nccl.tuning_cases import COLUMNS, Case, cases, communicator, compare

VERSIONS = [number for version in tuning_versions() for number in version.tested_numbers]
SAMPLED = 100
"""Of so many communicators one is compared every time."""


def said(case: Case) -> list[str]:
    """What differs, for a message."""
    return [f"{case} {column}: {texts[0]}" for column, texts in compare(case).misses.items()]


def test_a_few_communicators_of_every_version() -> None:
    sample = cases()[::SAMPLED]
    assert {case.version for case in sample} == set(VERSIONS)
    misses = [text for case in sample for text in said(case)]
    assert not misses, "\n".join(misses[:5])


def test_what_is_called_tested_was_compiled_and_the_other_way_round() -> None:
    assert list(dict.fromkeys(case.version for case in cases())) == VERSIONS


def test_another_version_would_be_noticed() -> None:
    later = next(case for case in cases() if case.version == "2.28.9" and case.kept["nvls"])
    older = Case(later.machine, {**later.kept, "version": "2.21.5"})
    assert communicator(older.kept) == replace(communicator(later.kept), number="2.21.5")
    assert {"table", "picks", "times"} <= set(compare(older).misses)


@pytest.mark.captures
@pytest.mark.parametrize("version", VERSIONS)
def test_every_communicator(version: str) -> None:
    chosen = [case for case in cases() if case.version == version]
    misses = [text for case in chosen for text in said(case)]
    assert not misses, "\n".join(misses[:5])
    counted = {column for case in chosen for column in compare(case).counted}
    assert counted >= {*COLUMNS} - {"refused"}
