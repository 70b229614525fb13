"""The curve of a sweep: lines run through their points, and no number of a file stops it."""

from __future__ import annotations

import pytest

from gputop.app import GpuTop
from gputop.measuring.judged import judged
from gputop.screens.probes.groups import LEAST_POINTS
from gputop.screens.probes.plot import DOTS
from gputop.screens.probes.sweeps import sweeps
from tests.gputop.screens.probes.shown import show
from tests.grid import share
from tests.support.app import app_of, give, press, text
from tests.support.measured import SIZES, h200_report, one, with_figures


@pytest.mark.parametrize("height", share([24, 30, 41, 50], 3))
async def test_a_level_line_lies_in_the_row_of_its_points(height: int) -> None:
    levels = {"a": 100.0, "b": 71.0, "c": 38.0, "d": 9.0}
    figures = [
        one("collectives", "gather_busbw", level, "GB/s", bytes_per_copy=size, variant=name)
        for name, level in levels.items()
        for size in SIZES
    ]
    async with GpuTop().run_test(size=(120, height)) as pilot:
        await show(pilot, with_figures(h200_report(), *figures))
        await press(pilot, "down", "down", "down", "down", "down", "m")
        lines = text(pilot, "#probe-curve").splitlines()
        signs = "".join(lines)
        assert all(dot in signs for dot in DOTS)
        for line in lines:
            places = [place for place, sign in enumerate(line) if sign in DOTS]
            for place in places[1:-1]:
                assert "⠀" < line[place - 1] <= "⣿", line
                assert "⠀" < line[place + 1] <= "⣿", line


@pytest.mark.parametrize(
    ("sizes", "value"),
    [((-4, -2, -1), 1.0), ((1, 2, 10**400), 1.0), ((1, 2, 4), 1.7e308), ((1, 2, 4), -1.0)],
)
async def test_figures_that_no_axis_holds_are_not_drawn(
    sizes: tuple[int, ...], value: float
) -> None:
    figures = [
        one("collectives", "all_reduce_busbw", value, "GB/s", bytes_per_copy=size) for size in sizes
    ]
    report = with_figures(h200_report(), *figures)
    known = judged(report)
    assert len(sizes) >= LEAST_POINTS
    assert sweeps(report.snapshot.measurements, known, known.names) == ()
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, report)
        await press(pilot, "4", "end", "up", "up", "up", "m")
        assert app_of(pilot).is_running
