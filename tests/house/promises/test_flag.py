"""What docs/adding.md promises of a flag: one entry, and every command and the screen know it."""

from __future__ import annotations

import json

from tests.house.promises.worked_examples import example
from tests.support.copied_checkout import CopiedCheckout

NAME = "NCCL_PROMISED_FLAG"
CATALOGUE = "topology/flags/catalogue/catalogue.toml"
SCREEN = f"""
import asyncio

from textual.widgets import Input

from gputop.app import GpuTop
from gputop.screens.flags.list import FlagList
from gputop.topology.recorded.feeds import DemoFeed


async def look():
    app = GpuTop(DemoFeed("pcie-l40s-8"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5", "ampersand")
        for _ in range(3000):
            await pilot.pause(0.02)
            if lines := app.screen.query(Input):
                break
        lines.first().value = "wombats"
        await pilot.press("enter")
        for _ in range(3000):
            await pilot.pause(0.02)
            selected = app.screen.query_one(FlagList).selected
            if selected == "{NAME}":
                break
        print(selected)


asyncio.run(look())
"""


def test_a_flag_is_one_entry(checkout: CopiedCheckout) -> None:
    catalogue = checkout.root / CATALOGUE
    catalogue.write_text(f"{catalogue.read_text()}\n{example(CATALOGUE)}")
    node = "--demo pcie-l40s-8"
    explained, searched, asked = checkout.gputop(
        f"flags {NAME} {node}", f"flags --search wombats {node}", f"flags {NAME} --json {node}"
    )
    assert explained.returncode == 0, explained.stderr
    assert "Counts the wombats on the way." in explained.stdout

    assert NAME in searched.stdout
    document = json.loads(asked.stdout)
    assert document["flag"]["entry"]["name"] == NAME
    assert document["flag"]["entry"]["default"] == "7"

    screen = checkout.python("-c", SCREEN)
    assert screen.stdout == f"{NAME}\n", screen.stderr
