"""The help of every screen: each key once, whole, and most of it without scrolling."""

from __future__ import annotations

from collections import Counter

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.screens.key_line import COMMON
from gputop.widgets.board import Board
from gputop.widgets.panels import HelpPanel
from gputop.widgets.spans import text_of
from tests.support.app import app_of, demo_report, give, press


async def test_each_key_is_shown_once() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        for number in range(1, len(NAMES) + 1):
            await press(pilot, str(number), "question_mark")
            assert isinstance(pilot.app.screen, HelpPanel)
            lines = pilot.app.screen.query_one(Board).lines
            heads = ["".join(text for text, ink in line if ink == "key bold") for line in lines]
            keys = [head for head in heads if head]
            listed = Counter(key for text in keys for key in text.strip().split("  "))
            assert {f"1 to {len(NAMES)}", "x", "t", "?", "q", "w"} <= set(listed), number
            assert set(listed.values()) == {1}, number
            assert all(text.endswith("  ") and "…" not in text for text in keys), number
            assert len(lines) <= 30, number
            await press(pilot, "escape")


async def test_enter_explains_a_flag_as_it_explains_all_else() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "5", "question_mark")
        lines = [text_of(line) for line in pilot.app.screen.query_one(Board).lines]
        assert sum("Enter" in line for line in lines) == 1
        assert any("Enter  w" in line and "why" in line for line in lines)


async def test_what_a_key_does_everywhere_is_not_said_where_it_does_something_else() -> None:
    report = demo_report("hgx-h100-8")
    async with GpuTop().run_test(size=(120, 60)) as pilot:
        await give(pilot, report)
        app = app_of(pilot)
        for number in range(1, len(NAMES) + 1):
            await press(pilot, str(number))
            assert app.view is not None
            own = {
                name
                for key in app.view.KEYS
                for name in ((key.written or key.name).split("  ") + key.key.split(","))
            }
            await press(pilot, "question_mark")
            assert isinstance(app.screen, HelpPanel)
            said = " ".join(app.screen.query_one(Board).text().split())
            for key in COMMON:
                names = {*(key.written or key.name).split("  ")}
                meaning = " ".join(report.words.fill(key.help).split())
                assert not key.help or (meaning in said) == (not names <= own), (number, key)
            assert "{" not in said, number
            await press(pilot, "escape")
