"""The Fleet screen of a made-up folder: 32 nodes that wrote, two that did not, and their pairs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from gputop.fleet_app import FleetApp
from gputop.live.fleet_watch import FleetWatch
from tests.gputop.screens.fleet.made import ASKED, fabric, nodes, pairs
from tests.support.app import press, settle

from .cells import Row, rows_of

KEYS = {"odd": "1", "groups": "2", "figures": "3", "links": "4", "nodes": "5"}


async def fleet_screens(folder: Path, size: tuple[int, int]) -> dict[str, tuple[Row, ...]]:
    """Every tab at one size, by its name; `folder` is empty, or was filled by this."""
    return {name: rows_of(pilot.app) async for name, pilot in each_tab(folder, size)}


async def each_tab(folder: Path, size: tuple[int, int]) -> AsyncIterator[tuple[str, Pilot[Any]]]:
    """The name of each tab, and the app while it shows it."""
    if not any(folder.iterdir()):
        nodes(folder)
        pairs(folder)
    watch = FleetWatch(str(folder), ASKED, fabric())
    watch.look()
    app = FleetApp(watch)
    app.folder = "checks"
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for name, key in KEYS.items():
            await press(pilot, key)
            yield name, pilot
