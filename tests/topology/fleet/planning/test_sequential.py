"""The rule for repeated looks, and its error rates as the documentation says them."""

from __future__ import annotations

import pytest

from gputop.topology.fleet.planning.sequential import (
    FALSE_ACCUSATION,
    FALSE_ACQUITTAL,
    OPEN,
    SICK,
    SICK_RATE,
    WELL,
    WELL_RATE,
    clean_looks,
    decided,
    missed,
    outcome,
)


@pytest.mark.parametrize(
    ("bad", "good", "end"),
    [(0, 0, OPEN), (2, 0, OPEN), (3, 0, SICK), (3, 2, SICK), (3, 3, OPEN), (0, 13, OPEN),
     (0, 14, WELL), (1, 14, OPEN), (1, 24, WELL), (4, 12, SICK)],
)  # fmt: skip
def test_so_many_looks_decide(bad: int, good: int, end: str) -> None:
    assert decided(bad, good) == end


def test_both_error_rates_keep_walds_bounds() -> None:
    well, sick = outcome(WELL_RATE, 100), outcome(SICK_RATE, 100)
    assert well[SICK] <= FALSE_ACCUSATION
    assert sick[WELL] <= FALSE_ACQUITTAL
    assert sick[SICK] > 0.99
    assert outcome(1.0, 3)[SICK] == 1.0
    assert sum(well.values()) == pytest.approx(1.0)


def test_rare_looks_miss_what_is_bad_now_and_then() -> None:
    assert clean_looks() == 14
    assert missed(2) == pytest.approx(0.49)
    assert missed(14) < 0.01
