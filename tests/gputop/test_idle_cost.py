"""What is not done again while nothing, or one figure, changes: counted in calls, not in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from inspect import getattr_static
from typing import Any

import pytest
from msgspec.structs import replace
from rich.style import Style

from gputop.app import GpuTop
from gputop.screens.node import screen
from gputop.topology.diagnosis import events
from gputop.topology.diagnosis.events import Watcher
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from gputop.widgets import board
from gputop.widgets.board import Board
from gputop.widgets.spans import wrapped
from tests.support.app import app_of, give, picture, settle

pytestmark = pytest.mark.usefixtures("every_picture")


def counting(
    patch: pytest.MonkeyPatch, calls: Counter[str], owner: Any, *names: str
) -> Counter[str]:
    """Count how often functions are called, and let them do their work."""

    def counted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return work(*given, **named)

        return call

    for name in names:
        patch.setattr(owner, name, counted(name, getattr(owner, name)))
    return calls


def ground_calls(patch: pytest.MonkeyPatch, calls: Counter[str]) -> None:
    """Count how often a board asks all that it lies in for its colours."""
    found: Callable[[Board], Style] = getattr_static(Board, "rich_style").fget

    def asked(self: Board) -> Style:
        calls["rich_style"] += 1
        return found(self)

    patch.setattr(Board, "rich_style", property(asked))


async def test_a_figure_that_moves_costs_its_line_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = DemoFeed("hgx-h100-8")
    first = Report(Node(feed.at(7)).decide())
    readings = list(first.snapshot.readings.gpus)
    power = readings[3].power_watts
    assert power is not None
    readings[3] = replace(readings[3], power_watts=power + 100)
    moved = replace(first.snapshot.readings, gpus=tuple(readings))
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, first)
        # The matrix is drawn once more, for the room that the first picture left it.
        await give(pilot, first.follow(replace(first.snapshot)))
        calls: Counter[str] = Counter()
        ground_calls(monkeypatch, calls)
        counting(monkeypatch, calls, screen, "matrix_lines")
        counting(monkeypatch, calls, board, "width_of", "_difference")
        counting(monkeypatch, calls, Board, "render_line")
        # The same again: nothing is measured and nothing is drawn.
        await give(pilot, first.follow(replace(first.snapshot)))
        assert calls == {}
        await give(pilot, first.follow(replace(first.snapshot, readings=moved)))
        assert f"{power + 100:.0f}" in picture(pilot)
    assert calls["_difference"] == calls["render_line"] == 1
    assert calls["matrix_lines"] == calls["rich_style"] == 0


async def test_a_new_theme_reaches_lines_that_do_not_change() -> None:
    """What a board keeps of its colours goes with the theme."""
    report = Report(Node(DemoFeed("hgx-h100-8").at(7)))
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report)
        await settle(pilot)
        app = app_of(pilot)
        table = app.screen.query_one("#gpus", Board)
        before = [segment.style for segment in table.render_line(0)]
        app.theme = "gputop-light"
        await settle(pilot)
        after = [segment.style for segment in table.render_line(0)]
        assert [style and style.bgcolor for style in before] != [
            style and style.bgcolor for style in after
        ]
        assert [style and style.color for style in before] != [
            style and style.color for style in after
        ]


def test_what_stays_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, calls = DemoFeed("sick-h100-8"), counting(monkeypatch, Counter(), events, "_links")
    watcher = Watcher()
    for tick in range(5):
        watcher.see(feed.at(tick))
    assert calls["_links"] == 1


def test_a_line_is_broken_once() -> None:
    spans = [("one two three four", "muted"), (" five", "")]
    assert wrapped(spans, 9) is wrapped(iter(spans), 9)
    assert wrapped(spans, 9) != wrapped(spans, 9, 2)
