"""The rows of known defects: each has its parts, its range and a source."""

from __future__ import annotations

import re

import pytest

from gputop.topology.diagnosis.defects.table import COMPARED, Defect, Harm, defects, reaches
from gputop.topology.model.severity import BROKEN
from gputop.topology.model.versions import Product, numbers
from tests.support.defects import PATH, document
from tests.tables import hold

UNHEARD = ("defects", "reaches", "document")


def dotted(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


def below(version: str) -> str:
    """The version right before another one, in its branch."""
    *head, last = numbers(version)
    while last == 0:
        *head, last = head
    return dotted((*head, last - 1, 9999))


def test_the_bounds_of_every_range_are_kept() -> None:
    def check(row: Defect) -> None:
        if row.since:
            assert row.has(row.since) is True
            assert row.has(below(row.since)) is not True
        for first in row.fixed:
            assert row.has(first) is False
            assert row.has(f"{first}.1") is False
            before = below(first)
            if not row.since or numbers(before) >= numbers(row.since):
                assert row.has(before) is True
        if row.since and row.fixed:
            assert all(numbers(row.since) < numbers(first) for first in row.fixed)

    hold(check, defects(), lambda row: row.id)


def test_every_row_has_its_parts() -> None:
    ids = [row.id for row in defects()]
    assert len(ids) == len(set(ids))

    def check(row: Defect) -> None:
        assert re.fullmatch(r"[a-z0-9-]+", row.id)
        assert row.sources
        assert not row.what.endswith(".")
        assert row.fixed or row.workaround, "neither a version nor a setting helps"
        for compared in row.beside:
            match = COMPARED.fullmatch(compared)
            assert match is not None
            assert Product(match[1])
        for first in (row.since, *row.fixed):
            assert re.fullmatch(r"[\d.]*", first)

    hold(check, defects(), lambda row: row.id)


def test_every_pattern_has_a_line_that_shows_it() -> None:
    def check(row: Defect) -> None:
        for pattern in row.says:
            assert any(re.search(pattern, line) for line in row.shown), pattern
        assert all(row.matches(line) for line in row.shown)

    hold(check, [row for row in defects() if row.says or row.shown], lambda row: row.id)


@pytest.mark.parametrize(
    ("version", "firsts", "answer"),
    [
        ("2.18.3", ("2.18.5",), False),
        ("2.18.5", ("2.18.5",), True),
        ("2.18", ("2.18.5",), None),
        ("2.18", ("2.19.1",), False),
        ("535.129.03", ("535.216.03", "550.127.05"), False),
        ("535.230.02", ("535.216.03", "550.127.05"), True),
        ("545.23.08", ("535.216.03", "550.127.05"), None),
        ("525.85.12", ("535.216.03", "550.127.05"), False),
        ("570.133.20", ("535.216.03", "550.127.05"), True),
        ("none", ("2.18.5",), None),
        ("2.18.5", (), False),
    ],
)
def test_a_version_is_held_against_those_of_its_branch(
    version: str, firsts: tuple[str, ...], answer: bool | None
) -> None:
    assert reaches(version, firsts) is answer


def test_the_page_of_the_documentation_is_made_of_the_rows() -> None:
    assert PATH.read_text(encoding="utf-8") == document()


def test_what_corrupts_or_hangs_is_broken() -> None:
    assert [harm for harm in Harm if harm.severity is BROKEN] == [*Harm][:4]
