"""What counts as noticed, and that no listed change is of a line that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.mutations import AREAS, Changes, enums, equivalents, mirrored, noticed_by
from tests.support.places import ROOT


@pytest.mark.parametrize(
    ("code", "said", "by"),
    [
        (0, "..\n2 passed in 1.00s\n", ""),
        (1, "F.\nFAILED tests/a.py::test_b - x\n1 failed in 1.00s\n", "tests/a.py::test_b"),
        (1, "E\nERROR tests/a.py::test_b\n1 passed, 1 error in 1.00s\n", "tests/a.py::test_b"),
        (2, "ERROR tests/a.py\n1 error in 1.00s\n", "tests/a.py"),
        (-1, "", "time"),
        (0, "..", "its end"),
        (-11, "..", "its end"),
        (5, "3 skipped in 0.10s\n", ""),
    ],
)
def test_a_change_is_noticed_by_what_fails(code: int, said: str, by: str) -> None:
    assert noticed_by(code, said) == by


@pytest.mark.grid
def test_what_is_listed_as_the_same_is_a_change_that_can_be_made() -> None:
    members = enums(ROOT)
    made = {
        (file, *change.shown(source))
        for file in {file for file, _, _ in equivalents()}
        for source in [(ROOT / file).read_bytes()]
        for change in Changes(file, source, members).all()
    }
    assert set(equivalents()) <= made
    assert all(equivalents().values())


def test_no_tests_are_named_twice() -> None:
    """Of a folder and a file in it pytest 8.4 runs the file alone."""
    paths = [path for area in AREAS for path in (ROOT / area).rglob("*.py")]
    for path in paths:
        folders = [Path(tests) for tests in mirrored(str(path.relative_to(ROOT)))]
        assert not [one for one in folders for other in folders if other in one.parents], path
