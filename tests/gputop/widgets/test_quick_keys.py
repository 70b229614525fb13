"""Keys that come faster than screens change."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from textual import events
from textual.await_complete import AwaitComplete
from textual.widgets import Input, OptionList

from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.widgets.panels import ChoicePanel, HelpPanel
from tests.grid import share
from tests.support.app import demo_report, press, settle


async def test_what_is_typed_behind_a_slash_is_no_command() -> None:
    app = GpuTop()
    async with app.run_test(size=(80, 24)) as pilot:
        app.post_message(ReportReady(demo_report("sick-h100-8")))
        await pilot.press("5")
        await pilot.pause()
        shown = app.screen
        for key, character in (("ampersand", "&"), ("upper_p", "P"), ("2", "2"), ("q", "q")):
            app.post_message(events.Key(key, character))
        await pilot.pause()
        await pilot.pause()
        assert app.screen is shown
        assert shown.query_one(Input).value == "P2q"


async def test_a_closed_panel_closes_nothing_else() -> None:
    app = GpuTop()
    async with app.run_test(size=(80, 24)) as pilot:
        given: list[str | None] = []
        choice = ChoicePanel("One", [("a", "a"), ("b", "b")])
        keys = HelpPanel("Two", [], [("a", "b")], app)
        app.push_screen(choice, given.append)
        await pilot.pause()
        options = choice.query_one(OptionList)
        app.pop_screen()
        late = OptionList.OptionSelected(options, options.get_option_at_index(1), 1)
        choice.on_option_list_option_selected(late)
        await app.push_screen(keys)
        choice.action_close()
        assert app.screen is keys
        await pilot.press("escape")
        assert len(app.screen_stack) == 1
        keys.action_close()
        assert len(app.screen_stack) == 1
    assert given == []


@pytest.mark.parametrize(
    "opener", share(["slash", "question_mark", "ampersand", "f", "t", "w", "ctrl+p"], 2)
)
async def test_ctrl_c_closes_what_is_open_and_then_the_app(opener: str) -> None:
    app = GpuTop()
    async with app.run_test(size=(100, 30)) as pilot:
        app.post_message(ReportReady(demo_report("sick-h100-8")))
        await pilot.pause()
        await pilot.press(opener)
        await pilot.pause()
        assert len(app.screen_stack) > 1 or isinstance(app.focused, Input)
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert (len(app.screen_stack), app.focused, app.is_running) == (1, None, True)
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert not app.is_running


@pytest.mark.parametrize("opener", [("slash",), ("question_mark",), ("5", "enter")])
async def test_ctrl_c_twice_leaves_while_a_panel_closes(opener: tuple[str, ...]) -> None:
    app = GpuTop()
    async with app.run_test(size=(100, 30)) as pilot:
        app.post_message(ReportReady(demo_report("sick-h100-8")))
        await press(pilot, *opener)
        for _ in range(2):
            app.post_message(events.Key("ctrl+c", "\x03"))
        await settle(pilot)
        assert not app.is_running


@pytest.mark.parametrize("gone", [False, True], ids=["slow", "gone"])
async def test_a_closing_panel_takes_no_ctrl_c_along(
    monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    app = GpuTop()
    async with app.run_test(size=(100, 30)) as pilot:
        app.post_message(ReportReady(demo_report("sick-h100-8")))
        await press(pilot, "question_mark")
        monkeypatch.setattr(HelpPanel, "dismiss", lambda _panel, _result=None: AwaitComplete())
        await press(pilot, "ctrl+c")
        assert app.is_running
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + 60.0)
        monkeypatch.setattr("gputop.widgets.quick_keys.time", later)
        if gone:
            # What is given to a screen behind its end is handled by nobody.
            monkeypatch.setattr(HelpPanel, "_forward_event", lambda *_: None)
        app.post_message(events.Key("ctrl+c", "\x03"))
        await settle(pilot)
        assert not app.is_running


async def test_ctrl_c_closes_a_line_that_is_open_again() -> None:
    app = GpuTop()
    async with app.run_test(size=(100, 30)) as pilot:
        app.post_message(ReportReady(demo_report("sick-h100-8")))
        for _ in range(2):
            await press(pilot, "slash", "a", "ctrl+c")
            assert app.is_running
            assert app.focused is None
