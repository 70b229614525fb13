"""pyte sees the same picture with Textual's driver and ours: themes, panels, sizes, colours.

tests/support/painting/judging.py does it for whatever any test draws.
"""

from __future__ import annotations

import pytest

from gputop import theming
from gputop.app import GpuTop
from tests.support.app import demo_report, give, press, settle
from tests.support.painting.judge import Judge, Watched

pytestmark = pytest.mark.usefixtures("every_picture")


async def test_every_theme_panel_and_size_looks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    app = GpuTop()
    judged = Watched(monkeypatch).of(app)
    async with app.run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        for theme in theming.builtin():
            app.theme = theme.name
            await settle(pilot)
            assert judged.differences() == [], theme.name
        for key in ("question_mark", "escape", "3"):
            await press(pilot, key)
            assert judged.differences() == [], key
        for size in ((40, 10), (90, 26)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert judged.differences() == [], size
    assert judged.frames >= 10


def test_the_judge_sees_a_difference() -> None:
    for one, other in (
        ("a", "b"),
        ("\x1b[1ma", "\x1b[ma"),
        ("\x1b[2ma", "\x1b[ma"),
        ("\x1b[38;2;1;2;3ma", "\x1b[38;2;1;2;4ma"),
        ("\x1b[44m ", "\x1b[m "),
    ):
        judge = Judge(4, 1)
        judge.theirs.feed(one)
        judge.ours.feed(other)
        assert len(judge.differences()) == 1, one
