"""Rules of memory errors: which counts are new, and where ECC is missed."""

from __future__ import annotations

from tests.topology.diagnosis.device_rules import H100, L40S, about, at


def test_an_error_count_that_began_anew_is_new() -> None:
    counter = "readings.gpus[2].ecc.uncorrected_volatile"
    (found,) = about("ecc-uncorrected", at(H100, (counter, 1)), earlier=at(H100, (counter, 5)))
    assert found.evidence[0].value == "1 since the earlier reading, 1 since the driver loaded"
    assert about("ecc-uncorrected", at(H100, (counter, 0)), earlier=at(H100, (counter, 5))) == []
    # Another board in the slot: its count says nothing about when.
    other = at(H100, (counter, 0), ("machine.gpus[2].uuid", "GPU-other"))
    (found,) = about("ecc-uncorrected", at(H100, (counter, 4)), earlier=other)
    assert found.severity == "notice"


def test_ecc_counts_nothing_on_boards_that_come_without() -> None:
    off = (("machine.gpus[*].ecc_enabled", False), ("machine.gpus[*].ecc_pending", False))
    assert about("ecc-off", at(L40S, *off)) != []
    cards = at(L40S, *off, ("machine.gpus[*].name", "NVIDIA GeForce RTX 4090"))
    assert about("ecc-off", cards) == []
    assert about("ecc-off", at(L40S, *off, ("machine.gpus[*].name", "NVIDIA Unheard-of 9"))) == []
