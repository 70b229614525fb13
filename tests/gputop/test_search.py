"""What is found first for what people type, on a sick demo."""

from __future__ import annotations

from typing import cast

import pytest
from textual.command import Hit

from gputop.app import GpuTop
from gputop.screens.jobs.list import JobList
from gputop.search import CommandProvider, ThingProvider
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.report import Report
from gputop.widgets.board import Board
from gputop.widgets.panels import WhyPanel
from tests.support.app import app_of, demo_report, give, press, rounds, settle, text

FIRST = {
    "3": "GPU3 (3)",
    "gpu3": "GPU3 (gpu3)",
    "0 5": "GPU0 → GPU5 (0 5)",
    "nvlink": "2 NVLinks of GPU3 are down · nvlink-down",
    "slow": "2 NVLinks of GPU3 are down · nvlink-down",
    "mlx5_3": "mlx5_3",
    "41003": "rank 3 · pid 41003 · python3 · GPU3",
    "rank 3": "rank 3 · pid 41003 · python3 · GPU3",
    "torchrun": "torchrun demo",
    "map": "Map",
    "sort": "Sort the GPUs",
    "rings": "Rings and trees · Map",
    "PIX": "PIX",
    "all-reduce": "all-reduce",
    "p2p_dis": "NCCL_P2P_DISABLE",
    "light": "Theme gputop-light",
    "dgx-1v": "Demo dgx-1v",
}
"""Query -> how the title of the first hit begins."""


async def hits(app: GpuTop, query: str) -> list[Hit]:
    found: list[Hit] = []
    for kind in (CommandProvider, ThingProvider):
        provider = kind(app.screen)
        await provider.startup()
        found += [cast(Hit, hit) async for hit in provider.search(query)]
    return sorted(found, key=lambda hit: -hit.score)


async def test_what_was_meant_is_found_first() -> None:
    node = demo_report("sick-h100-8").node
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, Report(node, diagnose(Case(node))))
        wrong = {}
        for query, title in FIRST.items():
            found = [str(hit.text) for hit in await hits(app_of(pilot), query)]
            if not found or not found[0].startswith(title):
                wrong[query] = found[:3]
        assert wrong == {}
        assert not any("→" in str(hit.text) for hit in await hits(app_of(pilot), "3 3"))


async def test_a_process_is_shown_and_an_action_is_done_on_its_screen() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        (await hits(app_of(pilot), "41003"))[0].command()
        await settle(pilot)
        assert pilot.app.screen.query_one(JobList).selected == "pid:41003"
        (await hits(app_of(pilot), "rings"))[0].command()
        async for _ in rounds(pilot):
            if pilot.app.screen.name == "map" and "r next" in text(pilot, "#map-head"):
                break
        assert "r next" in text(pilot, "#map-head")


@pytest.mark.parametrize("word", ["PIX", "NVLS", "busbw"])
async def test_a_word_is_explained_by_itself_and_among_all(word: str) -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        (await hits(app_of(pilot), word))[0].command()
        await settle(pilot)
        assert isinstance(pilot.app.screen, WhyPanel)
        said = pilot.app.screen.query_one(Board).text()
        assert said.startswith(f"{word}: ")
        await press(pilot, "escape", "question_mark", "question_mark")
        assert isinstance(pilot.app.screen, WhyPanel)
        assert f"{word}: " in pilot.app.screen.query_one(Board).text()
