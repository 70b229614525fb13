"""What goes along from screen to screen, and from one start to the next."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.screens.jobs.list import JobList
from gputop.screens.map.diagram import WiringDiagram
from gputop.screens.node.table import GpuTable
from gputop.terminal.preferences import Preferences
from gputop.widgets.bars import Bar
from gputop.widgets.pair_matrix import PairMatrix
from gputop.widgets.spans import text_of
from tests.grid import share
from tests.support.app import app_of, demo_report, give, picture, press, rounds, text


def cost(pilot: Pilot[Any]) -> str:
    """What communication costs here, as Node says it."""
    return next(line for line in picture(pilot).splitlines() if "all-reduce 1 GiB" in line[:25])


async def test_the_selected_gpu_and_pair_go_from_screen_to_screen() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        report = demo_report("pcie-l40s-8")
        gpus = [gpu.address for gpu in report.snapshot.machine.gpus]
        await give(pilot, report)
        await press(pilot, "down", "down", "2")
        wiring = pilot.app.screen.query_one(WiringDiagram)
        assert wiring.box is not None
        assert wiring.box.id == gpus[2]
        await press(pilot, "3")
        matrix = pilot.app.screen.query_one(PairMatrix)
        assert matrix.pair == (gpus[2], gpus[4]), "the worst pair of that GPU"
        await press(pilot, "right", "2")
        assert wiring.pair == (gpus[2], gpus[5])
        await press(pilot, "1")
        assert pilot.app.screen.query_one(GpuTable).selected == gpus[2]
        await press(pilot, "7")
        row = pilot.app.screen.query_one(JobList).row
        assert row is not None
        assert gpus[2] in (row.job.gpus if row.user is None else row.user.gpus)
        await press(pilot, "3")
        assert matrix.pair == (gpus[2], gpus[5]), "a look elsewhere leaves the pair as it is"


async def test_a_what_if_holds_on_every_screen_until_it_is_undone() -> None:
    app = GpuTop()
    async with app.run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("pcie-l40s-8"))
        before = cost(pilot)
        assert "P2P 4, SHM 24 of 28 pairs" in before
        await press(pilot, "f", "enter")
        async for _ in rounds(pilot):
            if app.what_if.summary:
                break
        for key in map(str, range(1, len(NAMES) + 1)):
            await press(pilot, key)
            banner = pilot.app.screen.query_one("#what-if", Bar)
            assert banner.display
            line = text_of(banner.line)
            assert line.startswith(" WHAT IF  NCCL_P2P_DISABLE=1 · u undo · P2P for 0 of 28 pairs")
        await press(pilot, "1")
        assert "SHM/direct/direct between all 8 GPUs" in cost(pilot)
        # Newer readings are those of the node with the change.
        await give(pilot, demo_report("pcie-l40s-8"))
        async for _ in rounds(pilot):
            if app.what_if.summary and "SHM/direct" in cost(pilot):
                break
        assert app.what_if.real is not app.report
        await press(pilot, "2", "u", "1")
        assert not app.what_if.holds
        assert cost(pilot) == before
        assert not pilot.app.screen.query_one("#what-if").display


async def test_what_switching_p2p_off_costs_takes_two_keys() -> None:
    app = GpuTop()
    async with app.run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "f", "enter")
        async for _ in rounds(pilot):
            if app.what_if.summary:
                break
        banner = text(pilot, "#what-if")
        assert "P2P for 0 of 28 pairs" in banner
        assert "all-reduce 1 GiB: 473 → 39.9 to 230 GB/s (predicted)" in banner


async def test_ctrl_c_closes_a_line_and_then_leaves() -> None:
    app = GpuTop()
    async with app.run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        app_of(pilot).action_screen("flags")
        await press(pilot, "ampersand")
        await press(pilot, "ctrl+c")
        assert not pilot.app.screen.query(Input)
        assert app.is_running
        await press(pilot, "ctrl+c")
        assert app.return_code == 0
        assert not [note for note in app._notifications if "ctrl+q" in note.message]


async def test_theme_and_level_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "state" / "app.json"
    async with GpuTop(remembered=Preferences(path)).run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "s", "t", "down", "enter", "4", "L")
        chosen = pilot.app.theme
    assert chosen != "gputop-dark"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Preferences(path)
    assert (again.get("theme"), again.get("level")) == (chosen, "full")
    assert again.get("sort") == "utilisation"
    async with GpuTop(remembered=again).run_test(size=(120, 40)) as pilot:
        assert pilot.app.theme == chosen
        assert pilot.app.screen.query_one(GpuTable).sorted_by == "utilisation"
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "4")
        assert "level full" in text(pilot, "#probe-list")


@pytest.mark.parametrize("held", ["", "[", "[1]", '{"theme": 3, "level": "' + "x" * 300 + '"}'])
def test_a_broken_file_of_choices_is_none(tmp_path: Path, held: str) -> None:
    path = tmp_path / "app.json"
    path.write_text(held)
    assert Preferences(path).get("theme") == ""
    assert Preferences(path).get("level") == ""


def test_without_a_place_to_write_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    kept = Preferences(blocked / "app.json")
    kept.keep("theme", "gputop-light")
    assert kept.get("theme") == "gputop-light"

    def homeless(name: str) -> Any:
        raise RuntimeError("no home")

    monkeypatch.setattr("platformdirs.user_state_path", homeless)
    Preferences.of_user().keep("theme", "gputop-light")


@pytest.mark.parametrize(
    ("words", "screen", "selected"),
    share(
        [
            ("gpu3", "node", "GPU3"),
            ("mlx5_2", "map", "mlx5_2"),
            ("0-5", "pairs", "GPU0 → GPU5"),
            ("nvls_enable", "flags", "›NCCL_NVLS_ENABLE"),
        ],
        2,
    ),
)
async def test_a_search_goes_there_with_it_selected(words: str, screen: str, selected: str) -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = demo_report("hgx-h100-8")
        await give(pilot, report)
        await press(pilot, "8", "slash", *words)
        async for _ in rounds(pilot):
            found = pilot.app.screen.query_one("CommandList").option_count  # type: ignore[attr-defined]
            if found:
                break
        await press(pilot, "enter")
        async for _ in rounds(pilot):
            if pilot.app.current_mode == screen and selected in picture(pilot):
                break
        assert pilot.app.current_mode == screen
        assert selected in picture(pilot)
        gpu = report.snapshot.machine.gpus[3].address
        assert screen != "node" or pilot.app.screen.query_one(GpuTable).selected == gpu
