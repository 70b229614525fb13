"""Texts that a line must hold, of patterns with groups."""

from __future__ import annotations

import re

import pytest

from gputop.topology.model.literals import PatternIndex, further, literals


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


def test_an_index_leaves_out_only_what_cannot_match() -> None:
    patterns = ["alpha|beta 2", "(?i:gamma)", "delta.*epsilon", "beta [12]"]
    index = PatternIndex(patterns)
    assert index.possible("a beta 1") == [1, 3]
    assert index.possible("beta 2, alpha") == [0, 1, 3]
    assert index.possible("delta alone") == [1]
    for text in ("Gamma", "the delta and epsilon", "beta 1", ""):
        matching = [at for at, one in enumerate(patterns) if re.search(one, text)]
        assert set(matching) <= set(index.possible(text))
