"""The last minutes of one GPU, and the wall of all GPUs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.app import GpuTop
from gputop.live.recent import SPANS, Recent
from gputop.screens.node.gpu_lines import rows_of
from gputop.screens.node.plots import plot_lines, wall_lines, wall_title
from gputop.widgets.gpu_cells import Row
from gputop.widgets.spans import text_of, width_of
from tests.support.app import demo_report, give, press, text

MADE = 8
"""Readings that are made up; then the first one comes again."""


def watched(name: str, readings: int) -> tuple[Row, ...]:
    """The GPUs of a demo after so many readings, one a second."""
    recent = Recent()
    for tick in range(readings):
        # A demo is taken when it is first asked for: here its readings are a second apart.
        snapshot = replace(demo_report(name, tick % MADE).snapshot, taken_at=1e9 + tick)
        recent.add(snapshot)
    return tuple(rows_of(snapshot, stale=False, shown=None, nics={}, recent=recent))


def test_the_wall_has_a_strip_of_each_figure_for_each_gpu() -> None:
    rows = watched("slow-job-h100-8", 25)
    lines = wall_lines(rows, rows[3].gpu.address, 119, 20)
    assert [text_of(line)[2:6] for line in lines[1:]] == [f"GPU{number}" for number in range(8)]
    assert {width_of(line) for line in lines} <= {118, 119}
    heads = text_of(lines[0]).split("  ")
    assert [head.strip() for head in heads if head.strip()] == [
        "Utilisation 0–100 %",
        "NVLink ↑↓ 0–956 GB/s",
        "Power 0–700 W",
    ]
    assert [ink for text, ink in lines[4] if "GPU3" in text] == ["strong"]
    assert wall_title(rows) == "Every GPU · last 30 s"


def test_the_selected_gpu_is_among_those_that_fit() -> None:
    rows = watched("sick-h100-8", 3)
    for chosen in rows:
        lines = wall_lines(rows, chosen.gpu.address, 79, 5)
        assert len(lines) == 5
        assert [ink for line in lines for text, ink in line if "GPU" in text].count("strong") == 1


def test_a_figure_that_no_gpu_has_takes_no_room() -> None:
    rows = watched("pcie-l40s-8", 3)
    assert "↑↓" not in text_of(wall_lines(rows, "", 119, 20)[0])
    assert wall_lines((), "", 119, 20) == ()


@pytest.mark.parametrize(("readings", "span"), [(1, 0), (25, 0), (40, 1), (100, 2)])
def test_a_chart_goes_back_as_far_as_the_readings(readings: int, span: int) -> None:
    rows = watched("hgx-h100-8", readings)
    recent = rows[0].recent
    assert recent is not None
    assert recent.span_seconds == SPANS[span]
    axis = text_of(plot_lines(rows[0], 100, 20)[-1])
    assert axis.strip().startswith(("30 s ago", "60 s ago", "2 min ago")[span])


async def test_g_goes_through_the_graphs_and_the_wall() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        shown = []
        for _ in range(3):
            await press(pilot, "g")
            links = pilot.app.screen.query_one("#links").display
            detail = pilot.app.screen.query_one("#detail").display
            shown.append((links, detail))
        assert shown == [(False, True), (False, False), (True, True)]
        await press(pilot, "g", "g")
        assert "Power 0–700 W" in text(pilot, "#plots")
        await press(pilot, "escape")
        assert pilot.app.screen.query_one("#links").display
