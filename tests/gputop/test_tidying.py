"""What is given back when screens change."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from rich.color import ColorSystem
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.tidying import Tidying
from gputop.widgets.board import Board
from tests.support.app import demo_report


class Lone:
    """Something that only the collector finds."""

    itself: object = None


def lines_kept(widgets: list[Widget]) -> int:
    """Lines that these widgets have rendered and remember."""
    boards = [widget for widget in widgets if isinstance(widget, Board)]
    kept: list[Any] = [widget._styles_cache._cache for widget in widgets]
    return sum(map(len, (*kept, *(board._strips for board in boards))))


async def test_neither_a_closed_panel_nor_a_screen_behind_another_keeps_its_lines() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        pilot.app.post_message(ReportReady(demo_report("sick-h100-8")))
        await pilot.pause()
        node = list(pilot.app.screen.walk_children(Widget))
        for key in ("w", "question_mark", "t", "ctrl+p"):
            await pilot.press(key)
            await pilot.pause()
            panel = list(pilot.app.screen.walk_children(Widget))
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
        tidying = Tidying(app)
        due: list[Any] = []

        def set_timer(_: float, work: Any) -> list[Any]:
            due.append(work)
            return due

        with monkeypatch.context() as patch:
            patch.setattr(app, "set_timer", set_timer)
            for _ in range(3):
                tidying.screen_changed(app.screen)
        assert due == [tidying.collect]
        # As the widgets of a panel know each other.
        panel = Lone()
        panel.itself = panel
        closed = weakref.ref(panel)
        del panel
        tidying.collect()
        assert closed() is None
        assert tidying._cost


async def test_styles_of_old_lines_are_forgotten() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for number in range(1000):
            Strip.render_ansi(Style(meta={"offset": number}), ColorSystem.TRUECOLOR)
        await pilot.press("question_mark")
        await pilot.pause()
        assert Strip.render_ansi.cache_info().currsize < 1000
