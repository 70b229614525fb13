"""What all screens have in common."""

from __future__ import annotations

from gputop.app import GpuTop
from tests.support.app import app_of, demo_report, give


async def test_an_answer_that_comes_after_the_parts_of_a_screen_went_draws_nothing() -> None:
    """Threads answer while the app ends, whose parts go before their screen."""
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await pilot.press("3")
        app = app_of(pilot)
        view = app.view
        assert view is not None
        assert view.is_whole
        await view.query("#top, #matrix").remove()
        assert view.children, "a screen has parts of Textual's too"
        assert not view.is_whole
        app.what_if.show()
        view.redraw()
        assert not app.trouble
