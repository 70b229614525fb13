"""Matrices that are wider than their room: a value is whole or not there, never cut in two."""

from __future__ import annotations

import pytest

from gputop.app import GpuTop
from gputop.topology.explain.pair_summary import pair_summary
from gputop.topology.flags.what_if.changes import with_changes
from gputop.topology.model.units import figure
from gputop.topology.report import Report
from gputop.widgets.nccl_measures import taken_gbs
from gputop.widgets.pair_matrix import PairMatrix
from gputop.widgets.spans import Grid
from tests.grid import share, turns
from tests.support.app import demo_report, give, picture, press

WHOLE = {"X", "·", "PIX", "PXB", "PHB", "NODE", "SYS", "NV18", "[NV18]", "[NODE]", "[SYS]", "[PIX]"}
DEVICES = {f"{kind}{number}" for kind in ("GPU", "NIC") for number in range(8)}


def values(shown: str) -> set[str]:
    """The words in the rows of the matrix, without what stands beside it."""
    rows = [
        line for line in shown.splitlines() if line[1:4] in {"GPU", "NIC"} and line[4:5].isdigit()
    ]
    rows = [line for line in rows if "%" not in line and "mlx5" not in line and " to " not in line]
    rows = [line for line in rows if "→" not in line]
    words = {word for line in rows for word in line.lstrip(" ›").split()[1:]}
    return {word for word in words if word[0].isalpha() or word[0] in "[]"} - DEVICES


@pytest.mark.parametrize(("keys", "width"), turns(["1", "3m"], [72, 79]))
async def test_no_letters_are_cut_at_either_side(keys: str, width: int) -> None:
    async with GpuTop().run_test(size=(width, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, *keys)
        for _ in range(15):
            found = values(picture(pilot))
            assert found <= WHOLE, found - WHOLE
            await press(pilot, "right")


@pytest.mark.parametrize(("width", "fits"), share([(103, False), (80, False), (104, True)], 2))
async def test_the_chosen_pair_stays_in_sight_beside_the_scroll_bar(width: int, fits: bool) -> None:
    async with GpuTop().run_test(size=(width, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "3", "m")
        matrix = pilot.app.screen.query_one(PairMatrix)
        assert matrix.show_vertical_scrollbar
        for _ in range(15):
            chosen = next(line for line in picture(pilot).splitlines() if line.startswith("›GPU0"))
            assert "]" in chosen
            await press(pilot, "right")
        assert matrix._caption.startswith("← →") is not fits


async def test_cpus_that_do_not_fit_are_left_out_until_one_scrolls_there() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "1")
        row = next(line for line in picture(pilot).splitlines() if line.startswith(" GPU4"))
        assert "56-1" not in row
        await press(pilot, *("right",) * 6)
        assert "56-111,168-223" in picture(pilot)


async def test_tall_cells_carry_transport_path_and_rate() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("pcie-l40s-8"))
        await press(pilot, "3")
        matrix = pilot.app.screen.query_one(PairMatrix)
        lines = [line[8:62].split() for line in matrix.text().splitlines()]
        first = next(place for place, line in enumerate(lines) if line[:1] == ["·"])
        assert lines[first + 1] == ["PIX", "PHB", "PHB", *["SYS"] * 4]
        assert set(lines[first + 2]) == {"31.5"}
        assert "path, GB/s" in picture(pilot)


def test_what_stands_beneath_a_transport_is_the_rate_of_its_own_way() -> None:
    made = demo_report("sick-h100-8")
    addresses = tuple(gpu.address for gpu in made.snapshot.machine.gpus)
    changes = {"NCCL_P2P_DISABLE": "1"}
    for tried, words in (({}, {"450", "400"}), (changes, {"63.0", "31.5", "–"})):
        report = Report(made.node.follow(with_changes(made.snapshot, tried)).decide())
        found = taken_gbs(report, addresses)
        assert {value.word for value in found.values()} == words
        for pair, value in found.items():
            rate = pair_summary(report.node, *pair).link_gbs
            assert value.word == figure(rate), pair


def test_a_grid_knows_its_whole_columns() -> None:
    grid = Grid(3, (6, 11, 16))
    assert [grid.last(edge) for edge in (5, 6, 10, 11, 40)] == [5, 6, 6, 11, 16]
    assert [grid.first(edge) for edge in (0, 6, 7, 16, 17)] == [6, 6, 11, 16, 17]
