"""Tables and panes beside their scroll bars: nothing is hidden, cut, or said twice."""

from __future__ import annotations

import re

import pytest

from gputop.app import GpuTop
from gputop.live.recent import Recent
from gputop.screens.node.detail import detail_lines
from gputop.screens.node.gpu_lines import ROOMY, fitting, rows_of, table
from gputop.screens.node.table import GpuTable
from gputop.topology.explain.why import explain_gpu
from gputop.topology.model.record import Gap
from gputop.widgets.board import Board
from gputop.widgets.gpu_cells import Row
from gputop.widgets.spans import text_of, width_of
from tests.support.app import demo_report, give, gpu, press, report_of, rounds, settle
from tests.support.rule_cases import cases


@pytest.mark.parametrize("width", [60, 80, 100])
async def test_columns_leave_room_for_the_scroll_bar_at_once(width: int) -> None:
    async with GpuTop().run_test(size=(width, 24)) as pilot:
        # A file is drawn once: no later tick mends it.
        await give(pilot, report_of(tuple(gpu(number) for number in range(16))))
        await settle(pilot)
        table = pilot.app.screen.query_one(GpuTable)
        assert table.show_vertical_scrollbar
        room = table.scrollable_content_region.width
        assert room == width - 1
        assert max(map(width_of, table.lines)) <= room
        # Lines out of sight are made when they come into view.
        assert not table.lines[-1]
        table.scroll_end(animate=False)
        await settle(pilot)
        assert text_of(table.lines[-1]).split()[0] == "15"


async def test_the_heading_over_a_jobs_variables_is_whole() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("mi250x-8"))
        await press(pilot, "7")
        async for _ in rounds(pilot):
            board = pilot.app.screen.query_one("#job", Board)
            if "by the rules of" in board.text():
                break
        assert "by the rules of" in " ".join(board.text().split())
        assert max(map(width_of, board.lines)) <= board.scrollable_content_region.width


def test_why_no_link_was_read_is_reported_once() -> None:
    card = gpu(0, nvlinks=(), gaps=(Gap("nvlinks", "Invalid Argument"), Gap("vbios", "no answer")))
    lines = [text_of(line) for line in detail_lines(Row(card, None, {}), 80)]
    assert sum("Invalid Argument" in line for line in lines) == 1
    assert any("NVLink" in line and "not read: Invalid Argument" in line for line in lines)
    assert not any("no answer" in line for line in lines)
    node = report_of((card,)).node
    facts = explain_gpu(node, card).facts
    assert any(fact.value == "vbios" and fact.because == "no answer" for fact in facts)


def test_a_model_without_nvlink_says_so() -> None:
    card = gpu(0, name="NVIDIA L40S", nvlinks=(), gaps=(Gap("nvlinks", "Invalid Argument"),))
    lines = [text_of(line) for line in detail_lines(Row(card, None, {}), 80)]
    assert any("NVLink" in line and "none on this GPU" in line for line in lines)


def test_links_at_half_rate_carry_what_the_graph_says() -> None:
    (case,) = (case for case in cases() if case.name == "nvlink-slow-rate")
    card = case.snapshot.machine.gpus[0]
    (line,) = (
        text_of(line)
        for line in detail_lines(Row(card, None, {}), 300)
        if "payload one way" in text_of(line)
    )
    assert "425 GB/s payload one way" in line


@pytest.mark.parametrize("width", [60, 80, 120, 160, 200])
async def test_memory_is_in_gib_and_traffic_both_ways_where_there_is_room(width: int) -> None:
    report = demo_report("hgx-h100-8")
    rows = rows_of(report.node.snapshot, recent=Recent())
    heading, first = (text_of(line) for line in table(rows, width)[:2])
    assert "Mem GiB" in heading
    assert ("Power W" in heading) == (width >= ROOMY)
    assert ("68.5/79.6" if width >= 200 else "68/80") in first
    assert bool(re.search(r"18/18 +↑\d+ +↓\d+", first)) == (width >= ROOMY)
    assert all(column.title != "60 s" for column in fitting(rows, width))
    facts = " ".join(text_of(line) for line in detail_lines(rows[0], 200))
    assert "68.5 GiB used of 79.6 GiB" in " ".join(facts.split())
