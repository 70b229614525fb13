"""The Flags screen: search, explanation, what-if; predictions stay off the event loop."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.screens.flags import work
from gputop.screens.flags import work as flag_work
from gputop.screens.flags.list import FlagList
from gputop.screens.flags.screen import FlagsScreen
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.snapshot import EnvironmentVariable
from gputop.topology.model.versions import Library, LibraryName
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from tests.grid import share, shown_size, turns
from tests.support.app import (
    SIZES,
    StepFeed,
    demo_report,
    give,
    picture,
    press,
    report_of,
    rounds,
    settle,
    snapshot_of,
    text,
)
from tests.support.command import gputop

NCCL = Library(name=LibraryName.NCCL, version="2.28.9")


def screen_of(pilot: Pilot[Any]) -> FlagsScreen:
    assert isinstance(pilot.app.screen, FlagsScreen)
    return pilot.app.screen


async def calm(pilot: Pilot[Any]) -> None:
    """Wait until what is wanted has been worked out and drawn."""
    async for _ in rounds(pilot):
        screen, what_if = screen_of(pilot), pilot.app.what_if  # type: ignore[attr-defined]
        told = what_if.summary or not what_if.holds
        if screen.flags.loaded and (screen.flags.study is None or (screen.flags.answered and told)):
            await settle(pilot)
            return
    raise AssertionError("nothing was worked out")


async def open_flags(pilot: Pilot[Any], report: Report) -> None:
    await give(pilot, report)
    await press(pilot, "5")
    await calm(pilot)


async def write(pilot: Pilot[Any], words: str) -> None:
    """Put words into the line that is open, and send it off."""
    line = pilot.app.screen.query_one(Input)
    line.value = words
    await press(pilot, "enter")


def report_with(demo: str = "pcie-l40s-8", **values: str) -> Report:
    snapshot = DemoFeed(demo).at(7)
    environment = tuple(
        EnvironmentVariable(name=name, value=value, origin="environment")
        for name, value in values.items()
    )
    return Report(Node(replace(snapshot, environment=environment)).decide())


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_selected_flag_is_explained_for_this_node(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await open_flags(pilot, demo_report("pcie-l40s-8"))
        await press(pilot, "down")
        await calm(pilot)
        details = text(pilot, "#details")
        head = text(pilot, "#setting").splitlines()
        assert head[1].startswith(" NCCL_P2P_LEVEL  PXB   Sets the farthest path over which GPUs")
        assert "=LOC =NVL: P2P 0 of 28 pairs" in head[2]
        assert "• not set  4 of 28" in details
        assert "SYS      28 of 28" in details
        assert "Of 28 pairs, 4 behind one PCIe switch (PIX) use P2P now" in " ".join(
            details.split()
        )
        assert f"{len(catalogue().flags)} variables" in text(pilot, "#list")
        assert all(len(line) <= size[0] for line in picture(pilot).splitlines())


async def test_the_filter_narrows_the_list_and_goes() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await open_flags(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "ampersand")
        await write(pilot, "gdr level")
        await calm(pilot)
        lines = text(pilot, "#list").splitlines()[1:]
        names = [re.findall(r"\w+_\w+", line)[0] for line in lines]
        assert names[:2] == ["NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL"] or len(names) < 10
        await press(pilot, "escape")
        await calm(pilot)
        assert f"{len(catalogue().flags)} variables" in text(pilot, "#list")
        await press(pilot, "ampersand")
        await write(pilot, "no such words")
        await settle(pilot)
        assert "nothing matches" in text(pilot, "#list")


async def test_the_filter_selects_its_best_match_and_leaves_it_selected() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_flags(pilot, demo_report("hgx-h100-8"))
        assert "no variables set; defaults apply" in text(pilot, "#list")
        await press(pilot, "end", "ampersand")
        await write(pilot, "p2p level")
        await settle(pilot)
        assert text(pilot, "#list").splitlines()[1].startswith("transport  ›NCCL_P2P_LEVEL")
        await press(pilot, "escape")
        await settle(pilot)
        assert " ›NCCL_P2P_LEVEL" in picture(pilot)


async def test_a_change_is_predicted_summed_up_copied_and_undone() -> None:
    app = GpuTop()
    async with app.run_test(size=(160, 50)) as pilot:
        await open_flags(pilot, demo_report("pcie-l40s-8"))
        await press(pilot, "down", "e")
        await write(pilot, "PHB")
        await calm(pilot)
        async for _ in rounds(pilot):
            if app.what_if.summary:
                break
        assert "NCCL_P2P_LEVEL=PHB" in text(pilot, "#what-if")
        assert "P2P for 8 more pairs (12 of 28)" in text(pilot, "#what-if")
        assert "› PHB" in text(pilot, "#details")
        assert "What changes with NCCL_P2P_LEVEL=PHB" in text(pilot, "#details")
        assert "(not set) → PHB" in text(pilot, "#list")
        await press(pilot, "ampersand")
        await write(pilot, "nccl_shm_disable")
        await press(pilot, "v")
        await calm(pilot)
        await press(pilot, "y")
        assert app.clipboard == "export NCCL_P2P_LEVEL=PHB NCCL_SHM_DISABLE=1"
        await press(pilot, "u")
        await calm(pilot)
        assert "NCCL_SHM_DISABLE=1" not in text(pilot, "#what-if")
        await press(pilot, "u")
        await calm(pilot)
        assert "WHAT IF" not in text(pilot, "#what-if")
        await press(pilot, "u")
        assert "no what-if is set" in {str(n.message) for n in app._notifications}


async def test_values_to_try_go_round() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_flags(pilot, demo_report("pcie-l40s-8"))
        await press(pilot, "down")
        screen = screen_of(pilot)
        seen = []
        for _ in range(7):
            await press(pilot, "v")
            seen.append(screen.flags.tried.now("NCCL_P2P_LEVEL"))
        assert seen == ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS", None]
        assert not screen.flags.tried.wanted


async def test_what_is_set_stands_first_with_its_mark_and_origin() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_flags(
            pilot,
            report_with(NCCL_P2P_LEVEL="phb", NCCL_P2P_DISABLED="1", NCCL_SHM_DISABLE="1"),
        )
        lines = text(pilot, "#list").splitlines()[1:4]
        assert [line[10:12] for line in lines] == ["?›", "! ", "* "]
        assert lines[0].startswith("set ")
        assert "(environment)" in lines[2]
        assert "3 set, 1 without effect, 1 unknown" in text(pilot, "#list")
        assert "NCCL_P2P_DISABLE" in text(pilot, "#details")
        await press(pilot, "down", "down", "delete")
        await calm(pilot)
        assert "NCCL_SHM_DISABLE unset" in text(pilot, "#what-if")


async def test_a_machine_without_gpus_lists_the_flags_and_what_is_set() -> None:
    bare = snapshot_of(())
    shm = EnvironmentVariable(name="NCCL_SHM_DISABLE", value="1", origin="environment")
    feed = StepFeed(bare)
    async with GpuTop(feed, interval=0.05).run_test(size=(100, 30)) as pilot:
        await press(pilot, "5")
        async for _ in rounds(pilot):
            if "variables" in text(pilot, "#list"):
                break
        await calm(pilot)
        assert "No prediction: no GPU takes part." in text(pilot, "#details")
        assert "no variables set" in text(pilot, "#list")
        feed.put(replace(bare, environment=(shm,)))
        async for _ in rounds(pilot):
            if "1 set" in text(pilot, "#list"):
                break
        assert "NCCL_SHM_DISABLE" in text(pilot, "#list").splitlines()[1]


async def test_hostile_values_are_plain_text() -> None:
    evil = "[red]x[/]\x1b[31m\u202e" + "A" * 400
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_flags(pilot, report_with(NCCL_TOPO_FILE=evil, **{"NCCL_[b]X": evil}))
        await press(pilot, "down", "e")
        await settle(pilot)
        shown = picture(pilot)
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "[red]x[/]" in shown


async def test_without_a_gpu_the_catalogue_is_still_there() -> None:
    report = report_of()
    report = report.of(report.node.decide())
    async with GpuTop().run_test(size=(100, 30)) as pilot:
        await open_flags(pilot, report)
        assert "No prediction: no GPU takes part." in text(pilot, "#details")
        assert "NCCL_P2P_DISABLE" in text(pilot, "#list")
        await press(pilot, "w")
        assert "P2P level to LOC" in " ".join(text(pilot, "Panel Board").split())


async def test_a_slow_prediction_does_not_hold_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    held, asked = threading.Event(), []

    def slow(study: Any, node: Any, name: str, changes: Any) -> flag_work.FlagDetails:
        asked.append(name)
        held.wait(60)
        return flag_work.FlagDetails(name=name)

    async with GpuTop().run_test(size=(100, 30)) as pilot:
        await open_flags(pilot, demo_report("hgx-h100-8"))
        monkeypatch.setattr(work, "work_out", slow)
        monkeypatch.setattr(work, "PAUSE_SECONDS", 1.0)
        table = pilot.app.screen.query_one(FlagList)
        before = table.place
        for _ in range(5):
            await pilot.press("down")
        await settle(pilot)
        assert table.place == before + 5
        assert "working out" in text(pilot, "#details")
        await asyncio.sleep(1.5)
        assert len(asked) <= 1, "moving through the list asks for the last flag alone"
        held.set()
        await calm(pilot)


async def test_a_defect_of_gputop_is_reported_and_the_screen_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(study: Any, node: Any, name: str, changes: Any) -> None:
        raise RuntimeError("broken here")

    app = GpuTop()
    async with app.run_test(size=(100, 30)) as pilot:
        await open_flags(pilot, demo_report("hgx-h100-8"))
        monkeypatch.setattr(work, "work_out", broken)
        await press(pilot, "down")
        async for _ in rounds(pilot):
            if app.trouble:
                break
        assert "broken here" in app.trouble


KEYS: dict[str, tuple[str, ...]] = {"flag": ("down",), "what-if": ("down", "v", "v")}


@pytest.mark.parametrize(("size", "case"), turns(SIZES, KEYS), ids=shown_size)
def test_picture(snap_compare: Any, size: tuple[int, int], case: str) -> None:
    async def draw(pilot: Pilot[Any]) -> None:
        await open_flags(pilot, demo_report("pcie-l40s-8"))
        for key in KEYS[case]:
            await press(pilot, key)
            await calm(pilot)

    assert snap_compare(GpuTop(), terminal_size=size, run_before=draw)


def test_a_name_that_nobody_knows_is_reported_without_gpus_too() -> None:
    bare = snapshot_of(())
    details = flag_work.work_out(Study(bare), Node(bare), "NCCL_P2P_LVL", {})
    assert details is not None
    assert "NCCL_P2P_LEVEL" in str(details.flag)


@pytest.mark.parametrize(
    ("demo", "number"),
    share([("pcie-l40s-8", "2.21"), ("sick-h100-8", "2.26.2"), ("mi300x-8", "2.28.3")], 3),
)
async def test_another_version_is_tried_on_all_screens_and_told_as_by_the_command(
    demo: str, number: str
) -> None:
    app = GpuTop()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_flags(pilot, demo_report(demo))
        name = app.words.library
        assert screen_of(pilot).query_one(FlagList).selected == f"{name}_P2P_DISABLE".replace(
            "RCCL", "NCCL"
        )
        await press(pilot, "up", "e")
        await write(pilot, number)
        await calm(pilot)
        details = " ".join(text(pilot, "#details").split())
        told = gputop("explain", "--demo", demo, "--against", number).stdout
        head = " ".join(told.replace(demo, "this node").split()).partition(" GB/s")[0]
        assert head in details
        assert f"Predictions follow {name} " in details
        decisions = told.partition("What changes, ")[2].partition("\n\n")[0]
        assert " ".join(decisions.split()) in details
        for key in map(str, range(1, len(NAMES) + 1)):
            await press(pilot, key)
            await settle(pilot)
            assert f" WHAT IF  {name} {number}" in text(pilot, "#what-if")
        await press(pilot, "1", "u")
        await settle(pilot)
        assert not app.what_if.holds
        assert app.report is app.what_if.real


async def test_no_version_is_tried_that_is_none() -> None:
    app = GpuTop()
    async with app.run_test(size=(80, 24)) as pilot:
        await open_flags(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "up", "e")
        await write(pilot, "newest")
        await settle(pilot)
        assert not app.what_if.holds
        await press(pilot, "v", "v")
        assert app.what_if.tried.wanted == {"NCCL": "2.30.7"}
        await press(pilot, "delete")
        assert not app.what_if.holds
