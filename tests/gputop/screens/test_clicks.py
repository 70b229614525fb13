"""What looks clickable is: headings, cells, values of a variable, views of the probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.events import MouseScrollDown
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.fleet_app import FleetApp
from gputop.live.fleet_watch import FleetWatch
from gputop.screens.node.table import SORTS, GpuTable
from gputop.widgets.board import Board
from gputop.widgets.named_list import NamedList, headings
from gputop.widgets.panels import ChoicePanel
from gputop.widgets.spans import text_of
from tests.gputop.screens.fleet.made import nodes
from tests.gputop.screens.probes.shown import healthy
from tests.grid import share
from tests.support.app import app_of, demo_report, give, picture, press, rounds, settle, text


async def click(pilot: Pilot[Any], board: Board, x: int, line: int) -> None:
    """Click on a cell of a board."""
    at = board.content_region.offset
    await pilot.click(offset=(at.x + x, at.y + line))
    await settle(pilot)


async def sorts_by_every_heading(pilot: Pilot[Any], rows: NamedList) -> set[str]:
    """Click on each heading three times; gives the headings."""
    given = rows._names
    titles = dict(headings(rows.lines[0]))
    for title, cells in titles.items():
        seen = []
        for _ in range(3):
            await click(pilot, rows, (cells.start + cells.end) // 2, 0)
            seen.append(rows._names)
            assert sorted(rows._names) == sorted(given)
        first, second, third = seen
        assert third == given, title
        said = dict(headings(rows.lines[0]))
        assert said == titles
        words = [[text_of(line)[cells.start : cells.end] for line in rows.lines[1:]]]
        if len(set(words[0])) == len(words[0]):
            once, again = ([n for n in names if "job:" not in n] for names in (first, second))
            assert once == again[::-1], title
    return set(titles)


@pytest.mark.parametrize(
    ("key", "name", "some"),
    [("4", "#probe-list", {"cost", "memory", "probe"}), ("7", "#job-list", {"util", "rank"})],
)
async def test_a_heading_sorts_the_list_and_reverses_it(
    key: str, name: str, some: set[str]
) -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        await press(pilot, key)
        rows = pilot.app.screen.query_one(name, NamedList)
        before = list(rows._names)
        assert some <= await sorts_by_every_heading(pilot, rows)
        if key == "7":
            cells = dict(headings(rows.lines[0]))["rank"]
            await click(pilot, rows, cells.end - 2, 0)
            assert rows._names[0] == before[0], "a job stays above its ranks"
            assert list(rows._names[1:7]) == before[6:0:-1]
            assert "rank↓" in text(pilot, name)


@pytest.mark.parametrize("tab", share("1235", 2))
async def test_the_headings_of_a_fleet_sort(tab: str, tmp_path: Path) -> None:
    nodes(tmp_path)
    watch = FleetWatch(str(tmp_path))
    watch.look()
    async with FleetApp(watch).run_test(size=(160, 50)) as pilot:
        await press(pilot, tab)
        rows = pilot.app.screen.query_one("#fleet-list", NamedList)
        assert len(await sorts_by_every_heading(pilot, rows)) > 1


@pytest.mark.parametrize("demo", share(["sick-h100-8", "pcie-l40s-8", "mi300x-8"], 2))
async def test_the_headings_of_node_sort_as_the_key_does(demo: str) -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report(demo))
        table = pilot.app.screen.query_one("#gpus", GpuTable)
        found = set()
        for title, cells in dict(headings(table.lines[0])).items():
            before, rows = table.sorted_by, [row.gpu.address for row in table._rows]
            await click(pilot, table, (cells.start + cells.end) // 2, 0)
            once = [row.gpu.address for row in table._rows]
            if table.sorted_by == before and once == rows:
                continue
            found.add(table.sorted_by)
            caption = str(table.border_title)
            assert (table.sorted_by in caption) == (table.sorted_by != SORTS[0]), title
            await click(pilot, table, (cells.start + cells.end) // 2, 0)
            assert table._rising or title in ("GPU", "Util 60 s")
        assert {"utilisation", "memory", "power", "temperature"} <= found


async def test_a_cell_of_the_links_opens_its_pair() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        links = pilot.app.screen.query_one("#links", Board)
        gpus = [gpu.address for gpu in demo_report("sick-h100-8").snapshot.machine.gpus]
        head = text_of(links.lines[0])
        await click(pilot, links, head.index("GPU5"), 3)
        app = app_of(pilot)
        assert (app.selected.pair, app.view and app.view.name) == ((gpus[2], gpus[5]), "pairs")
        assert "GPU2 → GPU5" in picture(pilot)
        await press(pilot, "1")
        await click(pilot, links, head.index("NIC0"), 3)
        assert app.view is not None
        assert app.view.name == "map"


async def test_the_name_of_a_demo_opens_the_choice_of_demos() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        top = picture(pilot).splitlines()[0]
        await pilot.click(offset=(top.index("invented"), 0))
        await settle(pilot)
        assert isinstance(pilot.app.screen, ChoicePanel)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("1", "#links"),
        ("5", "#list"),
        ("5", "#details"),
    ],
)
async def test_the_wheel_scrolls_what_is_under_it(key: str, name: str) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        await press(pilot, key)
        async for _ in rounds(pilot):
            board = pilot.app.screen.query_one(name, Board)
            if board.max_scroll_y:
                break
        before = board.scroll_offset.y
        at = board.content_region.offset
        await pilot._post_mouse_events(  # pilot has no method for the wheel
            [MouseScrollDown], offset=(at.x + 3, at.y + 3), button=0
        )
        await settle(pilot)
        assert board.scroll_offset.y > before


async def test_a_row_of_values_is_tried() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("pcie-l40s-8"))
        await press(pilot, "5")
        async for _ in rounds(pilot):
            if "NCCL_P2P_LEVEL" in text(pilot, "#list"):
                break
        await press(pilot, "down")
        async for _ in rounds(pilot):
            lines = picture(pilot).splitlines()
            places = [y for y, line in enumerate(lines) if " PHB " in line and "of 28" in line]
            if places:
                break
        await pilot.click(offset=(6, places[0]))
        await settle(pilot)
        assert app_of(pilot).what_if.tried.now("NCCL_P2P_LEVEL") == "PHB"


async def test_views_and_levels_are_chosen() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, healthy())
        await press(pilot, "4")
        lines = picture(pilot).splitlines()
        (at,) = [y for y, line in enumerate(lines) if "normal" in line and "full" in line]
        levels, views = lines[at : at + 2]
        await pilot.click(offset=(levels.index("full"), at))
        await settle(pilot)
        assert "cost at level full" in text(pilot, "#probe-list")
        await pilot.click(offset=(views.index("earlier runs"), at + 1))
        await settle(pilot)
        assert pilot.app.screen.query_one("#probe-earlier").display
