"""The Probes screen: list, bars against bands, curves, heat maps; figures on Pairs and Map."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.measuring.history import SavedRun
from gputop.measuring.judged import Judged, judged
from gputop.messages import SuiteChanged
from gputop.screens.map.diagram import WiringDiagram
from gputop.screens.pairs.screen import PairsScreen
from gputop.screens.probes.sweeps import sweeps
from gputop.topology.expectation.judgement import LOW, Band, Judgement
from gputop.topology.model.severity import FigureBasis
from gputop.widgets.measures import visible
from gputop.widgets.meters import figure_bar, progress, verdict_of
from gputop.widgets.pair_matrix import PairMatrix
from gputop.widgets.spans import Line, text_of, width_of
from tests.gputop.screens.probes.shown import NOTED, healthy, rows, select, show, sick
from tests.grid import shown_size, turns
from tests.support.app import (
    SIZES,
    app_of,
    demo_report,
    give,
    of_a_file,
    picture,
    press,
    settle,
    text,
)
from tests.support.measured import h200_report, made_specs, one, p2p, with_figures

BAND = Band(
    healthy=90.0, low=80.0, high=100.0, unit="GB/s", basis=FigureBasis.TYPICAL, source="a table"
)


@pytest.mark.parametrize(
    ("value", "drawn"),
    [(50.0, "━━━━━━━━━"), (95.0, "┣━"), (110.0, "┣━━━┫━")],
)
def test_a_bar_shows_the_value_and_the_band(value: float, drawn: str) -> None:
    bar = text_of(figure_bar(value, value, BAND, "good", 20))
    assert len(bar) == 20
    assert drawn in bar
    assert ("├" in bar) == (value < 80)


def test_a_bar_of_several_goes_on_in_dashes() -> None:
    bar = text_of(figure_bar(40.0, 85.0, None, "good", 20))
    assert bar.count("━") == round(40 / (85 * 1.08) * 20)
    assert "╍" in bar
    assert width_of(figure_bar(0.0, 0.0, None, "good", 20)) == 20
    assert text_of(progress(5, 10, 10)) == "━━━━━─────"


def test_a_time_that_is_poor_is_called_too_long() -> None:
    falling = Band(healthy=1.0, low=1.2, high=0.9, unit="us", basis=FigureBasis.TYPICAL, source="")
    assert verdict_of(Judgement(verdict=LOW, band=falling))[1] == "too long"
    assert verdict_of(Judgement(verdict=LOW, band=BAND)) == ("▼", "low", "bad")
    assert verdict_of(Judgement(verdict=LOW, band=BAND, explained=True))[2] == "warn"
    assert verdict_of(None)[1] == "no reference"


async def test_what_is_low_stands_first_and_no_low_probe_is_ticked() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await show(pilot, sick())
        assert text(pilot, "#probes-head").lstrip().startswith("▼ ")
        assert " probes low: GPU" in text(pilot, "#probes-head")
        for name, line in rows(pilot).items():
            assert not ("low" in line and "✓" in line), name
        await give(pilot, healthy())
        await settle(pilot)
        assert text(pilot, "#probes-head").lstrip().startswith("✓ ")
        assert "nothing low" in text(pilot, "#probes-head")


def test_figures_are_judged_once() -> None:
    report = healthy()
    first = judged(report)
    assert judged(report) is first
    assert judged(report.follow(report.snapshot)) is first
    assert judged(with_figures(report, *p2p([]))) is not first
    slowest = report.snapshot.measurements[2]
    judgement = first.of(slowest)
    assert judgement is not None
    assert judgement.verdict == "healthy"


def test_a_slow_pair_has_a_curve_of_its_own() -> None:
    addresses = [gpu.address for gpu in h200_report().snapshot.machine.gpus]
    even = with_figures(h200_report(), *p2p(addresses))
    odd = with_figures(h200_report(), *p2p(addresses, slow=addresses[0]))
    for report, count in ((even, 1), (odd, 2)):
        known = Judged(report)
        (found,) = sweeps(report.snapshot.measurements, known, known.names)
        assert len(found.series) == count
        assert [size for size, _ in found.series[0].points] == [2**p for p in range(12, 31, 2)]
        assert all(low < high for _, low, high in found.band)


@pytest.mark.parametrize("size", SIZES)
async def test_without_figures_the_list_says_what_each_costs(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await show(pilot, of_a_file(demo_report("hgx-h100-8")))
        found = rows(pilot)
        assert "not run" in found["p2p"]
        assert "2+" in found["p2p"]
        assert "nothing measured yet" in text(pilot, "#probe-figures")
        assert app_of(pilot).trouble == ""
        for key in ("p", "a", "P"):
            await press(pilot, key)
            said = [note.message for note in app_of(pilot)._notifications]
            assert "a file cannot be measured; the live node can, and a demo is simulated" in said
            app_of(pilot).clear_notifications()
        assert app_of(pilot).suite is None


async def test_the_cost_follows_the_level() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await show(pilot, demo_report("hgx-h100-8"))
        seen = {}
        for level in ("normal", "full", "quick"):
            assert f"cost at level {level}" in text(pilot, "#probe-list")
            seen[level] = rows(pilot)["p2p"]
            await press(pilot, "L")
        assert len(set(seen.values())) == 3


async def test_bars_verdicts_and_four_numbers() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await show(pilot, healthy())
        assert "396 GB/s ✓ healthy" in rows(pilot)["p2p"]
        said = text(pilot, "#probe-figures")
        assert "write, one way ×12" in said
        assert "┣━" in said
        assert "✓ yes 12 of 12" in said
        assert "→ 450 one way →" in said
        assert "by message size" in (
            pilot.app.screen.query_one("#probe-picture").border_title or ""
        )
        await press(pilot, "w")
        why = text(pilot, "#text")
        assert "healthy" in why
        assert "torch 2.11.0" in why
        assert "from " in why


async def test_a_pattern_is_reported_once_and_a_cause_beside_the_low_ones() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await show(pilot, sick())
        said = text(pilot, "#probe-figures")
        assert said.count("Everything to and from GPU3 is low") == 1
        assert "▼ low" in rows(pilot)["p2p"]
        await select(pilot, "host")
        said = text(pilot, "#probe-figures")
        assert "GPU2" in said
        assert "PCIe gen5 x8 instead of gen5 x16" in " ".join(said.split())
        await press(pilot, "y")
        assert "▼ low" in app_of(pilot).clipboard


async def test_views_take_turns_where_there_is_little_room() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        screen = await show(pilot, sick())
        assert screen.query_one("#probe-figures").display
        await press(pilot, "tab")
        drawn = picture(pilot)
        assert "256M" in drawn
        assert "╌" in drawn
        assert "healthy 3" in text(pilot, "#probe-legend")
        await press(pilot, "tab")
        matrix = screen.query_one("#probe-matrix", PairMatrix)
        assert "198 ▼" in matrix.text()
        assert "396 ✓" in matrix.text()
        first = screen.query_one("#probe-picture").border_title
        await press(pilot, "right")
        assert screen.query_one("#probe-picture").border_title != first
        await press(pilot, "left")
        assert screen.query_one("#probe-picture").border_title == first
        await press(pilot, "tab")
        assert "no earlier run" in text(pilot, "#probe-earlier")
        assert not screen.query_one("#probe-figures").display
        await press(pilot, "tab")
        assert screen.query_one("#probe-figures").display
        assert app_of(pilot).trouble == ""


async def test_hostile_text_stays_text() -> None:
    evil = "[bold]\x1b]0;x\x07"
    figure = one(evil, evil, 5.0, evil, src=evil, variant=evil, why_none=evil, details={evil: evil})
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await show(pilot, with_figures(h200_report(), figure))
        await press(pilot, "end", "w")
        assert app_of(pilot).trouble == ""
        assert "[bold]" in text(pilot, "#text")
        assert "\x1b" not in picture(pilot)


async def test_nothing_is_drawn_again_while_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = healthy()
        screen = await show(pilot, report)
        drawn: list[object] = []
        monkeypatch.setattr(screen, "_draw_entry", lambda *given: drawn.append(given))
        await give(pilot, report.follow(report.snapshot))
        assert not drawn
        await press(pilot, "down")
        assert drawn


async def test_kept_runs_are_compared_again_only_where_they_are_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []

    def lines(runs: Any, probe: str, names: Any, width: int) -> tuple[Line, ...]:
        compared.append(probe)
        return (((f" {len(runs)} of {probe}", ""),),)

    monkeypatch.setattr("gputop.screens.probes.screen.history_lines", lines)
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        screen = await show(pilot, healthy())
        before = len(compared)
        assert compared[-1] == "p2p"
        await give(pilot, sick())  # other figures, the same runs
        assert len(compared) == before
        screen._take_runs((SavedRun(probe="p2p", taken_at=1.0),))
        await settle(pilot)
        assert compared[before:] == ["p2p"]
        assert "1 of p2p" in text(pilot, "#probe-earlier")
        await select(pilot, "gemm")
        assert compared[-1] == "gemm"
        assert "1 of gemm" in text(pilot, "#probe-earlier")


@pytest.mark.parametrize(
    ("what", "size"), turns(["healthy", "sick", "curve", "heat", "noted"], SIZES), ids=shown_size
)
def test_picture(
    snap_compare: Any, monkeypatch: pytest.MonkeyPatch, what: str, size: tuple[int, int]
) -> None:
    # Costs are estimates that get better: the pictures are of how they are drawn.
    monkeypatch.setattr("gputop.screens.probes.entries.specs", made_specs)

    async def draw(pilot: Pilot[Any]) -> None:
        await show(pilot, sick() if what in ("sick", "heat") else healthy())
        if what == "noted":
            app_of(pilot).probing.take(SuiteChanged(NOTED))
            app_of(pilot).probe = None
            await select(pilot, "gemm")
        await press(pilot, *{"curve": ["tab"], "heat": ["tab", "tab"]}.get(what, []))

    assert snap_compare(GpuTop(), terminal_size=size, run_before=draw)


async def test_pairs_show_verdicts_shares_and_the_pattern() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, sick())
        await press(pilot, "3")
        assert "Everything to and from GPU3 is low" in text(pilot, "#pattern")
        seen = {}
        for _measure in visible(app_of(pilot).report):
            await press(pilot, "m")
            shown = pilot.app.screen
            assert isinstance(shown, PairsScreen)
            seen[shown.measure.title] = text(pilot, "#matrix")
        assert "396 ✓" in seen["One way"]
        assert "198 ▼" in seen["One way"]
        assert "50 ▼" in seen["% of healthy"]
        assert "100 ✓" in seen["% of healthy"]
        assert "27.1" in seen["Via host"]
        assert "777" in seen["Total both ways"]
        assert "395" in seen["Read"]
        assert "371" in seen["Kernel write"]
        assert app_of(pilot).trouble == ""


async def test_the_map_shows_what_was_measured_on_idle_lines() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = sick()
        await give(pilot, report)
        await press(pilot, "2")
        wiring = pilot.app.screen.query_one("#wiring", WiringDiagram)
        gpus = [gpu.address for gpu in report.snapshot.machine.gpus]
        box = wiring.drawing.box(gpus[0])
        assert box is not None
        wiring.select(box)
        await settle(pilot)
        drawn = wiring.text()
        assert drawn.count("✓ 396") + drawn.count("✓ 397") == 2
        assert drawn.count("▼ 198") == 1
        assert "✓ 55/55" in drawn
        assert "▼ 28/27" in drawn or "▼ 28/28" in drawn
        assert "from the selected GPU" in text(pilot, "#chosen")
        box = wiring.drawing.box(gpus[3])
        assert box is not None
        wiring.select(box)
        await settle(pilot)
        assert wiring.text().count("▼ 198") == 3
