"""What is given back when screens change."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from rich.color import ColorSystem
from rich.style import Style
from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from gputop.app import GpuTop, MemoryTrimmer
from gputop.measuring.state import SuiteState
from gputop.messages import ProbeMeasured, ReportReady, SuiteChanged
from gputop.topology.report import Report
from gputop.widgets.board import Board
from tests.support.app import demo_report, rounds
from tests.support.measured import one
from tests.support.runs import run_of, suite_of


class Lone:
    """Something that only the collector finds."""

    itself: object = None


def lines_kept(widgets: list[Widget]) -> int:
    """Lines that these widgets have rendered and remember."""
    boards = [widget for widget in widgets if isinstance(widget, Board)]
    kept: list[Any] = [widget._styles_cache._cache for widget in widgets]
    return sum(map(len, (*kept, *(board._strips for board in boards))))


@pytest.mark.usefixtures("every_picture")
async def test_neither_a_closed_panel_nor_a_screen_behind_another_keeps_its_lines() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        pilot.app.post_message(ReportReady(demo_report("sick-h100-8")))
        await pilot.pause()
        node = list(pilot.app.screen.walk_children(Widget))
        for key in ("w", "question_mark", "t", "ctrl+p"):
            await pilot.press(key)
            await pilot.pause()
            panel: list[Widget] = []
            async for _ in rounds(pilot):  # the palette is laid out a moment after its opening
                panel = list(pilot.app.screen.walk_children(Widget))
                if lines_kept(panel):
                    break
            assert lines_kept(panel)
            await pilot.press("escape")
            await pilot.pause()
            assert not lines_kept(panel), key
        assert lines_kept(node)
        await pilot.press("2")
        await pilot.pause()
        assert not lines_kept(node)


async def test_closed_panels_are_collected_once_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    app = GpuTop()
    async with app.run_test(size=(80, 24)):
        trimmer = MemoryTrimmer(app)
        due: list[Any] = []

        def set_timer(_: float, work: Any) -> list[Any]:
            due.append(work)
            return due

        with monkeypatch.context() as patch:
            patch.setattr(app, "set_timer", set_timer)
            for _ in range(3):
                trimmer.screen_changed(app.screen)
        assert due == [trimmer.collect]
        # As the widgets of a panel know each other.
        panel = Lone()
        panel.itself = panel
        closed = weakref.ref(panel)
        del panel
        trimmer.collect()
        assert closed() is None
        assert trimmer._cost


async def test_results_that_fill_caches_over_hours_are_forgotten() -> None:
    app = GpuTop()
    async with app.run_test(size=(80, 24)):
        for number in range(1000):
            Strip.render_ansi(Style(meta={"offset": number}), ColorSystem.TRUECOLOR)
            Region(number, 0, 80, 24).intersection(Region(0, 0, 40, 12))
        MemoryTrimmer(app).collect()
        assert Strip.render_ansi.cache_info().currsize == 0
        assert Region.intersection.cache_info().currsize == 0


async def test_an_app_that_is_left_alone_tidies_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = asyncio.Event()
    monkeypatch.setattr("gputop.app.FIRST_SECONDS", 3600.0)
    monkeypatch.setattr("gputop.app.LEAST_SECONDS", 3600.0)
    monkeypatch.setattr("gputop.app.RESTING_SECONDS", 0.001)
    monkeypatch.setattr(MemoryTrimmer, "collect", lambda _: collected.set())
    async with GpuTop().run_test(size=(80, 24)):
        await asyncio.wait_for(collected.wait(), 20)


async def test_closed_filters_are_let_go() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await pilot.press("5")
        closed = []
        for _ in range(4):
            await pilot.press("ampersand")
            await pilot.pause()
            closed.append(weakref.ref(pilot.app.screen.query(Input).first()))
            await pilot.press("escape")
            await pilot.pause()
        await pilot.press("1")
        await pilot.pause()
        gc.collect()
        # What a screen knows of its widgets changes with its next drawing: one may be left.
        assert sum(line() is not None for line in closed) <= 1


def style_caches() -> int:
    """Caches of rendered lines that are alive; each widget has one."""
    gc.collect()
    return sum(isinstance(thing, StylesCache) for thing in gc.get_objects())


async def settled_caches(pilot: Pilot[Any]) -> int:
    """`style_caches`, once a screen that is still being filled adds no more."""
    count = style_caches()
    for _ in range(50):
        await pilot.pause(0.05)
        earlier, count = count, style_caches()
        if count == earlier:
            break
    return count


async def open_and_close(pilot: Pilot[Any], times: int) -> None:
    """Open the explanation and the keys, and close them again."""
    for key in ("w", "question_mark") * times:
        await pilot.press(key)
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 2
        await pilot.press("escape")
        await pilot.pause()


async def test_closed_panels_are_let_go() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        pilot.app.post_message(ReportReady(demo_report("sick-h100-8")))
        await pilot.pause()
        await open_and_close(pilot, 1)
        before = await settled_caches(pilot)
        await open_and_close(pilot, 4)
        assert await settled_caches(pilot) <= before


async def test_what_comes_faster_than_it_is_drawn_is_drawn_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Figures between two reports let none of them wait: a queue of drawings keeps keys waiting."""
    app = GpuTop()
    drawn: list[Report] = []
    states: list[SuiteState] = []
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()

        def shown(report: Report) -> Report:
            drawn.append(report)
            return report

        monkeypatch.setattr(app.what_if, "shown", shown)
        monkeypatch.setattr(app.probing, "_changed", states.append)
        reports = [demo_report("sick-h100-8", tick) for tick in range(6)]
        for number, report in enumerate(reports):
            state = suite_of(run_of("p2p", "running"), run_of("host", text=f"{number}"))
            app.post_message(ReportReady(report))
            app.post_message(ProbeMeasured(one("p2p", "copy", float(number), "GB/s")))
            app.post_message(SuiteChanged(state))
        await pilot.pause()
    assert drawn == reports[-1:]
    assert states == [state]
    assert len(app.recent._times) == len(reports)


def test_an_app_that_closes_has_no_view() -> None:
    """What a thread still posts then finds no screen, and raises nothing."""
    assert GpuTop().view is None
