"""The names of the measures fit on one line, whatever was measured."""

from __future__ import annotations

import pytest

from gputop.screens.pairs.screen import measure_lines
from gputop.topology.hardware.terms import terms_for
from gputop.widgets.measures import measures
from gputop.widgets.spans import text_of, width_of


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_the_names_fit_and_the_chosen_one_stays(width: int) -> None:
    words = terms_for(None)
    for chosen in measures():
        names, unit = measure_lines(measures(), chosen, words, " · simulated", width)
        assert width_of(names) < width
        assert words.fill(chosen.title) in text_of(names)
        assert width_of(unit) < width
