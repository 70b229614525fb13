"""The screen Fleet: its answer, its tabs, one node and back, and a folder that changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from gputop.answers.check import CheckRequest, answer
from gputop.app import GpuTop
from gputop.exits import BACK
from gputop.fleet_app import FleetApp
from gputop.live.fleet_node import WholeNode
from gputop.live.fleet_watch import FleetWatch
from gputop.screens.fleet.node_panel import NodePanel
from gputop.widgets.board import Board
from tests.gputop.screens.fleet.made import ASKED, fabric, look_again, nodes, pairs, put, shown
from tests.grid import shown_size, turns
from tests.support.app import SIZES, demo_report, give, picture, press, rounds, settle, text
from tests.support.fleet_made import node, other

TABS = {"odd": (), "groups": ("2", "down"), "figures": ("3",), "links": ("4",), "nodes": ("5",)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("checks")
    nodes(made)
    pairs(made)
    return made


@pytest.mark.parametrize(("size", "tab"), turns(SIZES, TABS), ids=shown_size)
def test_picture(
    snap_compare: Any, folder: Path, size: tuple[int, int], tab: str, monkeypatch: Any
) -> None:
    # The name of the folder stands on the screen.
    monkeypatch.chdir(folder)
    watch = FleetWatch(".", ASKED, fabric())
    watch.look()

    async def draw(pilot: Pilot[Any]) -> None:
        await press(pilot, *TABS[tab])

    assert snap_compare(FleetApp(watch), terminal_size=size, run_before=draw)


async def test_the_first_lines_answer(folder: Path) -> None:
    async with shown(folder, (80, 24)) as (pilot, _):
        lines = picture(pilot).splitlines()
        assert lines[1].rstrip() == (
            " ✗ 2 of 34 nodes missing, 2 slow, 2 odd, 1 cannot tell; 27 healthy"
        )
        who = ["missing g[33-34]", "slow g[9,11]", "odd g[5,7]", "cannot tell g12"]
        assert lines[2].strip().split("  ") == who
        assert all(len(line) <= 80 for line in lines)


async def test_a_finding_lists_its_nodes_and_escape_goes_back(folder: Path) -> None:
    async with shown(folder) as (pilot, _):
        await press(pilot, "enter")
        assert text(pilot, "#fleet-list").splitlines()[0] == (
            "2 of 34 nodes · missing · Esc shows all"
        )
        await press(pilot, "escape")
        assert text(pilot, "#fleet-list").startswith("7 findings")


async def test_copying_gives_the_lines_for_slurm(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    monkeypatch.setattr(FleetApp, "copy_to_clipboard", lambda _, text: copied.append(text))
    async with shown(folder) as (pilot, _):
        await press(pilot, "y", "Y", "down", "y", "2", "y")
    whole = "scontrol update 'NodeName=g[33-34]' State=DRAIN Reason=\"gputop: no answer\""
    assert copied == [
        whole, whole, 'scontrol update NodeName=g7 State=DRAIN Reason="gputop: figure-odd"',
        "'--nodelist=g[1-4,6-32]'",
    ]  # fmt: skip


async def test_nodes_are_filtered_by_a_list_and_by_words(folder: Path) -> None:
    async with shown(folder) as (pilot, _):
        await press(pilot, "ampersand", *"g[1-4]")
        assert "filter “g[1-4]”: 4 of 34 nodes" in text(pilot, "#fleet-list")
        await press(pilot, "escape", "ampersand", *"odd settings", "enter")
        rows = text(pilot, "#fleet-list").splitlines()
        assert [row.split()[1] for row in rows[2:]] == ["g5"]
        await press(pilot, "escape")
        assert text(pilot, "#fleet-list").startswith("34 nodes")


async def test_a_strip_lists_its_nodes_with_the_worst_first(folder: Path) -> None:
    async with shown(folder) as (pilot, _):
        await press(pilot, "3")
        row = text(pilot, "#fleet-list").splitlines()[2]
        assert re.search(r"gemm bf16 +673.9 TFLOP/s +✓ 99 % +▼ 1 +g7 +-15.1 %", row)
        bars = text(pilot, "#fleet-detail").splitlines()
        assert any("673.9 ┤" in line for line in bars)
        assert any(line.split() == ["g7"] for line in bars)
        await press(pilot, "enter")
        assert text(pilot, "#fleet-list").splitlines()[2].split()[1] == "g7"


async def test_links_name_the_accused_rail(folder: Path) -> None:
    async with shown(folder, links=True) as (pilot, _):
        await press(pilot, "4")
        first, second = text(pilot, "#fleet-list").splitlines()[2:4]
        assert first.split()[:5] == ["g11", "·", "·", "·", "▼50"]
        # The others stand side by side, without a colour, a figure or a hole.
        assert second.split().count("·") == first.split().count("·") + 1 > 4
        rows = pilot.app.screen.query_one("#fleet-list", Board).lines[1:]
        inks = {ink for line in rows for said, ink in line if said.strip() and said[:1] == " "}
        assert inks <= {"muted", "strong", "bad", ""}
        panel = text(pilot, "#fleet-detail")
        assert "▼ g11, rail 3: its NIC, cable or switch port" in panel
        assert "leaf by leaf" in panel


async def test_an_odd_group_says_what_it_has_that_the_others_have_not(folder: Path) -> None:
    async with shown(folder) as (pilot, _):
        await press(pilot, "2")
        first, *others = text(pilot, "#fleet-list").splitlines()[2:]
        assert "the same" not in first
        assert others
        assert all("the same, but" in line for line in others if line.strip())


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_what_a_tab_lacks_is_said_whole(tmp_path: Path, size: tuple[int, int]) -> None:
    put(tmp_path, node("g1"))
    async with shown(tmp_path, size) as (pilot, _):
        await press(pilot, "4")
        board = pilot.app.screen.query_one("#fleet-list", Board)
        assert "no pair was measured" in board.text()
        assert not board.wider
        assert "gputop fleet plan DIR" in board.text()


async def test_a_cell_of_the_map_lists_its_node(folder: Path) -> None:
    async with shown(folder) as (pilot, _):
        await pilot.click("#fleet-map", offset=(1 + 2 * 8, 0))
        await settle(pilot)
        assert text(pilot, "#fleet-list").splitlines()[2].split()[1] == "g9"


async def opened(pilot: Pilot[Any]) -> None:
    """Wait for the thread that reads the file of a node."""
    async for _ in rounds(pilot):
        if isinstance(pilot.app.screen, NodePanel) or pilot.app.return_value is not None:
            return


async def test_a_node_without_a_snapshot_shows_what_its_file_says(folder: Path) -> None:
    async with shown(folder) as (pilot, _):
        await press(pilot, "5", "ampersand", *"g9", "enter", "enter")
        await opened(pilot)
        assert isinstance(pilot.app.screen, NodePanel)
        said = text(pilot, "#text")
        assert "its file holds no snapshot" in said
        assert "2 NVLinks of GPU3 are down" in said
        assert "power limit: 700 W" in said
        await press(pilot, "escape")
        assert "g9" in text(pilot, "#fleet-list")


async def test_a_node_with_a_snapshot_opens_in_the_app_of_a_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUTOP_NODE", "g1")
    asked = CheckRequest(demo="dgx-1v", as_json=True, with_snapshot=True)
    put(tmp_path, msgspec.to_builtins(answer(asked).document()), "g1")
    async with shown(tmp_path) as (pilot, _):
        await press(pilot, "5", "ampersand", *"g[1]", "enter", "enter")
        await opened(pilot)
        whole = pilot.app.return_value
    assert isinstance(whole, WholeNode)
    assert whole.snapshot is not None
    assert len(whole.snapshot.machine.gpus) == 8


async def test_a_folder_that_grows_empties_and_vanishes(tmp_path: Path) -> None:
    folder = tmp_path / "checks"
    folder.mkdir()
    async with shown(folder, (80, 24)) as (pilot, watch):
        lines = picture(pilot).splitlines()
        assert "34 missing" not in lines[1]
        assert lines[1].startswith(" ✗ 34 of 34 nodes missing")
        await press(pilot, "5", "down", "down")
        put(folder, node("g3"))
        put(folder, other(node("g1"), "driver", "driver", "1"))
        await look_again(pilot, watch)
        assert "32 of 34 nodes missing" in picture(pilot)
        assert "g3" in text(pilot, "#fleet-detail")  # the cursor stays on its node
        for path in folder.iterdir():
            path.unlink()
        await look_again(pilot, watch)
        assert "34 of 34 nodes missing" in picture(pilot)
        folder.rmdir()
        await look_again(pilot, watch)
        assert "the folder cannot be read: No such file or directory" in picture(pilot)
        assert "34 of 34 nodes missing" in picture(pilot)
        folder.mkdir()
        await look_again(pilot, watch)
        assert "cannot be read" not in picture(pilot)


async def test_names_and_titles_from_outside_are_text(tmp_path: Path) -> None:
    evil = "[red]x[/red]\x1b]0;owned\x07\u202e"
    for number in range(1, 6):
        made = node(f"g{number}")
        made["fleet"]["product"] = f"8 × {evil}"
        if number == 3:
            other(made, "driver", f"driver {evil}", evil)
            made["findings"] = [{"id": evil, "severity": "broken", "title": evil}]
            made["verdict"] = "broken"
        put(tmp_path, made)
    (tmp_path / f"{evil.replace(chr(47), chr(45))}.json").write_text("{")
    async with shown(tmp_path) as (pilot, _):
        for key in "12345":
            await press(pilot, key, "down", "enter", "escape", "escape")
            drawn = picture(pilot)
            assert not {"\x1b", "\x07", "\u202e"} & set(drawn)
        assert "[red]x" in drawn


async def test_the_palette_finds_a_node(folder: Path) -> None:
    async with shown(folder) as (pilot, _):
        await press(pilot, "slash", *"g12")
        async for _ in rounds(pilot):
            if "The node, cannot tell" in picture(pilot):
                break
        await press(pilot, "enter")
        async for _ in rounds(pilot):
            if pilot.app.screen.query("#fleet-list"):
                break
        assert text(pilot, "#fleet-detail").startswith("g12")


async def test_escape_in_the_app_of_a_node_goes_back_when_nothing_is_left_to_undo() -> None:
    app = GpuTop()
    app.parent_title = "the fleet"
    async with app.run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("dgx-1v"))
        await press(pilot, "ampersand", "1", "enter", "escape")
        assert app.return_value is None
        await press(pilot, "escape")
        assert app.return_value == BACK
