"""What others published of PCIe boxes, NVLink boards and racks, against what gputop states."""

from __future__ import annotations

from collections import Counter

import pytest

from .published import everything, machine_of, name_of, outcome, record

LEAST = 90


def test_every_figure_names_its_machine_and_its_source_once() -> None:
    figures = everything()["figure"]
    assert len(figures) >= LEAST
    assert len({name_of(figure) for figure in figures}) == len(figures)
    for figure in figures:
        assert machine_of(figure)["what"]
        assert figure["source"] in everything()["source"]
    used = {figure["source"] for figure in figures}
    assert used == everything()["source"].keys()
    assert {figure["machine"] for figure in figures} == {
        machine["id"] for machine in everything()["machine"]
    }


def _every_outcome_is_the_recorded_one(share: int, of: int) -> None:
    known = record()
    figures = everything()["figure"]
    assert known.keys() == {name_of(figure) for figure in figures}
    taken = figures[share::of]
    found = {name_of(figure): outcome(figure) for figure in taken}
    assert found == {name: known[name] for name in found}


def test_a_share_of_the_outcomes_is_the_recorded_one() -> None:
    _every_outcome_is_the_recorded_one(0, 9)


@pytest.mark.grid
def test_every_outcome_is_the_recorded_one() -> None:
    _every_outcome_is_the_recorded_one(0, 1)


def test_the_score_is_what_the_record_adds_up_to() -> None:
    score = Counter(record().values())
    assert score["inside"] >= INSIDE
    assert set(score) <= {"inside", "outside", "no figure"}


INSIDE = 52
"""Of the figures, those in the band that gputop states; raise it with the record."""
