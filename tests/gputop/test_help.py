"""The help of every screen: each key once, whole, and most of it without scrolling."""

from __future__ import annotations

from collections import Counter

import pytest

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.widgets.board import Board
from gputop.widgets.panels import HelpPanel
from gputop.widgets.spans import text_of
from tests.support.app import demo_report, give, press


@pytest.mark.parametrize("number", range(1, len(NAMES) + 1))
async def test_each_key_is_shown_once(number: int) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, str(number), "question_mark")
        assert isinstance(pilot.app.screen, HelpPanel)
        lines = pilot.app.screen.query_one(Board).lines
        heads = ["".join(text for text, ink in line if ink == "key bold") for line in lines]
        keys = [head for head in heads if head]
        listed = Counter(key for text in keys for key in text.strip().split("  "))
        assert {f"1 to {len(NAMES)}", "x", "t", "?", "q", "w"} <= set(listed)
        assert set(listed.values()) == {1}
        assert all(text.endswith("  ") and "…" not in text for text in keys)
        assert len(lines) <= 30


async def test_enter_changes_a_flag_and_is_not_said_to_explain_it() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "5", "question_mark")
        lines = [text_of(line) for line in pilot.app.screen.query_one(Board).lines]
        assert sum("Enter" in line for line in lines) == 1
        assert any(line.startswith("w  ") and "why" in line for line in lines)
