"""The tests keep the same measure as the code: small files."""

from __future__ import annotations

import pytest

from tests.probes.late import ASKED_BY_PYTEST, Late
from tests.support.places import ROOT, TESTS

LINES = 500


def test_every_file_of_tests_stays_small() -> None:
    paths = sorted(TESTS.rglob("*.py"))
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in paths}
    assert {name: count for name, count in lines.items() if count > LINES} == {}


def test_nothing_is_imported_late_only_to_be_collected() -> None:
    absent = Late("no_such_module")
    with pytest.raises(TypeError, match="must be a class"):
        issubclass(absent, int)  # type: ignore[arg-type]
    assert not any(hasattr(absent, name) for name in ASKED_BY_PYTEST)
    with pytest.raises(ModuleNotFoundError):
        _ = absent.anything
