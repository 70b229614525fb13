"""Each import inside a function stands in late_imports.toml, and keeps a start short."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gputop.topology.toml import tomllib
from tests.house.late_imports import STARTS, late_imports, savings

LISTED: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("late_imports.toml").read_text()
)
"""Start -> module -> what it imports inside functions, and what that start never loads."""


@pytest.fixture(scope="module")
def saved() -> dict[str, dict[str, list[str]]]:
    """What is saved now; each start runs once, in an interpreter of its own."""
    return savings()


def test_every_late_import_keeps_a_start_short() -> None:
    listed = {
        (module, target)
        for modules in LISTED.values()
        for module, targets in modules.items()
        for target in targets
    }
    late = {(module, target) for module, targets in late_imports().items() for target in targets}
    assert late - listed == set(), "these save no start anything: import them at the top"
    assert listed - late == set(), "these are gone: take them out of late_imports.toml"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 itself loads more")
@pytest.mark.parametrize("start", STARTS)
def test_a_start_goes_without_what_is_listed(
    start: str, saved: dict[str, dict[str, list[str]]]
) -> None:
    assert saved[start] == LISTED[start]
