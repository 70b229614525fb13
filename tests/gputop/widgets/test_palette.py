"""The palette of commands, used faster than its list changes."""

from __future__ import annotations

from textual.command import CommandList

from gputop.app import GpuTop
from gputop.messages import ReportReady
from gputop.widgets.palette import Palette
from tests.support.app import demo_report


async def test_a_cursor_beyond_the_end_of_the_list_is_no_reason_to_end() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        pilot.app.post_message(ReportReady(demo_report("hgx-h100-8")))
        await pilot.pause()
        await pilot.press("ctrl+p")
        await pilot.pause()
        palette = pilot.app.screen
        assert isinstance(palette, Palette)
        commands = palette.query_one(CommandList)
        for letter in "map":
            await pilot.press(letter)
        for action in ("page_down", "page_up", "cursor_down", "first", "last"):
            # Between two letters: the list is new, the cursor is that of the old one.
            commands.set_reactive(CommandList.highlighted, 500)
            palette._action_command_list(action)
        await pilot.press("escape", "escape")
        assert pilot.app.is_running


async def test_a_palette_opens_while_the_last_one_is_still_on_its_way_out() -> None:
    app = GpuTop()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert isinstance(app.screen, Palette)
        # Both before Textual has removed the first: a busy machine, quick fingers.
        app.pop_screen()
        app.action_command_palette()
        await pilot.pause()
        assert isinstance(app.screen, Palette)
        assert len(app.screen_stack) == 2


async def test_a_letter_that_comes_when_the_palette_is_closed_is_no_reason_to_end() -> None:
    app = GpuTop()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+p")
        await pilot.pause()
        palette = app.screen
        assert isinstance(palette, Palette)
        palette._gather_commands("m")
        await palette.dismiss()
        palette._gather_commands("ma")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.is_running
