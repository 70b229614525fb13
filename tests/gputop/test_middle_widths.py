"""Widths between narrow and wide: what stands beside a list has the room that it needs."""

from __future__ import annotations

import pytest

from gputop.app import GpuTop
from gputop.widgets.board import Board
from gputop.widgets.spans import text_of
from tests.grid import turns
from tests.support.app import demo_report, give, press, rounds


@pytest.mark.parametrize(("shape", "width"), turns(["sick-h100-8", "pcie-l40s-8"], [110, 120, 130]))
async def test_no_line_is_cut_beside_the_lists(shape: str, width: int) -> None:
    async with GpuTop().run_test(size=(width, 40)) as pilot:
        await give(pilot, demo_report(shape))
        for screen, name in (("4", "#probe-figures"), ("5", "#details")):
            await press(pilot, screen)
            async for _ in rounds(pilot):
                board = pilot.app.screen.query_one(name, Board)
                if board.lines and (screen != "5" or "What it does" in board.text()):
                    break
            room = board.scrollable_content_region.width
            lines = [text_of(line).rstrip() for line in board.lines]
            assert lines
            assert [line for line in lines if len(line) > room] == []
