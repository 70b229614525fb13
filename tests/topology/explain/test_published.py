"""What others published of PCIe boxes, NVLink boards and racks, against what gputop states."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gputop.topology.flags.what_if.effects import compare
from gputop.topology.flags.what_if.wording import sections
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.settings import Settings

from ...tables import hold
from .published import (
    all_reduce_range,
    bands_of,
    everything,
    machine_of,
    name_of,
    outcome,
    record,
    snapshot_of,
    subsets,
    texts_of,
)

LEAST = 125


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


INSIDE = 118
"""Of the figures, those in the band that gputop states; raise it with the record."""


def _fewer_texts_widen_the_range_and_never_move_it(machine: dict[str, Any]) -> None:
    texts = texts_of(machine)
    whole_low, whole_high = all_reduce_range(machine)
    for names in subsets(texts):
        low, high = all_reduce_range(machine, names)
        if high:
            assert low <= whole_low * 1.001, names
            assert whole_high <= high * 1.001, names


def _fewer_texts_widen_every_band(machine: dict[str, Any]) -> None:
    """The fixed part of a call is not the same over PCIe, hence half a percent."""
    whole = bands_of(machine)
    for names in subsets(texts_of(machine))[1:]:
        for what, (low, high) in bands_of(machine, names).items():
            whole_low, whole_high = whole[what]
            if high and whole_high:
                assert low <= whole_low * 1.005, (what, names)
                assert whole_high <= high * 1.005, (what, names)


def test_fewer_texts_widen_every_band_of_a_share_of_the_machines() -> None:
    hold(_fewer_texts_widen_every_band, _in_parts()[1::7])


@pytest.mark.grid
def test_fewer_texts_widen_every_band_of_every_machine() -> None:
    hold(_fewer_texts_widen_every_band, _in_parts())


def _in_parts() -> list[dict[str, Any]]:
    return [
        machine
        for machine in everything()["machine"]
        if texts_of(machine) and all_reduce_range(machine)[1]
    ]


def test_fewer_texts_widen_the_range_of_a_share_of_the_machines() -> None:
    hold(_fewer_texts_widen_the_range_and_never_move_it, _in_parts()[::6])


@pytest.mark.grid
def test_fewer_texts_widen_the_range_of_every_machine() -> None:
    hold(_fewer_texts_widen_the_range_and_never_move_it, _in_parts())


def test_the_floor_of_the_search_is_no_figure() -> None:
    for machine in everything()["machine"]:
        if texts_of(machine):
            low, _ = all_reduce_range(machine)
            assert low == 0 or low > 1, machine["id"]


def test_what_if_prints_no_times_of_the_floor() -> None:
    machine = next(one for one in everything()["machine"] if one["id"] == "rtxpro6000x8-turin")
    snapshot = snapshot_of(machine)
    changes = {"NCCL_MIN_NCHANNELS": "8"}
    before, after = (predict(snapshot, Settings.of(snapshot, more)) for more in ({}, changes))
    said = list(sections(compare(before, after, changes)))
    (times,) = [section for section in said if section.title == "Predicted all-reduce"]
    assert not times.table
    assert "floor" in times.paragraphs[0]
