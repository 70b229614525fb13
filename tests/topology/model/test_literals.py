"""Texts that a line must hold, of patterns with groups."""

from __future__ import annotations

import pytest

from gputop.topology.model.literals import further, literals


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("(?P<device>\\d+): Slot", [[{": Slot"}]]),
        ("pciehp (?P<what>Link Down|Card gone)", [[{"Link Down", "Card gone"}, {"pciehp "}]]),
        ("gpu (?i:xgmi) fail", [[{" fail"}, {"gpu "}]]),
        ("(?i:xgmi)", []),
    ],
)
def test_the_texts_of_groups(pattern: str, texts: list[list[set[str]]]) -> None:
    found = [sorted(map(sorted, sets)) for sets in literals(pattern)]
    assert found == [sorted(map(sorted, sets)) for sets in texts]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("(?:a (?:Cuda|cuda) x+ error|Return value) 3", {"Cuda", "cuda", "Return value"}),
        ("alphabet.*gamma.*epsilon", {"gamma"}),
        ("alpha.*(?:gamma)?", set()),
        ("alpha .* bet .* gamma|delta .* epsilon", set()),
        ("one.*two", set()),
    ],
)
def test_what_a_match_holds_beside_the_best(pattern: str, texts: set[str]) -> None:
    assert further(pattern) == texts
